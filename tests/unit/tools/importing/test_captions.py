"""Captions: what other tools write is read, what is written comes back."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signloom.corpus.manifest import Clip, read_manifest
from signloom.errors import UserError
from signloom_tools.cli.main import main
from signloom_tools.importing.captioned import film_cues
from signloom_tools.importing.captions import (
    Cue,
    apply_rules,
    read_captions,
    split_name,
    write_captions,
)
from signloom_tools.importing.elan import read_elan
from signloom_tools.importing.options import Choice, CueRules
from tests.expect_error import expect_error
from tests.videos import write_video


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def lines(path: Path, choice: Choice | None = None) -> list[tuple[float, float, str]]:
    return [(cue.start_s, cue.end_s, cue.text) for cue in read_captions(path, choice).cues]


SRT = """1
00:00:01,000 --> 00:00:02,500
Guten <i>Morgen</i>,

2
00:00:02,500 --> 00:00:04,000
{\\an8}liebe Leute.

3
00:00:05,000 --> 00:00:06,000

4
01:00:00,040 --> 01:00:01,000 X1:0 X2:10
Im Jahr
1984
"""


@pytest.mark.parametrize("kind", ["plain", "CRLF and BOM", "CR", "UTF-16"])
def test_srt_is_read_however_it_is_saved(tmp_path, kind):
    text = {"plain": SRT, "CR": SRT.replace("\n", "\r")}.get(kind, SRT.replace("\n", "\r\n"))
    raw = {"CRLF and BOM": "utf-8-sig", "UTF-16": "utf-16"}.get(kind, "utf-8")
    path = write(tmp_path / "film.srt", text.encode(raw))
    assert lines(path) == [
        (1.0, 2.5, "Guten Morgen,"),
        (2.5, 4.0, "liebe Leute."),
        (5.0, 6.0, ""),
        (3600.04, 3601.0, "Im Jahr 1984"),
    ]


def test_srt_without_empty_lines_and_in_windows_letters(tmp_path):
    text = "1\n00:00:01,000 --> 00:00:02,000\nFür\n2\n00:00:03,000 --> 00:00:04,000\nzwölf\n\nüber"
    path = write(tmp_path / "film.srt", text.encode("cp1252"))
    assert lines(path) == [(1.0, 2.0, "Für"), (3.0, 4.0, "zwölf über")]
    assert lines(write(path, "1\n00:00:01 --> 00:00:02\nJa\n")) == [(1.0, 2.0, "Ja")]


VTT = """\ufeffWEBVTT - of a film
Kind: captions
Language: de

STYLE
::cue { color: red }

NOTE
00:00 is not a time

clip-a
00:01.000 --> 00:02.250 align:start
<v.loud Anna B.>Tom &amp; <c.red>Jerry</c> <00:00:01.500>lachen</v>

00:00:03.000 --> 00:00:04.000
5 &lt; 7
ist wahr

oops
00:00:xx --> 00:00:05.000
verloren
"""


def test_captions_of_youtube_that_roll_say_each_line_once(tmp_path):
    text = """WEBVTT

00:00.000 --> 00:00.800 align:start position:0%
\x20
hello<00:00:00.300><c> you</c>

00:00.800 --> 00:00.810 align:start position:0%
hello you
\x20

