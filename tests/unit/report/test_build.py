import base64
import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.tune import NO_SEARCH
from signloom.config import parse_options
from signloom.corpus.rejects import Reject, write_rejects
from signloom.errors import Problem, UserError
from signloom.evaluation.results import write_alignments
from signloom.report import tables
from signloom.report.build import ReportOptions, build_report
from signloom.report.quality import WORST
from signloom.report.stage_files import ReportPaths, Sources, read_sources
from signloom.report.tuning import search_note
from signloom.report.verdict import tiles, verdict_sentences
from tests.damage import damaged_texts
from tests.report_project import OPTIONS, SAID
from tests.unit.evaluation.judged import judge


class ReportParser(HTMLParser):
    """Checks that tags are closed in order and keeps what the tests ask for."""

    VOID = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.svgs: list[dict[str, str | None]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [v for n, v in attrs if n in ("href", "src", "xlink:href") and v]
        if tag == "svg":
            self.svgs.append(values)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(text: str) -> ReportParser:
    page = ReportParser()
    page.feed(text)
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def page_text(built: Path) -> str:
    return (built / "index.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_needs_nothing_but_itself(page_text: str) -> None:
    page = parse(page_text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert page.tags.count("script") == 1
    assert not re.search(r"@import|url\((?!#)", page_text)
    assert len(page.ids) == len(set(page.ids))
    assert '<html lang="en">' in page_text


def test_the_page_shows_the_calibration_of_confidence(page_text: str) -> None:
    assert "Does it know how sure to be?" in page_text
    assert "test: on average 8.2 points between confidence and share right, 1 unsure" in page_text
    assert "<td>90</td><td>4</td><td>3</td><td>75<small>30 – 95</small></td>" in page_text


def test_signs_stand_with_their_error_rate_and_in_the_samples(page_text: str) -> None:
    plain_text = re.sub(r"<[^>]+>", " ", page_text)
    assert re.search(
        r"test, model\s+substitutions 7.5, deletions 2.5, insertions 2.5\s+5\s+12.5", plain_text
    )
    assert re.search(r"test, blind\s+5\s+97.5", plain_text)
    assert re.search(r"test,\s+glosses that train has in this order\s+3\s+10.0", plain_text)
    assert "other glosses" not in plain_text  # there are none
    assert re.search(r"test,\s+&lt;i&gt;anna\s+3", plain_text)
    assert re.search(
        r"MOI\s+0.10 – 0.50 s, 91 %\s+GUERRE&lt;b&gt;\s+0.50 – 1.25 s, 42 %", plain_text
    )


def test_inner_links_of_figures_lead_somewhere(page_text: str) -> None:
    page = parse(page_text)
    linked = {link[1:] for link in page.links if link.startswith("#")}
    linked |= set(re.findall(r"url\(#([^)]+)\)", page_text))
    assert linked <= set(page.ids)


def test_every_figure_has_a_text_alternative(built: Path, page_text: str) -> None:
    svgs = parse(page_text).svgs
    figures = [svg for svg in svgs if svg.get("role") == "img"]
    # Charts; a player of five samples; the three parts of one; worst clips.
    charts = len([*(built / "figures").iterdir()])
    assert len(figures) == charts + 5 + 3 + WORST
    assert all(svg["aria-label"] for svg in figures)
    assert len(svgs) == len(figures)
    assert "BLEU-4 with 95 % intervals on test: model 80.0, " in page_text


def test_headings_go_down_one_level_at_a_time(page_text: str) -> None:
    levels = [int(tag[1]) for tag in parse(page_text).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_what_people_wrote_cannot_become_markup(page_text: str) -> None:
    assert page_text.count("<script") == 1
    assert "&lt;script&gt;alert(&#34;1" in page_text
    assert "Signs &lt;of&gt; life" in page_text


def test_sentences_find_their_own_direction_and_errors_are_marked(page_text: str) -> None:
    assert (
        '<dd class="sentence" dir="auto">هي تأكل <del class="missing">تفاحة</del></dd>' in page_text
    )
    assert '<mark class="wrong">' in page_text
    assert '<span class="muted">(nothing)</span>' in page_text


def test_scores_floors_signature_search_and_provenance_are_there(page_text: str) -> None:
    for text in (
        "80.0",
        "75.0 – 85.0",
        "best constant sentence",
        "nearest training clip",
        "a|b:1",
        "model.d_model",
        "of trial 1",
        "cd34",
        "hand.tflite",
        "No clip was rejected",
        "The test video is looked at.",
        "71.5",
        "80.0, 63.0",
        "<code>int8</code>",
        "<dt>threads</dt><dd><code>2</code>",
    ):
        assert text in page_text


def test_figures_are_files_too_and_follow_the_theme_inside_the_page(
    built: Path, page_text: str
) -> None:
    names = {path.name for path in (built / "figures").iterdir()}
    assert {"scores-test.svg", "curves-loss.svg", "search.svg"} <= names
    assert "breakdown-sentence.svg" in names
    assert "breakdown-words.svg" not in names  # all clips are alike
    assert "sample-99-old.svg" not in names
    assert "#1d5fd1" in (built / "figures" / "scores-test.svg").read_text(encoding="utf-8")
    body = page_text.split("</style>", 1)[1]
    assert "#1d5fd1" not in body
    assert "var(--blue)" in body


def test_the_same_files_give_the_same_bytes(
    project: ReportPaths, built: Path, tmp_path: Path
) -> None:
    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    build_report(project, tmp_path, OPTIONS)
    assert read(tmp_path) == read(built)


def test_the_hypotheses_can_be_downloaded_from_the_page(
    project: ReportPaths, page_text: str
) -> None:
    (sent,) = re.findall(r'download="hypotheses.tsv" href="data:[^,]+;base64,([^"]+)"', page_text)
    assert base64.b64decode(sent) == (project.evaluation / "hypotheses.tsv").read_bytes()


def test_confused_words_are_listed_as_they_read(page_text: str) -> None:
    assert "guerre" not in page_text  # of dev
    table = page_text[page_text.index("Confused words on test") :].split("</table>")[0]
    rows = re.findall(r'<tr><td dir="auto">(.*?)</td>.*?<td>(\d+)</td>', table)
    # A word that is once wrong says nothing beside those that are more often.
    nothing = '<span class="muted">(nothing)</span>'
    assert rows == [(nothing, "4"), ("à, peut-être", "2")]


def test_the_page_says_which_search_was_chosen(page_text: str) -> None:
    search = "Beam size 4, length penalty 1.0, held against the signs that are read by 0.2"
    assert f"{search}: the best of 4 searches on dev" in page_text


@pytest.fixture(scope="module")
def bare(project: ReportPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a model without attention, of whose evaluation all that may lack does."""
    out = tmp_path_factory.mktemp("bare")
    shutil.copytree(project.evaluation, out / "evaluation")
    shutil.copytree(project.landmarks, out / "landmarks")
    reject = Reject("clip<7>", "a.mp4", Problem("no frame could be read", "convert it"))
    write_rejects(out / "landmarks" / "rejects.tsv", [reject])
    write_alignments(out / "evaluation" / "alignments.parquet", {})
    path = out / "evaluation" / "scores.json"
    scores = json.loads(path.read_text()) | {"grid": [], "seeds": None, "corpus": "weather"}
    for split in scores["splits"].values():
        split["input_check"] = None
        del split["systems"]["swapped"]
    path.write_text(json.dumps(scores))
    (path.parent / "confusions.csv").write_text("split,kind,reference,hypothesis,count\n")
    paths = dataclasses.replace(
        project,
        evaluation=path.parent,
        tune=out / "tune",
        landmarks=out / "landmarks",
        judgements=out / "judged",
    )
    (paths.evaluation / "confidence.json").write_text('{"weights": "w"}')
    judge(paths.judgements, "new", b="w")
    paths.tune.mkdir()
    (paths.tune / "trials.json").write_text(json.dumps(NO_SEARCH))
    build_report(paths, out, dataclasses.replace(OPTIONS, title=""))
    return out


def test_judgements_of_this_model_are_on_the_page(bare: Path, page_text: str) -> None:
    text = (bare / "index.html").read_text()
    assert re.search(r'<section id="judged">.*A <bdi>runs/old</bdi>, .*B better in 15', text, re.S)
    assert 'id="judged"' not in page_text


def test_layers_and_heads_can_be_picked_where_they_were_kept(page_text: str) -> None:
    assert page_text.count('class="picker"') == 1
    parts = re.findall(
        r'class="part" data-layers="2" data-heads="3" data-rows="(\d+)" data-columns="(\d+)" '
        r'data-strongest="([\d. ]+)" data-cells="([0-9a-g]+)"( hidden)?>',
        page_text,
    )
    tokens = len(SAID["test2"].split()) + 1
    sides = [(tokens, 8), (8, 8), (tokens, tokens)]
    assert [(int(rows), int(columns)) for rows, columns, *_ in parts] == sides
    assert [len(cells) for *_, cells, _ in parts] == [6 * r * c for r, c in sides]
    assert [bool(hidden) for *_, hidden in parts] == [False, True, True]


def test_the_page_names_what_is_missing(bare: Path) -> None:
    text = (bare / "index.html").read_text(encoding="utf-8")
    parse(text)
    for sentence in (
        "No search has been run",
        "decoder has no attention",
        "as params.yaml says",
        "Every word is right",
    ):
        assert sentence in text
    for left_out in ("Where the model looked", "Other seeds", "swapped,"):
        assert left_out not in text
    assert text.count('class="player"') == 5 + WORST  # samples and worst clips
    assert not (bare / "figures" / "search.svg").exists()


def test_the_report_of_a_users_corpus_is_not_titled_as_the_demo(bare: Path) -> None:
    text = (bare / "index.html").read_text(encoding="utf-8")
    assert "<title>Corpus weather</title>" in text


def test_rejected_clips_are_listed(bare: Path) -> None:
    text = (bare / "index.html").read_text(encoding="utf-8")
    assert "clip&lt;7&gt;" in text
    assert "no frame could be read" in text


def test_a_missing_file_names_the_stage_that_writes_it(
    project: ReportPaths, tmp_path: Path
) -> None:
    nowhere = dataclasses.replace(project, evaluation=tmp_path)
    with pytest.raises(UserError, match=r"scores\.json does not exist; run `dvc repro evaluate`"):
        read_sources(nowhere)
    (tmp_path / "scores.json").write_text('{"format_version": 99}')
    with pytest.raises(UserError, match="found format version 99, this Signloom reads 2"):
        read_sources(nowhere)


DAMAGED = (
    "evaluation/scores.json",
    "checkpoint/history.json",
    "checkpoint/checkpoint.json",
    "tune/trials.json",
)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_of_a_stage_ends_in_no_traceback(
    project: ReportPaths, tmp_path: Path, name: str
) -> None:
    shutil.copytree(project.evaluation.parent, tmp_path / "own")
    paths = {
        field.name: tmp_path / "own" / getattr(project, field.name).name
        for field in dataclasses.fields(project)
    }
    path, refused = tmp_path / "own" / name, 0
    content = json.loads(path.read_text(encoding="utf-8"))
    for damage, text in damaged_texts(content, seed=1, count=25):
        path.write_text(text, encoding="latin-1")
        try:
            sources = read_sources(ReportPaths(**paths))
        except UserError as error:
            message = str(error)
        else:
            message = ""
            _use(sources)
        assert not message or path.name in message, damage
        refused += bool(message)
    assert refused > 12


def _use(sources: Sources) -> None:
    """Make the page's words and tables, which takes no second as its charts do."""
    verdict_sentences(sources)
    tiles(sources)
    tables.run_details(sources)
    if sources.search:
        search_note(sources.search)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("hypotheses.tsv", "\t40\t", "\tx\t", "could not convert string"),
        ("hypotheses.tsv", "\t40\t", "\tnan\t", "found 'nan' as wer"),
        ("hypotheses.tsv", "signer", "", "no column signer"),
        ("hypotheses.tsv", "\t-1.5\n", "\n", "a torn line: "),
        ("hypotheses.tsv", "test0\ttest", "test0\tdev", ""),
        ("confusions.csv", ",9", ",", "could not convert string"),
        ("confusions.csv", "dev", '"', "damaged ("),
    ],
)
def test_a_damaged_table_of_a_stage_is_named(
    project: ReportPaths, tmp_path: Path, name: str, old: str, new: str, said: str
) -> None:
    evaluation = shutil.copytree(project.evaluation, tmp_path / "own")
    text = (evaluation / name).read_text(encoding="utf-8")
    assert old in text
    (evaluation / name).write_text(text.replace(old, new), encoding="utf-8")
    changed_paths = dataclasses.replace(project, evaluation=evaluation)
    if not said:
        read_sources(changed_paths)
        return
    with pytest.raises(UserError) as caught:
        read_sources(changed_paths)
    assert said in str(caught.value)
    assert f"{name} is damaged" in str(caught.value)


def test_removed_options_are_read_where_they_are_as_the_constants() -> None:
    old = {"title": "t", "samples": 3, "pictures": 10, "quality": {"worst": 6}}
    assert parse_options(old, ReportOptions, where="report: ") == ReportOptions(title="t")
    with pytest.raises(UserError, match="samples is no option any more; it is always 3"):
        parse_options({**old, "samples": 2}, ReportOptions, where="report: ")
