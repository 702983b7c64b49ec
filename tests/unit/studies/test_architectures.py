import dataclasses

import pytest

from signloom.evaluation.evaluate import EvaluateOptions, GridOptions
from signloom.evaluation.metrics import ScoreOptions
from signloom.training.data import TrainingFiles
from studies.architectures.page import build_page
from studies.architectures.study import ArchitecturesOptions, plan_corpus
from studies.sentences import score_by_length
from studies.study_page import render_study
from tests import tiny
from tests.tiny import run_options

SCORE = ScoreOptions(tokenizer="13a", resamples=100, seed=1)
EVALUATE = EvaluateOptions(
    precision="float32",
    decoding=tiny.decoding(beam_size=1, max_tokens=8),
    grid=GridOptions(beam_sizes=(), length_penalties=()),
    score=SCORE,
)
OPTIONS = ArchitecturesOptions(
    seeds=[1, 2],
    train={"epochs": 1},
    variants={"LSTM": {"family": "lstm", "attention": "none"}, "Transformer": {}},
    learning_rates={"LSTM": 0.005},
    workers=1,
)


def corpus_run(variant: str, seed: int, bleu: float) -> dict[str, object]:
    score = {
        "bleu4": bleu,
        "chrf": bleu,
        "wer": 100 - bleu,
        "signature": "a|b:1",
        "translate_ms": 2.0,
    }
    sentences = [["test", "je vais à la maison", "je vais à la maison"], ["dev", "tu vas là", "tu"]]
    return {
        "variant": variant,
        "seed": seed,
        "scores": {"dev": score, "test": score},
        "sentences": sentences,
        "parameters": 1000,
        "epochs": 3,
        "best_epoch": 2,
        "dev_loss": 1.0,
        "cpu_s": 4.0,
        "memory_mb": 5.0,
    }


def test_every_variant_gets_the_same_recipe_and_every_seed() -> None:
    jobs = plan_corpus(OPTIONS, run_options(), EVALUATE, TrainingFiles())
    assert [(job.variant, job.options.train.seed) for job in jobs] == [
        ("LSTM", 1),
        ("Transformer", 1),
        ("LSTM", 2),
        ("Transformer", 2),
    ]
    assert jobs[0].options.model.family == "lstm"
    assert jobs[1].options.model == run_options().model
    assert jobs[0].options.train.learning_rate == 0.005
    recipes = {
        str(dataclasses.replace(job.options.train, seeds=[0], learning_rate=1.0)) for job in jobs
    }
    assert len(recipes) == 1
    assert jobs[0].options.train.epochs == 1


def test_sentences_of_one_length_are_scored_together() -> None:
    runs = [corpus_run("a", seed, 50.0) for seed in (1, 2)]
    scores = score_by_length(runs, SCORE, [3, 5])["a"]
    assert list(scores) == ["1-3", "4-5"]
    assert (scores["4-5"]["clips"], scores["4-5"]["wer"]) == (2, 0)
    assert scores["4-5"]["bleu4"] == pytest.approx(100)
    assert scores["1-3"]["wer"] == pytest.approx(100 * 2 / 3)


def test_the_page_shows_what_was_measured() -> None:
    runs = [
        corpus_run(name, seed, b) for name, b in (("LSTM", 10.0), ("<b>", 80.0)) for seed in (1, 2)
    ]
    page = render_study(build_page({"corpus": runs}, SCORE))
    assert "<b>" not in page
    for text in ("BLEU-4 of 80.0", "10.0 ± 0.0", "a|b:1"):
        assert text in page
    assert page.count('role="img"') == 2