00:00.810 --> 00:01.700 align:start position:0%
hello you
fine<00:00:01.000><c> day</c>
"""
    expected = [(0, 0.8, "hello you"), (0.81, 1.7, "fine day")]
    assert lines(write(tmp_path / "film.vtt", text)) == expected
    payloads = ["oh<00:00:00.300><c> yes</c>"] * 2 + [
        "no",
        "no",
    ]  # words have times, and nothing rolls
    cues = [f"00:0{n}.000 --> 00:0{n}.900\n{line}" for n, line in enumerate(payloads)]
    twice = write(tmp_path / "b.vtt", "\n\n".join(["WEBVTT", *cues]))
    assert [text for *_, text in lines(twice)] == ["oh yes", "oh yes", "no", "no"]


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        (["a b", "a b", "a b\nc d", "c d", "c d\ne f"], ["a b", "c d", "e f"]),  # YouTube's
        (["a", "a\nb", "a\nb\nc", "b\nc\nd"], ["a", "b", "c", "d"]),  # television's three rows
        ([" \na", "a", "a\na", "a"], ["a", "a"]),  # the same again
        (["- ja\n- nein", "- ja\n- doch", "so", "so", "gut"], ["- ja - nein", "- ja - doch", "so",
                                                             "so", "gut"]),
        (["ja", "ja"], ["ja", "ja"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_captions_that_roll_without_times_of_words(tmp_path, kind, blocks, found):
    step = "00:00:0{0}.000 --> 00:00:0{0}.{1}"  # what shows nothing new lasts 10 ms
    rolls = found[0] == "a b" or found[-1] == "a"
    ends = ["010" if rolls and number % 2 else "900" for number in range(len(blocks))]
    cues = [f"{step.format(n, end)}\n{blocks[n]}" for n, end in enumerate(ends)]
    text = "\n\n".join([*(["WEBVTT"] if kind == "vtt" else []), *cues])
    assert [text for *_, text in lines(write(tmp_path / f"f.{kind}", text))] == found


def test_vtt_with_notes_styles_voices_and_ids(tmp_path):
    captions = read_captions(write(tmp_path / "film.vtt", VTT))
    first, second = captions.cues
    assert (first.text, first.signer, first.clip_id) == ("Tom & Jerry lachen", "Anna B.", "clip-a")
    assert (first.start_s, first.end_s, first.language) == (1.0, 2.25, "de")
    assert (second.text, second.signer, second.clip_id) == ("5 < 7 ist wahr", "", "")
    [(where, problem)] = captions.broken
    assert where == "line 20"
    assert "times cannot be read" in problem.reason


def test_json3_that_rolls_ends_a_line_where_the_next_begins(tmp_path):
    events = [
        {"tStartMs": 0, "dDurationMs": 9000, "id": 1, "wpWinPosId": 1},
        {"tStartMs": 100, "dDurationMs": 4000, "segs": [{"utf8": "so"}, {"utf8": " geht"}]},
        {"tStartMs": 2000, "dDurationMs": 2100, "aAppend": 1, "segs": [{"utf8": "\n"}]},
        {"tStartMs": 2010, "dDurationMs": 1000, "segs": [{"utf8": "das"}]},
    ]
    path = write(tmp_path / "film.de.json3", json.dumps({"events": events}))
    assert lines(path) == [(0.1, 2.01, "so geht"), (2.01, 3.01, "das")]
    assert {cue.language for cue in read_captions(path).cues} == {"de"}
    with pytest.raises(UserError, match="json3"):
        read_captions(write(path, '{"events": 7}'))


def test_table_with_times(tmp_path):
    text = "start,end,Text,speaker\n0:01.5,3,Hallo,Anna\nnie,4,Welt,Anna\n"
    captions = read_captions(write(tmp_path / "film.csv", text))
    assert captions.cues == [
        Cue(start_s=1.5, end_s=3.0, text="Hallo", signer="Anna", where="line 2")
    ]
    assert [where for where, _ in captions.broken] == ["line 3"]
    table = pa.table({"start_s": [1.25], "end_s": [2.0], "text": ["Ja"]})
    pq.write_table(table, tmp_path / "film.parquet")
    assert lines(tmp_path / "film.parquet") == [(1.25, 2.0, "Ja")]
    with pytest.raises(UserError, match="expected start_s, end_s and text"):
        read_captions(write(tmp_path / "other.csv", "a,b\n1,2\n"))


EAF = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2020-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
<MEDIA_DESCRIPTOR MEDIA_URL="file:///home/anna/My%20film.mp4" MIME_TYPE="video/mp4"
 RELATIVE_MEDIA_URL="./../../media/My%20film.mp4"/></HEADER>
<TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="ts2"/>
<TIME_SLOT TIME_SLOT_ID="ts3"/><TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="4000"/>
<TIME_SLOT TIME_SLOT_ID="ts5" TIME_VALUE="5000"/><TIME_SLOT TIME_SLOT_ID="ts6"/>
<TIME_SLOT TIME_SLOT_ID="ts7" TIME_VALUE="6001"/>
</TIME_ORDER>
<TIER LINGUISTIC_TYPE_REF="t" PARTICIPANT="Anna" TIER_ID="Satz_A" LANG_REF="deu">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts4">
<ANNOTATION_VALUE>Morgen regnet es.</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a9" TIME_SLOT_REF1="ts5" TIME_SLOT_REF2="ts6">
<ANNOTATION_VALUE/></ALIGNABLE_ANNOTATION></ANNOTATION>
</TIER>
<TIER LINGUISTIC_TYPE_REF="s" PARTICIPANT="Anna" PARENT_REF="Satz_A" TIER_ID="Wort_A">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>MORGEN</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a3" TIME_SLOT_REF1="ts2" TIME_SLOT_REF2="ts3">
<ANNOTATION_VALUE>REGEN</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
<ANNOTATION_VALUE>INDEX</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
</TIER>
<TIER LINGUISTIC_TYPE_REF="a" PARENT_REF="Satz_A" TIER_ID="English">
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a6" ANNOTATION_REF="a1" PREVIOUS_ANNOTATION="a5">
<ANNOTATION_VALUE>it rains</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a5" ANNOTATION_REF="a1">
<ANNOTATION_VALUE>tomorrow</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
</TIER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="empty"/>
<LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="t" TIME_ALIGNABLE="true"/>
</ANNOTATION_DOCUMENT>
"""


