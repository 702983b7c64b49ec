import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signloom.config import UserError
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.rejects import Reject, write_rejects
from signloom.corpus.shards import write_shards
from signloom.corpus.targets import Target, write_targets
from signloom.evaluation.alignments import write_alignments
from signloom.metrics import METRICS
from signloom.report.build import ReportOptions, build_report
from signloom.report.content import corpus_table, mark_words, pick_samples, verdict
from signloom.report.quality import QualityOptions
from signloom.report.skeletons import draw_pictures, join_pictures
from signloom.report.sources import ReportPaths, read_sources
from signloom.translator import Alignment

QUALITY = QualityOptions(
    worst=2, min_any_hand=0.5, min_body=0.9, max_gap_s=1.0, max_jitter=1.0, max_side_swaps=2,
    max_coincident=0.05, min_fps=12.0, min_pixels=144,
)  # fmt: skip
OPTIONS = ReportOptions(title="Signs <of> life", samples=2, pictures=4, quality=QUALITY)
EVIL = '<script>alert("1 & 2")</script>'
TEXTS = {
    "train": ["je vais à la maison", "elle mange une pomme", "demain tu viens"],
    "dev": ["je vais à la maison"],
    "test": ["demain tu viens", "elle mange à la gare", EVIL, "هي تأكل تفاحة", "je vais là"],
}
SAID = {
    "dev0": "je vais à la maison", "test0": "demain tu viens", "test1": "elle mange la grande gare",
    "test2": EVIL, "test3": "هي تأكل", "test4": "",
}  # fmt: skip


def targets() -> list[Target]:
    return [
        Target(clip_id=f"{split}{i}", split=split, signer=f"{split}-signer", text=text, ids=[0],
               gloss="", labels=[])
        for split, texts in TEXTS.items()
        for i, text in enumerate(texts)
    ]  # fmt: skip


