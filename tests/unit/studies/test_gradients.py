import dataclasses

import pytest
import torch

from signloom.models.layers import Residual
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from studies.gradients.page import build_page
from studies.gradients.study import (
    Flow,
    GradientOptions,
    Plain,
    measure_flows,
    rewire,
    summarise_flows,
)
from studies.study_page import render_study
from tests.tiny import MODEL

OPTIONS = GradientOptions(
    depths=[2, 4], seeds=2, clips=2, frames=5, tokens=3, input_width=6, vocab_size=9
)
SMALL = dataclasses.replace(MODEL, d_model=16, heads=2, d_ff=16, decoder_layers=1)


def stack(**changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    options: ModelOptions = dataclasses.replace(SMALL, **changes)  # type: ignore[arg-type]
    model = build_model(options, input_width=6, vocab_size=9, ctc_labels=0)
    return model.eval().get_submodule("encoder.layers")


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_plain_block_is_the_residual_one_without_its_sum(norm: str) -> None:
    residual = next(m for m in stack(norm=norm).modules() if isinstance(m, Residual))
    x = torch.randn(2, 3, 16)
    plain, normed = Plain(residual)(x, double), residual.norm
    if norm == "pre":
        assert torch.equal(plain, 2 * normed(x))
        assert torch.equal(residual(x, double), x + plain)
    else:
        assert torch.equal(plain, normed(2 * x))
        assert torch.equal(residual(x, double), normed(x + 2 * x))


def test_rewiring_reaches_every_block_and_nothing_else() -> None:
    changed = stack(encoder_layers=3)
    rewire(changed, norm="none", wiring="plain")
    kinds = [type(module) for module in changed.modules()]
    assert Residual not in kinds
    assert torch.nn.LayerNorm not in kinds
    assert kinds.count(Plain) == 6
    stacked = stack(encoder_layers=3)
    rewire(stacked, norm="post", wiring="residual")
    assert [type(m) for m in stacked.modules()].count(Residual) == 6


@pytest.fixture(scope="module")
def flows() -> list[Flow]:
    return list(measure_flows(SMALL, OPTIONS))


def test_every_kind_is_measured_at_every_layer(flows: list[Flow]) -> None:
    assert len(flows) == 2 * 2 * 3 * 2
    assert {flow.initialization for flow in flows} == {"torch", "xavier_each"}
    for flow in flows:
        assert len(flow.arriving) == len(flow.spread) == flow.depth + 1
        assert len(flow.weights) == flow.depth
        assert min(*flow.arriving, *flow.weights) > 0
        assert flow.share == pytest.approx(100 * flow.arriving[0] / flow.arriving[-1])
    short = dataclasses.replace(OPTIONS, depths=[2])
    assert flows[:6] == list(measure_flows(SMALL, short))[:6]


def test_the_residual_sum_keeps_frames_apart(flows: list[Flow]) -> None:
    by_setup = {(f.depth, f.norm, f.wiring): f for f in flows if f.initialization == "xavier_each"}
    for norm in ("pre", "post"):
        plain, residual = by_setup[4, norm, "plain"], by_setup[4, norm, "residual"]
        assert plain.spread[-1] < 0.01 * residual.spread[-1]


def trained(seed: int, exact: float, **kind: object) -> dict[str, object]:
    row = {
        "initialization": "torch",
        "depth": 2,
        "norm": "post",
        "wiring": "residual",
        "warmup_steps": 60,
        "dev_loss": 0.1,
    }
    return {**row, "seed": seed, "exact": exact, **kind}


def test_the_page_shows_what_was_measured_with_both_initialisations(flows: list[Flow]) -> None:
    results = {
        "flows": summarise_flows(flows),
        "trained": [
            trained(seed, exact, initialization=drawn)
            for seed in (1, 2)
            for drawn, exact in (("torch", 1.0), ("xavier_each", 0.24))
        ],
        "deep": [trained(1, 0.5, warmup_steps=1), trained(2, 0.0, warmup_steps=1, dev_loss=None)],
    }
    page = render_study(build_page(results))
    for text in (
        "These learn: post-norm, residual (torch, 2 layers).",
        "These do not: post-norm, residual (xavier_each, 2 layers).",
        "24.0 ± 0.0 %",
        "(1 diverged)",
    ):
        assert text in page
    assert page.count('role="img"') == 1