def test_eaf_the_only_tier_of_sentences_with_its_participant(tmp_path):
    captions = read_captions(write(tmp_path / "x.eaf", "\ufeff" + EAF), Choice(gloss_tier="Wort_*"))
    assert [(c.start_s, c.end_s, c.text) for c in captions.cues] == [
        (1.0, 4.0, "Morgen regnet es."),
        (5.0, 5.5, ""),
    ]
    assert captions.cues[0].gloss == "MORGEN REGEN INDEX"
    assert (captions.cues[0].signer, captions.cues[0].language) == ("Anna", "deu")
    assert captions.media == {"media/My film.mp4": 0.0}


def test_eaf_slots_without_a_time_divide_their_chain(tmp_path):
    path = write(tmp_path / "x.eaf", EAF)
    assert [span[:2] for span in lines(path, Choice(tier="Wort_A"))] == [(1, 2), (2, 3), (3, 4)]
    assert lines(path, Choice(tier="English")) == [(1, 2.5, "tomorrow"), (2.5, 4, "it rains")]
    with pytest.raises(UserError, match=r"no tier is 'Wort'.*Satz_A \(2, as 'Morgen"):
        read_captions(path, Choice(tier="Wort"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("<TIER ", "<TIER<"), "broken XML"),
        (('TIME_SLOT_REF2="ts4"', 'TIME_SLOT_REF2="ts44"'), "'ts44', which is not there"),
        (('ANNOTATION_REF="a1"', 'ANNOTATION_REF="a77"'), "'a77', which is not there"),
        (("milliseconds", "PAL-frames"), "expected milliseconds"),
        (("ANNOTATION_DOCUMENT", "svg"), "no ANNOTATION_DOCUMENT"),
        (('TIME_VALUE="1000"', 'TIME_VALUE="soon"'), "soon"),
    ],
)
def test_eaf_that_is_damaged_is_named_and_not_a_traceback(tmp_path, change, message):
    path = write(tmp_path / "bad.eaf", EAF.replace(*change))
    with pytest.raises(UserError, match=message) as caught:
        read_captions(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "inner",
    [
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
    ],
)
def test_a_bomb_of_entities_is_refused_before_any_is_expanded(tmp_path, inner):
    text = EAF.replace("<ANNOTATION_DOCUMENT", f"<!DOCTYPE x [{inner}]><ANNOTATION_DOCUMENT", 1)
    path = write(tmp_path / "bomb.eaf", text.replace("Morgen regnet", "&a;"))
    with pytest.raises(UserError, match="bomb of entities"):
        read_captions(path)


