"""What is said of a model of glosses: its floors, its tables, its page."""

import csv
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from signloom.checkpoint import Checkpoint, save_checkpoint
from signloom.corpus.landmark_folder import write_no_landmarks
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.floors import fit_nearest, gloss_distances
from signloom.evaluation.metric_names import System
from signloom.evaluation.results import write_evaluation
from signloom.evaluation.systems import run_systems
from signloom.features.glosses import GlossSequence, GlossVocabulary
from signloom.features.targets import build_targets, write_targets
from signloom.report.build import build_report
from signloom.report.stage_files import ReportPaths, read_scores
from signloom.translation.confidence import CONFIDENCE, read_confidence
from tests import glosses, report_project
from tests.unit.evaluation.world import DECODING, OPTIONS, history, read_table, setup

DATA = glosses.training_data("glosses")
_, _, TARGETS = build_targets(glosses.clips(), glosses.tokenize_options("glosses"))


def count_edits(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Levenshtein's distance as his recursion has it."""
    if not hypothesis or not reference:
        return len(hypothesis) + len(reference)
    if hypothesis[0] == reference[0]:
        return count_edits(hypothesis[1:], reference[1:])
    changes = (
        (hypothesis[1:], reference),
        (hypothesis, reference[1:]),
        (hypothesis[1:], reference[1:]),
    )
    return 1 + min(count_edits(*change) for change in changes)


def test_edits_are_those_of_the_recursion() -> None:
    rng = np.random.default_rng(0)
    lines = [tuple(rng.choice(list("abc"), rng.integers(0, 6)).tolist()) for _ in range(20)]
    lines = [line for line in lines if line] or [("a",)]
    distances = gloss_distances(lines)
    for query in itertools.product("abx", repeat=3):
        for cut in range(4):
            names = query[:cut]
            ratios = distances(GlossSequence(names, np.zeros(cut, np.int64), ())).tolist()
            edits = [count_edits(names, line) for line in lines]
            longer = [max(len(names), len(line)) for line in lines]
            assert ratios == [edit / most for edit, most in zip(edits, longer, strict=True)]


def test_the_nearest_glosses_are_those_with_the_fewest_edits_for_their_length() -> None:
    vocabulary = GlossVocabulary.build(["A B C D E", "B", "A X"], "glosses")
    distances = gloss_distances([("a", "b", "c", "d", "e"), ("b",), ("a", "x")])
    # One edit of two is nearer than one of one.
    for line, nearest in (("A B C D", 0), ("B", 1), ("A", 2)):
        assert distances(vocabulary.encode(line)).argmin() == nearest


def test_a_model_of_glosses_has_floors_of_its_own(tmp_path: Path) -> None:
    translator = glosses.untrained(DATA)
    sources = translator.source.read(TARGETS, tmp_path / "none")
    dev, test = run_systems(setup(translator, targets=TARGETS, sequences=sources))
    assert set(test.texts) == set(System) - {System.LINEAR}
    assert test.texts[System.COPY] == [t.gloss.lower() for t in TARGETS if t.split == "test"]
    assert [facts.unknown for facts in test.facts] == [()] * 4
    assert all(facts.fps is facts.hands is facts.seconds is None for facts in dev.facts)
    train = [target for target in TARGETS if target.split == "train"]
    nearest = fit_nearest(translator, TARGETS, sources)
    assert nearest([sources[t.clip_id] for t in train]) == [target.text for target in train]
    blind = translator.translate(list(sources.values())[:3], DECODING, blind=True)
    assert [translation.text for translation in blind] != test.texts["model"][:3]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a text corpus as the stages before `report` leave it."""
    root = tmp_path_factory.mktemp("glosses")
    translator = glosses.untrained(DATA)
    write_no_landmarks(root / "landmarks")
    write_targets(root / "targets.parquet", TARGETS, DATA.source.vocabulary)
    checkpoint = Checkpoint(
        spec=translator.spec, model=translator._model, tokenizer=translator._tokenizer
    )
    save_checkpoint(root / "checkpoint", checkpoint)
    history(root / "checkpoint")
    content = json.loads((root / "checkpoint/history.json").read_text())
    (root / "checkpoint/history.json").write_text(
        json.dumps({"format_version": 1, "best_epoch": 1, **content})
    )
    sources = translator.source.read(TARGETS, root / "landmarks/shards")
    changed = {**sources, "test16": translator.source.vocabulary.encode("HAUS NIE NIE")}
    evaluation = evaluate(translator, TARGETS, changed, OPTIONS)
    write_evaluation(root / "reports", evaluation, root / "checkpoint/history.json")
    return root


def test_tables_leave_out_what_glosses_have_not(evaluated: Path) -> None:
    splits = read_scores(evaluated / "reports/evaluation/scores.json")["splits"]
    assert (splits["test"]["unknown_glosses"], splits["dev"]["unknown_glosses"]) == (2, 0)
    assert {"copy", "retrieval", "blind"} <= splits["test"]["systems"].keys()
    rows = read_table(evaluated / "reports/evaluation/hypotheses.tsv")
    assert [row["gloss"] for row in rows] == [t.gloss for t in TARGETS if t.split != "train"]
    assert {(row["hands"], row["fps"], row["seconds"]) for row in rows} == {("", "", "")}


def test_sentences_are_held_against_glosses_as_the_model_reads_them(evaluated: Path) -> None:
    sign_costs = read_confidence(evaluated / "reports/evaluation" / CONFIDENCE).signs_said
    assert {"haus", "wind"} <= sign_costs.costs.keys() <= {name.lower() for name in glosses.WORDS}
    sources = glosses.untrained(DATA).source.read(TARGETS, evaluated / "landmarks/shards")
    for target, next_target in itertools.pairwise(t for t in TARGETS if t.split == "train"):
        own_cost, other_cost = (
            sign_costs.cost(target.text, sources[t.clip_id].glosses) for t in (target, next_target)
        )
        assert own_cost < other_cost


def test_the_page_says_nothing_of_landmarks(evaluated: Path, tmp_path: Path) -> None:
    paths = ReportPaths(
        evaluation=evaluated / "reports/evaluation",
        tune=evaluated / "tune",
        landmarks=evaluated / "landmarks",
        targets=evaluated / "targets.parquet",
        checkpoint=evaluated / "checkpoint",
    )
    build_report(paths, tmp_path, report_project.OPTIONS)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for word in ("the glosses, copied", "glosses unknown"):
        assert word in page
    body = page.partition("</style>")[2].partition("<script>")[0].lower()
    for word in ("landmark", "skeleton", "video", "hand"):
        assert word not in body, body[body.index(word) - 200 : body.index(word) + 50]
    with (evaluated / "reports/evaluation/hypotheses.tsv").open(encoding="utf-8") as lines:
        shown = [row["gloss"] for row in csv.DictReader(lines, delimiter="\t")]
    assert any(f">{gloss}<" in page for gloss in shown)
