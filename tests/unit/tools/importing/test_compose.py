"""Takes of single signs become sentences, each of its own split and signer."""

import dataclasses
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from signloom.config import load_params
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS, Clip, read_manifest, write_manifest
from signloom.corpus.shards import read_shards, shards_metadata, write_shards
from signloom_tools.cli import init
from signloom_tools.cli.main import main
from signloom_tools.importing.compose import join_takes
from tests.tiny import ROOT, halve, lose, sequence

TAKES, CORPUS = Path("data/raw/signs"), Path("data/raw/orders")
SIGNS = ("COFFEE", "TEA", "LARGE", "thank-you")
SENTENCES = (
    "text\tgloss",
    "a large coffee\tCOFFEE LARGE",
    "coffee\tcoffee",
    "a tea\tTEA",
    "thanks\tTHANK-YOU",
    "a large tea thank you\tTEA LARGE THANK-YOU",
)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two signers of train, one each of dev and test, with two takes of every sign."""
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    write_takes(
        [
            Clip(
                clip_id=f"{signer}-{sign}-{take}",
                video=None,
                text=sign.lower(),
                signer=signer,
                split=split,
                gloss=sign,
                consent_until="2999-12-31" if signer == "anna" else None,
            )
            for signer, split in (
                ("anna", "train"),
                ("bert", "train"),
                ("cleo", "dev"),
                ("dan", "test"),
            )
            for sign in SIGNS
            for take in range(2)
        ]
    )
    Path("orders.tsv").write_text("\n".join(SENTENCES) + "\n")


def write_takes(clips: list[Clip]) -> None:
    """Write takes of 5 to 9 frames, each with a movement of its own."""
    sequences = {
        clip.clip_id: sequence(place, frames=5 + place % 5) for place, clip in enumerate(clips)
    }
    write_shards(
        TAKES / IMPORTED_SHARDS,
        {name: len(sequence.points) for name, sequence in sequences.items()},
        sequences.__getitem__,
        layout=HANDS_POSE,
        extractor='{"detector": "imported"}',
        frames_per_shard=1_000,
    )
    write_manifest(TAKES / "manifest.tsv", clips)


def compose(*more: str, dealt: bool = True) -> list[Clip]:
    """Run the example of docs/data.md with further options; return the clips that come out."""
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^signloom (compose .* --takes .*)$", text, re.MULTILINE)
    arguments = shlex.split(line)
    main([*(arguments if dealt else arguments[: arguments.index("--shares")]), *more])
    return read_manifest(CORPUS / "manifest.tsv")


def test_the_example_composes_each_sentence_of_takes_of_one_signer_of_its_split(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clips = compose("--each", "3")
    assert "32 takes of 4 signs in 32 clips" in capsys.readouterr().out
    assert Path(load_params(Path("params.yaml"))["corpus"]["folder"]) == CORPUS
    assert {clip.split for clip in clips} == set(SPLITS)
    assert len(clips) == 3 * (len(SENTENCES) - 1)
    assert (
        {f"{c.text}\t{c.gloss}" for c in clips}
        == {  # one spelling of a sign
            line.replace("\tcoffee", "\tCOFFEE") for line in SENTENCES[1:]
        }
    )
    takes = {clip.clip_id: clip for clip in read_manifest(TAKES / "manifest.tsv")}
    points = read_shards(TAKES / IMPORTED_SHARDS)
    composed = read_shards(CORPUS / IMPORTED_SHARDS)
    assert shards_metadata(CORPUS / IMPORTED_SHARDS) == shards_metadata(TAKES / IMPORTED_SHARDS)
    used = set()
    for clip in clips:
        assert clip.consent_until == ("2999-12-31" if clip.signer == "anna" else None)
        remaining, glosses = composed[clip.clip_id].points, (clip.gloss or "").split()
        for place, gloss in enumerate(glosses):
            remaining = remaining[2 * bool(place) :]  # a gap of 0.25 s at 10 frames a second
            (take,) = [
                i
                for i, take in points.items()
                if np.array_equal(remaining[: len(take.points)], take.points)
            ]
            assert takes[take].signer == clip.signer
            assert takes[take].split == clip.split
            assert takes[take].text.casefold() == gloss.casefold()
            remaining = remaining[len(points[take].points) :]
            used.add(take)
        assert len(remaining) == 0
    assert len(used) > len(SENTENCES)


def test_a_composition_that_was_killed_before_its_manifest_is_simply_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(init, "write_corpus", lambda *_, **__: sys.exit("killed"))
        with pytest.raises(SystemExit, match="killed"):
            compose()
    assert not (CORPUS / "manifest.tsv").exists()
    assert (CORPUS / IMPORTED_SHARDS).is_dir()
    assert compose()
    with pytest.raises(SystemExit, match="already exists"):
        compose()
    (CORPUS / "manifest.tsv").unlink()  # landmarks alone may be those of an import
    with pytest.raises(SystemExit, match="already exists"):
        compose()


def test_a_seed_gives_the_same_bytes_and_another_one_others() -> None:
    def landmarks() -> list[bytes]:
        return [path.read_bytes() for path in sorted((CORPUS / IMPORTED_SHARDS).iterdir())]

    first, shards = compose(), landmarks()
    with pytest.raises(SystemExit, match="already exists"):
        compose()
    assert (compose("--force"), landmarks()) == (first, shards)
    compose("--force", "--seed", "2")
    assert landmarks() != shards


def test_signers_take_turns_where_nobody_has_all_signs(capsys: pytest.CaptureFixture[str]) -> None:
    clips = read_manifest(TAKES / "manifest.tsv")
    write_takes(
        [
            c
            for c in clips
            if not (c.signer in ("anna", "cleo") and c.gloss == "TEA")
            and not (c.signer == "bert" and c.gloss == "LARGE")
        ]
    )
    Path("orders.tsv").write_text(
        "text\tgloss\tsplit\ncoffee\tCOFFEE\tdev\na large tea\tTEA LARGE\ttrain\n"
    )
    dev, train = compose(dealt=False)
    assert (dev.signer, train.signer) == ("cleo", "train-several")
    assert "signers in turn, since nobody has all their signs: 1" in capsys.readouterr().out


def test_a_sign_without_a_take_is_told_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders.tsv").write_text(
        "text\tgloss\tsplit\ntea\tTEA\ttrain\nmilk\tMILK TEA\ttrain\ntea\tTEA\tdev\nno\tTEA\tdev\n"
    )
    with pytest.raises(SystemExit, match="2 rows left out"):
        compose(dealt=False)
    lines = (CORPUS / "refused.tsv").read_text().splitlines()
    assert lines[1:] == [
        "orders.tsv\t4\ttea\tan earlier row has its clip_id\torders.tsv line 2",
        "orders.tsv\t3\tmilk\ta sign has no take in its split\ttrain; MILK",
    ]
    assert "left out 1: a sign has no take in its split (first orders.tsv line 3: train; MILK)" in (
        capsys.readouterr().out
    )
    assert [clip.clip_id for clip in read_manifest(CORPUS / "manifest.tsv")] == ["tea", "no"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("text\tsigns\ntea\tTEA\n", "which column is gloss? The table has text, signs"),
        (
            "text\tgloss\ntea\tMILK\nno\tMILK\nyes\tMILK\n",
            "no row can be taken; 3 of 3: a sign has",
        ),
        ("text\tgloss\ntea\tTEA\n", "found 1 clip for 3 splits"),
    ],
)
def test_what_makes_no_corpus_is_told_and_nothing_written(table: str, message: str) -> None:
    Path("orders.tsv").write_text(table)
    with pytest.raises(SystemExit, match=re.escape(message)):
        compose()
    assert not CORPUS.exists()


def test_takes_without_landmarks_or_consent_are_no_takes() -> None:
    with pytest.raises(SystemExit, match="shards: no landmarks of the takes there; extract them"):
        compose("--landmarks", "nowhere/shards")
    clips = [
        dataclasses.replace(clip, consent_until="2020-01-01")
        for clip in read_manifest(TAKES / "manifest.tsv")
    ]
    write_manifest(TAKES / "manifest.tsv", clips)
    with pytest.raises(SystemExit, match="5 of 5: a sign has no take in its split"):
        compose()


def test_the_consent_of_a_sentence_counts_as_those_of_its_takes() -> None:
    Path("orders.tsv").write_text(
        "text\tgloss\tsplit\tconsent_until\n"
        "tea\tTEA\ttrain\t2998-01-01\ncoffee\tCOFFEE\tdev\t2998-01-01\n"
    )
    assert [clip.consent_until for clip in compose(dealt=False)] == ["2998-01-01"] * 2


def test_takes_and_tables_are_not_replaced_by_what_is_made_of_them() -> None:
    Path("orders.tsv").rename(TAKES / "refused.tsv")
    for place, table in ((TAKES, "no.tsv"), (TAKES, str(TAKES / "refused.tsv"))):
        with pytest.raises(SystemExit, match="it is the input data/raw/signs/"):
            main(["compose", str(place), "--takes", str(TAKES), "--table", table, "--force"])
    assert len(read_manifest(TAKES / "manifest.tsv")) == 32


def test_joining_keeps_the_takes_and_moves_evenly_between_them() -> None:
    first, second = sequence(1, frames=5), sequence(2, frames=4)
    joined = join_takes([first, second], gap_s=0.3)
    assert len(joined.points) == 12
    np.testing.assert_array_equal(joined.points[:5], first.points)
    np.testing.assert_array_equal(joined.points[8:], second.points)
    middle = (first.points[-1] + second.points[0]) / 2
    np.testing.assert_allclose(joined.points[6], middle, atol=1e-6)  # of three steps the second
    assert joined.present.all()
    np.testing.assert_array_equal(join_takes([first], gap_s=0.3).points, first.points)


def test_a_hand_is_in_the_gap_only_if_both_edges_show_it() -> None:
    first = lose(sequence(1, frames=5), "left_hand", slice(4, 5))
    second = lose(sequence(2, frames=4), "right_hand", slice(0, 1))
    joined = join_takes([first, second], gap_s=0.2)
    left, right, pose = (joined.layout.group(name) for name in ("left_hand", "right_hand", "pose"))
    assert not joined.present[5:7, [left, right]].any()
    assert joined.present[5:7, pose].all()


def test_a_take_gets_the_frame_rate_and_the_picture_of_the_first() -> None:
    first, second = halve(sequence(1)), halve(sequence(2, frames=24, fps=20.0, width=160))
    joined = join_takes([first, second], gap_s=0.0)
    assert (joined.fps, joined.width, len(joined.points)) == (10.0, 320, 12 + 12)
    resampled, original = joined.points[12:], second.points[1::2]
    heights = np.array([4 / 3, 1, 4 / 3]), np.array([2 / 3, 1, 2 / 3])  # to picture heights
    middles = np.array([0.5, 0, 0])
    np.testing.assert_allclose(
        (resampled - middles) * heights[0], (original - middles) * heights[1], atol=1e-6
    )