def test_what_is_no_caption_file_is_said(tmp_path):
    for name, content, message in (
        ("a.srt", "nothing", "holds no line of times"),
        ("a.vtt", "", "holds no line of times"),
        ("a.srt", b"\0\1\2", "no text"),
        ("a.doc", "x", "no captions are read from '.doc'"),
    ):
        with pytest.raises(UserError, match=message):
            read_captions(write(tmp_path / name, content))
    with pytest.raises(UserError, match="no such file"):
        read_captions(tmp_path / "none.srt")


def test_the_language_of_a_file_is_in_its_name():
    assert split_name(Path("talk.de.vtt")) == ("talk", "de")
    assert split_name(Path("talk.pt-BR.json3")) == ("talk", "pt-BR")
    assert split_name(Path("talk.part2.vtt")) == ("talk.part2", "")
    assert split_name(Path("talk.vtt")) == ("talk", "")


def cue(start_s, end_s, text="Satz.", **more):
    return Cue(start_s=start_s, end_s=end_s, text=text, **more)


def kept(cues, duration_s=None, **rules):
    passed, left_out = apply_rules(cues, CueRules(**rules), duration_s)
    return [(c.start_s, c.end_s, c.text) for c in passed], [str(p) for _, p in left_out]


def test_cues_that_are_no_clips_are_left_out_with_a_reason():
    cues = [
        cue(1, 2),
        cue(3, 3),
        cue(4, 5, ""),
        cue(6, 7, "♪ ♪"),
        cue(8, 30),
        cue(31, 31.2),
        cue(32, 33, "[?] Vielleicht."),
    ]
    passed, reasons = kept(cues, min_s=0.5, max_s=20)
    assert passed == [(1, 2, "Satz.")]
    assert sorted(reasons) == [
        "a model is unsure of it, and nobody has taken the mark away",
        "it does not end after its start",
        "its length is not in 0.5 to 20 s",
        "its length is not in 0.5 to 20 s",
        "its text has no letter and no digit",
        "its text is empty",
    ]


def test_cues_that_go_on_are_joined_up_to_the_end_of_the_sentence():
    cues = [
        cue(0, 1, "Und dann", gloss="DANN"),
        cue(1.2, 2, "kam er.", gloss="KOMMEN"),
        cue(2.1, 3, "Er sagte"),
        cue(5, 6, "nichts"),
        cue(6.1, 7, "»mehr«"),
    ]
    assert kept(cues, join_s=0.5)[0] == [
        (0, 2, "Und dann kam er."),
        (2.1, 3, "Er sagte"),
        (5, 7, "nichts »mehr«"),
    ]
    assert len(kept(cues)[0]) == 5
    assert apply_rules(cues, CueRules(join_s=0.5), None)[0][0].gloss == "DANN KOMMEN"
    two_signers = [cue(0, 1, "Und", signer="A"), cue(1, 2, "dann", signer="B")]
    assert len(kept(two_signers, join_s=1.0)[0]) == 2


def test_padding_ends_in_the_middle_of_a_pause_and_overlaps_stay():
    cues = [cue(1, 2), cue(2.4, 4), cue(3.5, 5), cue(9, 10)]
    assert [span[:2] for span in kept(cues, duration_s=10.2, padding_s=0.5)[0]] == [
        (0.5, 2.2),
        (2.2, 4),
        (3.5, 5.5),
        (8.5, 10.2),
    ]


def test_cues_beyond_the_film_are_left_out_and_those_at_its_edge_are_cut():
    passed, reasons = kept([cue(0, 5), cue(5.2, 10), cue(9, 12), cue(20, 21)], duration_s=9.9)
    assert [span[:2] for span in passed] == [(0, 5), (5.2, 9.9)]
    assert reasons == ["it lies beyond its film"] * 2
    assert [span[:2] for span in kept([cue(1, 3)], shift_s=-0.75)[0]] == [(0.25, 2.25)]