def sequence(seed: int, frames: int = 20) -> LandmarkSequence:
    rng = np.random.default_rng(seed)
    points = rng.random((frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = np.ones((frames, 3), dtype=np.bool_)
    present[3:9, 0] = False
    for column, name in enumerate(HANDS_POSE.group_names):
        points[~present[:, column], HANDS_POSE.slice(name)] = np.nan
    points = points.astype(np.float16).astype(np.float32)
    return LandmarkSequence(points=points, present=present, fps=25.0, width=320, height=240)


def score(value: float, *, spread: float = 5.0) -> dict[str, Any]:
    return {"value": value, "low": value - spread, "high": value + spread, "signature": "a|b:1"}


def split_scores(split: str, model: float) -> dict[str, Any]:
    values = {"model": model, "greedy": model - 1, "blind": 8.0, "retrieval": 20.0,
              "constant": 10.0, "random": 2.0}  # fmt: skip
    row = {"clips": 1, "chrf": 50.0, "chrf_low": 40.0, "chrf_high": 60.0}
    return {
        "clips": len(TEXTS[split]),
        "missing": [],
        "constant_sentence": "demain tu viens",
        "systems": {name: {m: score(value) for m in METRICS} for name, value in values.items()},
        "breakdowns": {
            "sentence": [{"group": "seen in train", **row}, {"group": "unseen", **row}],
            "words": [{"group": "01-03", **row}],
            "signer": [{"group": f"{split}-signer", **row}],
        },
    }


def search_result(trials: int) -> dict[str, Any]:
    found = [
        {"number": i, "state": "PRUNED" if i % 3 == 2 else "COMPLETE", "value": 2.0 - 0.1 * i,
         "values": {"dev_loss": 2.0 - 0.1 * i}, "parameters": 1000.0 * (i + 1),
         "params": {"model.d_model": 32 * (i + 1), "model.norm": ("pre", "post")[i % 2],
                    "train.learning_rate": 10.0 ** (-2 - i)}}
        for i in range(trials)
    ]  # fmt: skip
    found[-1] |= {"value": None, "state": "PRUNED"}
    return {
        "format_version": 2, "objective": "dev_loss", "objectives": {"dev_loss": "minimize"},
        "best": {**found[1], "confirmed": []}, "front": [1], "trials": found,
        "importance": {"model.d_model": 0.7, "model.norm": 0.3},
    }  # fmt: skip


def alignment(clip_id: str) -> Alignment:
    tokens = (*SAID[clip_id].split(), "")
    weights = np.random.default_rng(len(tokens)).dirichlet(np.ones(8), len(tokens))
    return Alignment(tokens=tokens, step_s=0.1, weights=weights.astype(np.float32))


def write_hypotheses(path: Path) -> None:
    header = [
        "clip_id", "split", "signer", "seen_in_train", "reference", "hypothesis", "retrieval",
        "bleu", "wer", "log_prob",
    ]  # fmt: skip
    lines = ["\t".join(header)]
    wers = {"dev0": 0, "test0": 0, "test1": 40, "test2": 0, "test3": 33.3, "test4": 100}
    for clip in targets():
        if clip.clip_id in SAID:
            cells = [
                clip.clip_id, clip.split, clip.signer, "0", clip.text, SAID[clip.clip_id],
                "demain tu viens", "50.0", str(wers[clip.clip_id]), "-1.5",
            ]  # fmt: skip
            lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    """A folder with everything that the stages before the report write."""
    root = tmp_path_factory.mktemp("project")
    paths = ReportPaths(
        evaluation=root / "evaluation",
        tune=root / "tune",
        landmarks=root / "landmarks",
        targets=root / "targets.parquet",
        checkpoint=root / "checkpoint",
    )
    for folder in (paths.evaluation, paths.tune, paths.checkpoint, paths.landmarks):
        folder.mkdir()
    clips = {target.clip_id: sequence(i) for i, target in enumerate(targets())}
    frames = {clip_id: len(clip.points) for clip_id, clip in clips.items()}
    write_shards(paths.shards, frames, clips.__getitem__, layout=HANDS_POSE, extractor="{}",
                 frames_per_shard=1000)  # fmt: skip
    write_quality(paths.landmarks / "quality.parquet", [measure_quality(*c) for c in clips.items()])
    write_rejects(paths.landmarks / "rejects.tsv", [])
    write_targets(paths.targets, targets())
    write_hypotheses(paths.evaluation / "hypotheses.tsv")
    epochs = [{"epoch": i, "train_loss": 3 / i, "dev_loss": 2 / i, "dev_accuracy": 0.1 * i,
               "lr": 0.001} for i in range(1, 6)]  # fmt: skip
    contents = {
        paths.evaluation / "scores.json": {
            "format_version": 1,
            "options": {"decoding": {"beam_size": 4}, "score": {"resamples": 1000}},
            "splits": {"dev": split_scores("dev", 90), "test": split_scores("test", 80)},
        },
        paths.checkpoint / "history.json": {"format_version": 1, "best_epoch": 4, "epochs": epochs},
        paths.checkpoint / "checkpoint.json": {
            "format_version": 2, "model": {"d_model": 16}, "features": {"fps": 15.0},
            "extractor": {"models": {"hand.tflite": "ab12"}},
            "provenance": {"data": {"landmarks": "cd34"}, "libraries": {"torch": "2"},
                           "params": {"train": {"seed": 1}}},
        },
        paths.tune / "trials.json": search_result(6),
    }  # fmt: skip
    for path, content in contents.items():
        path.write_text(json.dumps(content), encoding="utf-8")
    write_alignments(paths.evaluation / "alignments.parquet", {c: alignment(c) for c in SAID})
    return paths


class Page(HTMLParser):
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


def parse(text: str) -> Page:
    page = Page()
    page.feed(text)
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def built(project: ReportPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report, in which an older one had left a figure."""
    out = tmp_path_factory.mktemp("reports")
    (out / "figures").mkdir()
    (out / "figures" / "sample-99-old.svg").touch()
    build_report(project, out, OPTIONS)
    return out


@pytest.fixture(scope="module")
def page_text(built: Path) -> str:
    return (built / "index.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_needs_nothing_but_itself(page_text: str) -> None:
    page = parse(page_text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert "script" not in page.tags
    assert not re.search(r"@import|url\((?!#)", page_text)
    assert len(page.ids) == len(set(page.ids))
    assert '<html lang="en">' in page_text


def test_inner_links_of_figures_lead_somewhere(page_text: str) -> None:
    page = parse(page_text)
    wanted = {link[1:] for link in page.links if link.startswith("#")}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", page_text))
    assert wanted <= set(page.ids)


def test_every_figure_says_in_words_what_it_shows(page_text: str) -> None:
    svgs = parse(page_text).svgs
    # Charts; pictures and attention of five samples; two clips of bad quality with a bar each.
    assert len(svgs) == 11 + 5 * (OPTIONS.pictures + 1) + 2 * (OPTIONS.pictures + 1)
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in svgs)


def test_what_people_wrote_cannot_become_markup(page_text: str) -> None:
    assert "<script" not in page_text
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
        "80.0", "75.0 – 85.0", "best constant sentence", "nearest training clip", "a|b:1",
        "model.d_model", "of trial 1", "cd34", "hand.tflite", "No clip was rejected",
    ):  # fmt: skip
        assert text in page_text


def test_figures_are_files_too_and_follow_the_theme_inside_the_page(
    built: Path, page_text: str
) -> None:
    names = {path.name for path in (built / "figures").iterdir()}
    assert {"scores.svg", "curves.svg", "quality.svg", "search.svg", "slices.svg"} <= names
    assert {"sample-01-best.svg", "worst-02.svg", "signers.svg"} <= names
    assert {"sample-05-worst.svg", "attention-05-worst.svg"} <= names
    assert "sample-99-old.svg" not in names
    assert "#1d5fd1" in (built / "figures" / "scores.svg").read_text(encoding="utf-8")
    body = page_text.split("</style>", 1)[1]
    assert "#1d5fd1" not in body
    assert "var(--blue)" in body
    slices = (built / "figures" / "slices.svg").read_text(encoding="utf-8")
    assert "1e-4" in slices  # the learning rates span decades
    assert "mathdefault" not in slices


def test_the_same_files_give_the_same_bytes(
    project: ReportPaths, built: Path, tmp_path: Path
) -> None:
    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    build_report(project, tmp_path, OPTIONS)
    assert read(tmp_path) == read(built)


def test_without_a_search_the_page_says_so(
    project: ReportPaths, tmp_path: Path, change: Callable[..., ReportPaths]
) -> None:
    build_report(change(project, tune=tmp_path / "nowhere"), tmp_path, OPTIONS)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "No search has been run" in text
    assert not (tmp_path / "figures" / "search.svg").exists()
    parse(text)


def test_without_attention_the_page_says_so(
    project: ReportPaths, tmp_path: Path, change: Callable[..., ReportPaths]
) -> None:
    import shutil

    shutil.copytree(project.evaluation, tmp_path / "evaluation")
    write_alignments(tmp_path / "evaluation" / "alignments.parquet", {})
    build_report(change(project, evaluation=tmp_path / "evaluation"), tmp_path, OPTIONS)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "decoder has no attention" in text
    assert "Where the model looked" not in text
    assert not list((tmp_path / "figures").glob("attention-*"))
    parse(text)


def test_rejected_clips_are_listed(
    project: ReportPaths, tmp_path: Path, change: Callable[..., ReportPaths]
) -> None:
    import shutil

    shutil.copytree(project.landmarks, tmp_path / "landmarks")
    reject = Reject("clip<7>", "a.mp4", "no frame could be read", "convert it")
    write_rejects(tmp_path / "landmarks" / "rejects.tsv", [reject])
    build_report(change(project, landmarks=tmp_path / "landmarks"), tmp_path, OPTIONS)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "clip&lt;7&gt;" in text
    assert "no frame could be read" in text


@pytest.fixture
def change() -> Callable[..., ReportPaths]:
    import dataclasses

    return lambda paths, **changes: dataclasses.replace(paths, **changes)


def test_a_missing_file_names_the_stage_that_writes_it(
    project: ReportPaths, tmp_path: Path, change: Callable[..., ReportPaths]
) -> None:
    with pytest.raises(UserError, match=r"scores\.json does not exist; run `dvc repro evaluate`"):
        read_sources(change(project, evaluation=tmp_path))
    (tmp_path / "scores.json").write_text('{"format_version": 99}')
    with pytest.raises(UserError, match="found format version 99, this Signloom reads 1"):
        read_sources(change(project, evaluation=tmp_path))


def test_the_verdict_compares_with_the_strongest_floor(project: ReportPaths) -> None:
    sources = read_sources(project)
    said = " ".join(verdict(sources))
    assert "On 5 test clips of 1 signer, none of whom is in train, BLEU-4 is 80.0" in said
    assert "60.0 BLEU-4 above the strongest floor (nearest training clip, 20.0" in said
    assert "comes from looking, not from guessing" in said
    sources.splits["test"]["systems"]["model"]["bleu4"] = score(22.0)
    sources.splits["test"]["systems"]["blind"]["bleu4"] = score(15.1)
    sources.splits["test"]["missing"] = ["x"]
    said = " ".join(verdict(sources))
    assert "not clearly better than the strongest floor" in said
    assert "guessed without looking" in said
    assert "without landmarks: 1 clip." in said


def test_the_corpus_table_counts_by_hand(project: ReportPaths) -> None:
    train, dev, test = corpus_table(read_sources(project))
    assert (train["clips"], train["signers"], train["words"]) == (3, 1, 12)
    assert train["minutes"] == pytest.approx(3 * 0.8 / 60)
    assert dev["seen"] == 1
    assert dev["new_words"] == 0
    assert test["seen"] == pytest.approx(1 / 5)
    assert test["distinct_sentences"] == 5


def test_samples_are_the_best_the_typical_and_the_worst(project: ReportPaths) -> None:
    rows = read_sources(project).hypotheses
    samples = pick_samples(rows, "test", 1)
    assert [(s.group, s.row["clip_id"]) for s in samples] == [
        ("best", "test0"), ("typical", "test3"), ("worst", "test4"),
    ]  # fmt: skip
    many = pick_samples(rows, "test", 9)
    assert len({sample.row["clip_id"] for sample in many}) == len(many) == 5


def test_words_are_marked_on_the_side_where_they_stand() -> None:
    sample = mark_words({"reference": "a b c", "hypothesis": "x a d c"})
    assert [(word.text, word.kind) for word in sample.reference] == [
        ("a", "equal"), ("b", "missing"), ("c", "equal"),
    ]  # fmt: skip
    assert [(word.text, word.kind) for word in sample.hypothesis] == [
        ("x", "extra"), ("a", "equal"), ("d", "wrong"), ("c", "equal"),
    ]  # fmt: skip


def test_pictures_show_what_was_found_and_nothing_else() -> None:
    pictures = draw_pictures(sequence(0), 5)
    assert len(pictures) == 5
    assert [round(picture.time_s, 2) for picture in pictures] == [0.0, 0.2, 0.4, 0.56, 0.76]
    assert all("nan" not in picture.svg for picture in pictures)
    assert pictures[1].svg.count("<path") == 1 + 6  # frame 5 has no left hand
    assert pictures[0].svg.count("<path") == 1 + 12
    numbers = [float(x) for x in re.findall(r"[ML]([\d.-]+) ", "".join(p.svg for p in pictures))]
    assert min(numbers) >= 0
    assert max(numbers) <= 100
    assert join_pictures(pictures).count("<g ") == 5


def test_a_clip_without_any_landmark_gives_empty_pictures() -> None:
    points = np.full((4, HANDS_POSE.points, 3), np.nan, dtype=np.float32)
    nothing = LandmarkSequence(points=points, present=np.zeros((4, 3), dtype=np.bool_), fps=25.0,
                               width=320, height=240)  # fmt: skip
    assert len(draw_pictures(nothing, 8)) == 4
    assert all("<path" not in picture.svg for picture in draw_pictures(nothing, 8))


@pytest.mark.parametrize(("key", "value"), [("samples", 0), ("pictures", 1)])
def test_options_name_the_key_that_is_wrong(key: str, value: int) -> None:
    content: dict[str, Any] = {"title": "t", "samples": 1, "pictures": 4, "quality": QUALITY}
    content[key] = value
    with pytest.raises(ValueError, match=f"{key}: found {value}"):
        ReportOptions(**content)
