import dataclasses

import torch

from signloom.models.layers import FeedForward
from signloom.models.registry import build_model
from studies.components.page import build_page
from studies.components.study import (
    ComponentsOptions,
    drop_feed_forward,
    measure_order,
    train_components,
)
from studies.reversal.lab import read_lab
from studies.study_page import render_study
from tests.tiny import MODEL
from tests.unit.studies.lab import LAB


def test_without_feed_forward_its_residual_adds_nothing() -> None:
    torch.manual_seed(0)
    model = build_model(MODEL, input_width=6, vocab_size=9, ctc_labels=0).eval()
    blocks = [module for module in model.modules() if isinstance(module, FeedForward)]
    for block in blocks:
        torch.nn.init.zeros_(block.project.weight)
        torch.nn.init.zeros_(block.project.bias)
    source, valid = torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool)
    inputs = source, valid, torch.ones(2, 3, dtype=torch.int64)
    expected = model(*inputs)
    drop_feed_forward(model)
    assert not any(isinstance(module, FeedForward) for module in model.modules())
    assert torch.equal(model(*inputs), expected)


def test_an_encoder_without_positions_knows_no_order() -> None:
    lab = read_lab(LAB)
    moved = {}
    for kind in ("none", "sinusoidal"):
        options = dataclasses.replace(lab.model, positions=kind)
        torch.manual_seed(0)
        model = build_model(options, input_width=8, vocab_size=8, ctc_labels=0)
        moved[kind] = measure_order(model.eval(), lab)
    assert moved["none"] < 1e-5 < 1e-2 < moved["sinusoidal"]


def test_the_page_names_every_part() -> None:
    variants = {"base": {"train.learning_rate": 0.001}, "<no> block": {"feed_forward": "none"}}
    options = ComponentsOptions(seeds=[1, 2], variants=variants, reversal=LAB)
    trained = list(train_components(options))
    assert [(row["variant"], row["seed"]) for row in trained] == [
        ("base", 1),
        ("<no> block", 1),
        ("base", 2),
        ("<no> block", 2),
    ]
    assert trained[1]["parameters"] < trained[0]["parameters"]
    assert trained[0]["worst_unit"] > trained[1]["worst_unit"] == 0  # it has none to cut
    assert all(row["worst_head"] >= row["head"] for row in trained)
    page = render_study(build_page({"trained": trained}))
    assert "&lt;no&gt; block" in page
    assert page.count('role="img"') == 1