_WORDS = (
    st.text("abc <>&{}äß-'\"\u4f60", min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda text: text and "-->" not in text and "  " not in text)
)
_CUES = st.lists(
    st.builds(
        lambda start, length, text, signer, gloss, clip: Cue(
            start_s=start / 1000,
            end_s=(start + length) / 1000,
            text=text,
            signer=signer,
            gloss=gloss,
            clip_id=clip,
        ),
        st.integers(0, 10**7),
        st.integers(1, 10**5),
        st.just("Satz."),
        st.sampled_from(["", "Anna", "Bo <B.>"]),
        st.sampled_from(["", "ICH GEHEN"]),
        st.uuids().map(str),
    ),
    min_size=1,
    max_size=12,
)


def plain(cues):
    return sorted(
        (c.start_s, c.end_s, c.text, c.signer, c.gloss, c.clip_id, c.language) for c in cues
    )


@settings(deadline=None, max_examples=40)
@given(_CUES)
def test_eaf_brings_back_texts_and_times_to_the_millisecond(tmp_path_factory, cues):
    path = tmp_path_factory.mktemp("eaf") / "film.eaf"
    write_captions(path, cues, path.with_name("film.mp4"))
    assert plain(read_captions(path).cues) == plain(cues)


@settings(deadline=None, max_examples=40)
@given(_CUES, st.sampled_from([".vtt", ".srt"]))
def test_vtt_and_srt_bring_back_what_they_can_say(tmp_path_factory, cues, suffix):
    path = tmp_path_factory.mktemp("captions") / f"film{suffix}"
    write_captions(path, cues)
    is_vtt = suffix == ".vtt"
    read_cues = [
        (c.start_s, c.end_s, c.text, c.signer, c.clip_id) for c in read_captions(path).cues
    ]
    assert sorted(read_cues) == sorted(
        (c.start_s, c.end_s, c.text, c.signer if is_vtt else "", c.clip_id if is_vtt else "")
        for c in cues
    )


