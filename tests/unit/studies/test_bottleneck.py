import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from signloom.models.registry import build_model
from signloom.training.train import read_run_options
from studies.bottleneck.page import build_page
from studies.bottleneck.study import BottleneckOptions, differentiate, train_reversal
from studies.bottleneck.text import read_text, share_alike, train_text
from studies.reversal.lab import build_pairs, read_lab
from studies.runs import load_study
from studies.study_page import render_study
from tests.tiny import ROOT
from tests.unit.studies.lab import LAB

STUDIES = ROOT / "studies"
OPTIONS = BottleneckOptions(
    seeds=[1],
    variants={
        "GRU, one way": {"family": "gru", "attention": "none", "bidirectional": False},
        "GRU + attention, both ways": {"family": "gru", "attention": "dot"},
        "Transformer": {"family": "transformer"},
    },
    reversal=LAB,
    gradient_symbols=6,
    text_variants=["GRU, one way", "Transformer"],
    text_model={"d_model": 16, "heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1},
    text_train={"epochs": 1, "learning_rate": 0.001, "warmup_steps": 2},
    lengths=[3, 5],
    contextual="Transformer",
    senses={"ABEND": {"greeting": "guten abend", "time": "am abend"}},
)


@pytest.mark.parametrize(
    ("name", "over"),
    [
        *((name, over) for name in ("bottleneck", "components", "cost") for over in ("", "long")),
        *(("components", over) for over in ("deep", "dropout", "rates", "sizes")),
    ],
)
def test_the_parameters_of_a_study_are_read_with_every_section(name: str, over: str) -> None:
    module = __import__(f"studies.{name}.study", fromlist=["study"])
    kind = getattr(module, f"{name.capitalize()}Options")
    load_study(STUDIES / name / "params.yaml", kind, over=over)


def test_without_attention_the_gradient_reaches_a_source_step_through_all_later_ones() -> None:
    lab = read_lab(LAB)
    batch = build_pairs([(1, 2, 3, 4, 5, 1, 2, 3)], lab.task.ids)
    gradients = {}
    for attention in ("none", "additive"):
        options = dataclasses.replace(
            lab.model,
            family="rnn",
            attention=attention,
            bidirectional=False,
            initialization="torch",
        )
        torch.manual_seed(0)
        model = build_model(options, input_width=8, vocab_size=8, ctc_labels=0)
        gradients[attention] = differentiate(model, batch)
        assert all(parameter.grad is None for parameter in model.parameters())
    assert len(gradients["none"]) == 8
    assert max(gradients["none"]) == max(gradients["additive"]) == 1
    assert gradients["none"][0] < 0.02 < gradients["additive"][0]


def test_neighbours_are_those_of_train_and_count_once_for_each_meaning() -> None:
    labels = np.array(["a", "a", "b", "a", "b"])
    is_known = np.array([True, True, True, False, False])
    near = np.zeros((5, 5))
    assert share_alike(near, labels, is_known) == pytest.approx((2 / 3 + 1 / 3) / 2, abs=1e-4)


def write_tables(folder: Path) -> None:
    lines = {
        "GUT ABEND ZUSCHAUER": "guten abend liebe zuschauer .",
        "ABEND REGEN": "am abend regnet es .",
        "SONNE ABEND WARM": "sonnig und am abend warm .",
        "GUT ABEND": "guten abend .",
    }
    for split in ("train", "dev", "test"):
        rows = [
            f"{split}/{number}\ts1\t{gloss}\t{text}\t9\n"
            for number, (gloss, text) in enumerate([*lines.items()] * 13)
        ]
        table = "name\tsigner\tgloss\ttext\tnum_frames\n" + "".join(rows)
        (folder / f"phoenix14t.{split}.tsv").write_text(table, encoding="utf-8")


@pytest.mark.slow
def test_the_page_has_sequences_sentences_and_senses(tmp_path: Path) -> None:
    """Quick twins: the tests of the gradient and of the senses above."""
    write_tables(tmp_path)
    text = read_text(tmp_path)
    base = read_run_options(STUDIES / "gloss_to_text/params.yaml")
    results = {
        "lengths": OPTIONS.lengths,
        "reversal": list(train_reversal(OPTIONS)),
        "text": list(train_text(OPTIONS, base, text)),
    }
    assert [row["variant"] for row in results["text"]] == OPTIONS.text_variants
    senses = results["text"][1]["senses"]["ABEND"]
    assert senses["occurrences"] == {"greeting": 78, "time": 78}
    assert senses["neighbours"] == 1  # equal sentences have equal states
    assert len(results["reversal"][0]["wrong"]) == 3
    page = render_study(build_page(results))
    assert "greeting 78" in page
    assert page.count('role="img"') == 5
    assert render_study(build_page({**results, "text": []})).count('role="img"') == 3
