import pytest
import torch

from studies.cost.page import build_page
from studies.cost.study import CostOptions, plan_jobs
from studies.study_page import render_study
from tests.tiny import MODEL

OPTIONS = CostOptions(
    lengths=[4, 8],
    clips=1,
    tokens=3,
    input_width=6,
    vocab_size=9,
    repeats=1,
    variants={"LSTM": {"family": "lstm"}, "linear": {"linear": True}},
)


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_of_every_model_is_measured_at_every_length(threads: int) -> None:
    before = torch.get_num_threads()
    try:
        rows = [job.run() for job in plan_jobs(OPTIONS, MODEL, "cpu", threads)]
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert [(row["variant"], row["length"]) for row in rows] == [
        ("LSTM", 4),
        ("linear", 4),
        ("LSTM", 8),
        ("linear", 8),
    ]
    assert all(row["ms"] > 0 and row["memory_mb"] > -1 for row in rows)  # the kernel rounds


def test_the_page_has_the_power_with_which_a_step_grows() -> None:
    steps = [
        {"variant": "LSTM", "length": n, "ms": 2.0 * n, "memory_mb": n * n} for n in (32, 64, 128)
    ]
    page = render_study(build_page({"device": "a CPU", "clips": 1, "steps": steps}))
    assert "From 64 to 128 frames time grows with the power LSTM 1.0, memory with LSTM 2.0" in page
    assert page.count('role="img"') == 1