@settings(deadline=None, max_examples=60)
@given(_WORDS)
def test_any_text_comes_back_from_eaf(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("eaf") / "film.eaf"
    write_captions(path, [cue(0, 1, text)])
    assert [c.text for c in read_captions(path).cues] == [text]


def test_no_annotation_of_a_tier_overlaps_another(tmp_path):
    path = tmp_path / "film.eaf"
    write_captions(path, [cue(0, 2, signer="A"), cue(1, 3, signer="A"), cue(3, 4, signer="A")])
    text = path.read_text()
    assert text.count('TIER_ID="text@A"') == text.count('TIER_ID="text@A-2"') == 1
    assert len(read_captions(path).cues) == 3


def test_other_formats_are_written(tmp_path):
    cues = [cue(61.5, 62, "Ja & nein", score=0.25, hypothesis="Ja")]
    write_captions(tmp_path / "f.txt", cues)
    assert (tmp_path / "f.txt").read_text() == "00:01:01.500 --> 00:01:02.000  Ja & nein\n"
    write_captions(tmp_path / "f.json", cues, tmp_path / "f.mp4")
    assert json.loads((tmp_path / "f.json").read_text()) == {
        "format_version": 1,
        "film": "f.mp4",
        "cues": [
            {"start_s": 61.5, "end_s": 62, "text": "Ja & nein", "hypothesis": "Ja", "score": 0.25}
        ],
    }
    write_captions(tmp_path / "f.eaf", cues)
    assert lines(tmp_path / "f.eaf", Choice(tier="hypothesis")) == [(61.5, 62, "Ja")]
    with pytest.raises(UserError, match="captions are written as"):
        write_captions(tmp_path / "f.doc", cues)
    assert math.isinf(CueRules().max_s)


def test_signs_of_a_vtt_file_stand_in_the_order_of_time(tmp_path):
    cues = [cue(0, 2, "Eins."), cue(3, 5, "Zwei.")]
    signs = [cue(0, 0.5, "EINS"), cue(1, 1.5, "DA"), cue(3.2, 4, "ZWEI")]
    write_captions(tmp_path / "f.vtt", cues, signs=signs)
    text = (tmp_path / "f.vtt").read_text()
    order = [text.index(part) for part in ("Eins.", ">EINS<", ">DA<", "Zwei.", ">ZWEI<")]
    assert order == sorted(order)
    assert lines(tmp_path / "f.vtt") == [(0, 2, "Eins."), (3, 5, "Zwei.")]


def init(tmp_path, *more, films="films"):
    """Run `signloom init` as a user would; return its exit code."""
    params = tmp_path / "params.yaml"
    params.write_bytes(Path("params.yaml").read_bytes())
    argv = ["init", tmp_path / "corpus", "--videos", tmp_path / films, "--params", params, *more]
    try:
        main([str(word) for word in argv])
    except SystemExit as end:
        print(end.code, file=sys.stderr)
        return 1
    return 0


@pytest.fixture
def films(tmp_path):
    """Two films of two seconds with captions."""
    folder = tmp_path / "films"
    (folder / "day").mkdir(parents=True)
    for name, signer in (("day/one", "Anna"), ("two", "Bo")):
        write_video(folder / f"{name}.mp4")
        cues = [cue(0, 0.8, "Eins.", signer=signer), cue(1, 1.8, "Zwei.", signer=signer)]
        write_captions(folder / f"{name}.vtt", cues)
    return folder


def refused(tmp_path):
    lines = (tmp_path / "corpus" / "refused.tsv").read_text().splitlines()[1:]
    return {(row.split("\t")[0], row.split("\t")[3]) for row in lines}


def test_init_makes_a_clip_of_each_cue_beside_its_film(tmp_path, films, capsys):
    assert init(tmp_path, "--captions", "--shares", "50", "50", "0", "--padding", "0.05") == 0
    clips = read_manifest(tmp_path / "corpus" / "manifest.tsv")
    assert [(c.clip_id, c.start_s, c.end_s, c.text, c.signer) for c in clips] == [
        ("one-00000000", 0.0, 0.85, "Eins.", "Anna"),
        ("one-00000950", 0.95, 1.85, "Zwei.", "Anna"),
        ("two-00000000", 0.0, 0.85, "Eins.", "Bo"),
        ("two-00000950", 0.95, 1.85, "Zwei.", "Bo"),
    ]
    assert len({(c.video, c.split) for c in clips}) == 2
    assert "one-00000950 0.950 to 1.850 s: 'Zwei.' by Anna" in capsys.readouterr().out


def test_captions_without_film_and_films_without_captions_are_listed(tmp_path, films):
    write_captions(films / "lost.srt", [cue(0, 1)])
    write(films / "two.de.vtt", (films / "two.vtt").read_bytes())
    write_video(films / "silent.mp4")
    write(
        films / "day" / "one.vtt",
        (films / "day" / "one.vtt").read_text()
        + """
oops
00:00:01.9xx --> 00:00:02.000
weg

00:00:01.900 --> 00:00:09.000
zu lang

00:00:20.000 --> 00:00:21.000
zu spät
""",
    )
    write(films / "bomb.eaf", "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>")
    assert init(tmp_path, "--captions", "--shares", "1", "1", "0", "--by", "clip") == 1
    assert refused(tmp_path) == {
        ("lost.srt", "no video of its name is below --videos"),
        ("two.de.vtt", "several caption files are of its film"),
        ("silent.mp4", "no captions are beside it"),
        ("one.vtt", "its times cannot be read"),
        ("one.vtt", "it lies beyond its film"),
        ("bomb.eaf", "its captions cannot be read"),
    }


def test_a_film_is_in_one_split_also_where_two_people_sign_in_it(tmp_path, films, capsys):
    write_captions(films / "two.vtt", [cue(0, 0.5, signer="Anna"), cue(1, 1.5, signer="Bo")])
    assert init(tmp_path, "--captions", "--shares", "1", "1", "0", "--by", "signer") == 1
    assert "found 1 signer for 2 splits" in capsys.readouterr().err
    assert init(tmp_path, "--captions", "--shares", "1", "1", "0") == 0
    assert "dealt by film" in capsys.readouterr().out
    clips = read_manifest(tmp_path / "corpus" / "manifest.tsv", signer_disjoint=False)
    assert len({(c.video, c.split) for c in clips}) == 2
    argv = ["--captions", "--shares", "1", "1", "0", "--by", "clip", "--force"]
    assert init(tmp_path, *argv) == 0
    assert "films in several splits: " in capsys.readouterr().out


def test_a_table_of_films_says_signer_split_and_captions(tmp_path, films):
    table = write(
        tmp_path / "films" / "films.tsv",
        "video\tcaptions\tperson\tsplit\n"
        "one\tcues.csv\tAnna\ttrain\ntwo\tother.srt\tBo\tdev\n"
        "one\tcues.csv\tBo\ttrain\n",
    )
    write(films / "cues.csv", "start_s,end_s,text\n0.2,1,Ja.\n")
    write_captions(films / "other.srt", [cue(0.5, 1.5, "Nein.")])
    assert init(tmp_path, "--captions", "--table", str(table)) == 1
    clips = read_manifest(tmp_path / "corpus" / "manifest.tsv")
    assert [(c.text, c.signer, c.split, c.start_s) for c in clips] == [
        ("Ja.", "Anna", "train", 0.2),
        ("Nein.", "Bo", "dev", 0.5),
    ]
    refused = (tmp_path / "corpus" / "refused.tsv").read_text("utf-8")
    assert "another row says something else of its film" in refused


def test_where_no_cue_can_be_taken_the_reasons_are_said(tmp_path, films, capsys):
    assert init(tmp_path, "--captions", "--shares", "1", "1", "0", "--shift", "60") == 1
    err = capsys.readouterr().err
    assert "no cue can be taken\n  4: it lies beyond its film (first one.vtt: line 4; 60.000" in err
    (films / "day" / "one.vtt").unlink()
    write(films / "day" / "one.eaf", EAF)
    (films / "two.vtt").unlink()
    assert init(tmp_path, "--captions", "--shares", "1", "1", "0", "--tier", "Satz") == 1
    assert "no tier is 'Satz'. Say --tier NAME; found Satz_A (2, as" in capsys.readouterr().err


def test_one_language_of_two_is_taken(tmp_path, films):
    for code, word in (("de", "Haus."), ("en", "House.")):
        write_captions(films / f"two.{code}.vtt", [cue(0, 1, word, signer="Bo")])
    (films / "two.vtt").unlink()
    argv = ["--captions", "--language", "en", "--shares", "1", "1", "0"]
    assert init(tmp_path, *argv) == 0
    clips = read_manifest(tmp_path / "corpus" / "manifest.tsv")
    assert [c.text for c in clips if c.signer == "Bo"] == ["House."]


def clips_of(film, spans, signer="Anna", split="train"):
    return [
        Clip(
            clip_id=f"{film.stem}_{number}",
            video=film,
            text=text,
            signer=signer,
            split=split,
            start_s=start_s,
            end_s=end_s,
            gloss=gloss,
            language="fr",
        )
        for number, (start_s, end_s, text, gloss) in enumerate(spans)
    ]


_SPANS = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.integers(20, 900),
        st.just("Ça va ?") | _WORDS,
        st.sampled_from([None, "CA ALLER"]),
    ).map(lambda s: (s[0] / 1000, (s[0] + s[1]) / 1000, f"a{s[2]}", s[3])),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(one=_SPANS, two=_SPANS)
