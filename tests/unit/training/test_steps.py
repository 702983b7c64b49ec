"""A step that runs out of memory or numbers, and what a step costs."""

import logging
import re
import resource
from pathlib import Path

import pytest
import torch

from signloom.errors import UserError
from signloom.training.loop import (
    BatchCounts,
    BatchLoss,
    DivergedError,
    StepReport,
    accumulate_gradients,
    is_out_of_memory,
    real_rows,
)
from signloom.training.loss import consistency_loss
from signloom.training.parallel import open_devices
from signloom.training.snapshots import Snapshots
from signloom.training.train import train
from tests import tiny
from tests.processes import fork, wait
from tests.unit.training.steps import setting


def gradients(loss: BatchLoss) -> dict[str, torch.Tensor]:
    return {n: p.grad.clone() for n, p in loss.named_parameters() if p.grad is not None}


def test_parts_of_a_batch_add_up_to_its_gradients() -> None:
    runs = []
    for accumulate in (1, 2, 20):  # of nine clips
        loss, source = setting(accumulate=accumulate)
        fabric = open_devices(loss.options)
        (clips,) = source.plan(1)
        losses, counts = accumulate_gradients(loss, source, fabric, epoch=1, clips=clips)
        runs.append((gradients(loss), losses, counts))
    (full_gradients, losses, counts), *in_parts = runs
    for parts, part_losses, part_counts in in_parts:
        assert parts.keys() == full_gradients.keys()
        for name, gradient in full_gradients.items():  # sums of float32 in another order
            torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(part_losses, losses, rtol=1e-5, atol=0)
        assert part_counts[:4].tolist() == counts[:4].tolist()
        assert BatchCounts(*part_counts).padded_frames <= BatchCounts(*counts).padded_frames


def test_two_passes_under_dropout_are_pulled_towards_each_other() -> None:
    loss, source = setting(consistency=3.0)
    plain, _ = setting()
    batch = source.build(1, [0, 1, 2])
    rows = real_rows(batch)
    # Without dropout both passes say the same.
    for value, expected in zip(loss(batch, rows), plain(batch, rows), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=0)
    for part in loss.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.3
    torch.manual_seed(2)
    text, ctc = loss(batch, rows)
    torch.manual_seed(2)
    passes = [loss.run_model(batch, rows) for _ in range(2)]
    first, second = (loss.losses(batch, rows, *encoded) for encoded in passes)
    apart = consistency_loss(loss.model.head, passes[0][1], passes[1][1])
    assert apart > 0.01
    torch.testing.assert_close(
        text, (first.text + second.text) / 2 + 1.5 * apart, rtol=1e-5, atol=0
    )
    torch.testing.assert_close(ctc, (first.ctc + second.ctc) / 2, rtol=1e-5, atol=0)


def test_what_does_not_fit_is_taken_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    step, source = setting()
    fabric = open_devices(step.options)
    (clips,) = source.plan(1)
    expected, _ = accumulate_gradients(*setting(), fabric, epoch=1, clips=clips)
    encode, most = step.model.encode, 3

    def starve(src: torch.Tensor, valid: torch.Tensor) -> object:
        if len(src) > most:
            raise torch.OutOfMemoryError
        return encode(src, valid)

    step.model.encode = starve  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.INFO):
        losses, _ = accumulate_gradients(step, source, fabric, epoch=1, clips=clips)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=0)
    assert "it is taken in 4; train.accumulate: 4" in caplog.text
    most = 0
    with pytest.raises(UserError, match=r"memory for a single clip .*\(model\.d_model"):
        accumulate_gradients(step, source, fabric, epoch=1, clips=clips)


@pytest.mark.slow
def test_a_batch_that_is_too_large_is_taken_in_parts(tmp_path: Path) -> None:
    """A child may use little memory: its batch fails at once, its halves do not.

    Quick twin: test_what_does_not_fit_is_taken_in_parts.
    """
    log = tmp_path / "log.txt"

    def starve() -> None:
        logging.basicConfig(filename=log, force=True)
        loss, source = setting()
        fabric = open_devices(loss.options)
        (clips,) = source.plan(1)
        accumulate_gradients(loss, source, fabric, epoch=1, clips=clips[:1])  # first uses allocate
        block = loss.model.encode

        def encode(src: torch.Tensor, valid: torch.Tensor) -> object:
            # What a large model would take: 1 GB a clip, never touched, given back at once.
            torch.empty(len(src) * 250_000_000)
            return block(src, valid)

        loss.model.encode = encode  # type: ignore[method-assign, assignment]

        def allow(more: int) -> None:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + more, -1))

        allow(3_500_000_000)
        losses, _ = accumulate_gradients(loss, source, fabric, epoch=1, clips=clips)
        expected, _ = accumulate_gradients(*setting(), fabric, epoch=1, clips=clips)
        torch.testing.assert_close(losses, expected, rtol=1e-5, atol=0)
        allow(500_000_000)
        with pytest.raises(UserError, match=r"memory for a single clip .*\(model\.d_model"):
            accumulate_gradients(loss, source, fabric, epoch=1, clips=clips)

    assert wait(fork(starve)) == 0
    text = log.read_text()
    assert "a batch in 1 parts (" in text
    assert "it is taken in 2" in text
    assert "it is taken in 4; train.accumulate: 4" in text


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_nan_loss_names_its_step_and_the_snapshot_before_stays(tmp_path: Path) -> None:
    options = tiny.run_options(
        epochs=50, learning_rate=1e30, warmup_steps=1, max_frames=40, snapshot_s=0.0
    )
    reports: list[StepReport] = []
    with pytest.raises(DivergedError) as caught:
        train(
            tiny.training_data(),
            options,
            provenance={},
            log=lambda _: None,
            watch=reports.append,
            snapshots=Snapshots(tmp_path),
        )
    message = str(caught.value)
    (place,) = re.findall(r"^epoch (\d+), step (\d+) of \d+: the loss or its gradient", message)
    assert "lower train.learning_rate" in message
    epoch, step = map(int, place)
    state = Snapshots(tmp_path).read(torch.device("cpu"))
    assert state is not None
    assert all(weights.isfinite().all() for weights in state["model"].values())
    assert (state["progress"]["epoch"], state["progress"]["step"]) == (epoch, step - 1)