def test_a_corpus_goes_to_elan_and_comes_back_the_same(tmp_path, films, one, two):
    uncut = [(None, None, "tout", "TOUT")]
    clips = [
        *clips_of(films / "day" / "one.mp4", one),
        *clips_of(films / "two.mp4", uncut + two, "Bo", "dev"),
    ]
    for path in films.rglob("*.vtt"):
        path.unlink()
    for film, cues in film_cues(clips, {}).items():
        write_captions(film.with_suffix(".eaf"), cues, film)
    table = write(tmp_path / "splits.tsv", "video\tsplit\none\ttrain\ntwo\tdev\n")
    assert init(tmp_path, "--captions", "--table", str(table), "--force") == 0
    back = read_manifest(tmp_path / "corpus" / "manifest.tsv")
    videos = {clip.video.name for clip in back}
    assert videos == {"one.mp4", "two.mp4"}
    assert sorted((replace(c, video=Path(c.video.name)) for c in back), key=str) == sorted(
        (replace(c, video=Path(c.video.name)) for c in clips), key=str
    )


def test_export_writes_references_and_hypotheses_of_each_film(tmp_path, films, monkeypatch, capsys):
    corpus = tmp_path / "corpus"
    argv = ["--captions", "--shares", "1", "1", "0", "--use"]
    assert init(tmp_path, *argv) == 0
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "reports" / "evaluation"
    folder.mkdir(parents=True)
    write(
        folder / "hypotheses.tsv",
        "clip_id\treference\thypothesis\tconfidence\none-00000000\tEins.\tUns.\t0.25\n",
    )
    export = ["export", "out", "--format", "captions", "--params", str(tmp_path / "params.yaml")]
    main(export)
    assert "5 files of 2 films in out: 4 clips, 1 with a hypothesis" in capsys.readouterr().err
    path = tmp_path / "out" / "videos" / "day" / "one.eaf"
    assert [c.text for c in read_captions(path).cues] == ["Eins.", "Zwei."]
    assert lines(path, Choice(tier="hypothesis")) == [(0.0, 0.8, "Uns.")]
    assert lines(path, Choice(tier="score")) == [(0.0, 0.8, "0.250")]
    [address] = [word for word in path.read_text().split('"') if word.startswith("./")][:1]
    assert (path.parent / address).resolve() == (films / "day" / "one.mp4").resolve()
    assert lines(path.with_suffix(".hypotheses.vtt")) == [(0.0, 0.8, "Uns.")]
    assert [c.clip_id for c in read_captions(path.with_suffix(".vtt")).cues] == [
        "one-00000000",
        "one-00001000",
    ]
    expect_error("already exists", export)
    expect_error("lies in the corpus", [*export[:1], str(corpus / "x"), *export[2:]])
    expect_error("has no clip gone", [*export, "--clips", "gone"])


def test_signs_that_lie_over_another_have_tiers_and_cues_of_their_own(tmp_path: Path) -> None:
    signs = [
        Cue(start_s=0.5, end_s=1.0, text="MOI", score=0.914),
        Cue(start_s=0.75, end_s=1.25, text="<B>", score=0.4),
        Cue(start_s=1.0, end_s=1.0, text="TOI", score=1.0),
    ]
    write_captions(tmp_path / "f.eaf", [cue(0, 2, "je")], signs=signs)
    tiers = {
        tier.name: tier.annotations
        for tier in read_elan(tmp_path / "f.eaf", (tmp_path / "f.eaf").read_text()).tiers
    }
    assert [a.value for a in tiers["sign"]] == ["MOI", "TOI"]
    assert [a.value for a in tiers["sign sure"]] == ["91", "100"]
    assert [(a.value, a.start_ms, a.end_ms) for a in tiers["sign 2"]] == [("<B>", 750, 1250)]
    write_captions(tmp_path / "f.vtt", [cue(0, 2, "je")], signs=signs)
    text = (tmp_path / "f.vtt").read_text()
    assert "00:00:00.500 --> 00:00:01.000\n<c.sign>MOI</c>" in text
    assert "<c.sign>&lt;B&gt;</c>" in text
    write_captions(tmp_path / "f.srt", [cue(0, 2, "je")], signs=signs)
    assert "MOI" not in (tmp_path / "f.srt").read_text()


def test_signs_of_a_translated_film_are_no_sentences(tmp_path: Path) -> None:
    path = tmp_path / "film.vtt"
    path.write_text(
        "WEBVTT\n\n1\n00:00:00.000 --> 00:00:02.000\nhello there\n\n"
        "00:00:00.200 --> 00:00:00.900\n<c.sign>HELLO</c>\n"
    )
    assert [cue.text for cue in read_captions(path).cues] == ["hello there"]
