import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from signloom.checkpoint import save_checkpoint
from signloom.errors import UserError
from signloom.features.batches import FixedBatches
from signloom.features.targets import NO_LABELS
from signloom.models.layers import TokenEmbedding
from signloom.training.data import TrainingData
from signloom.training.loop import BatchLoss, EpochRecord, StepReport, dev_score
from signloom.training.parallel import open_devices
from signloom.training.train import RunOptions, TrainingBar, check_run, seed_everything, train
from signloom.translation.translator import Translator
from tests import tiny
from tests.tiny import hold_clips

CPU = torch.device("cpu")
GREEDY = tiny.decoding(beam_size=1, max_tokens=20)


def ignore(_: EpochRecord) -> None:
    """Log nothing."""


def crowd(data: TrainingData, clips: int) -> TrainingData:
    """Give the first train clips more labels than they have frames."""
    spelt = [
        e._replace(target=dataclasses.replace(e.target, labels=[1] * 20))
        for e in tiny.examples_of(data.train)[:clips]
    ]
    return dataclasses.replace(
        data, train=hold_clips([*spelt, *tiny.examples_of(data.train)[clips:]], {"name": "tiny"})
    )


def test_clips_with_too_many_labels_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    records: list[EpochRecord] = []
    data = crowd(tiny.training_data(), 2)
    train(data, tiny.run_options(epochs=1), provenance={}, log=records.append)
    assert records[0].ctc_skipped == 2
    assert 0 < records[0].train_ctc_loss < 20
    assert "2 of 8 train clips have more CTC labels than memory positions" in caplog.text


def test_ctc_with_no_room_at_all_is_refused() -> None:
    data = crowd(tiny.training_data(), 8)
    with pytest.raises(UserError, match=r"8 of 8 train clips .* lower model\.subsampling"):
        train(data, tiny.run_options(), provenance={}, log=ignore)
    train(data, tiny.run_options(ctc_weight=0.0, epochs=1), provenance={}, log=ignore)


def test_sentences_too_long_for_an_encoder_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    data = tiny.training_data()
    long = [
        e._replace(target=dataclasses.replace(e.target, ids=[1, *[5] * 9, 2]))
        for e in tiny.examples_of(data.train)[:2]
    ]
    data = dataclasses.replace(data, train=hold_clips([*long, *tiny.examples_of(data.train)[2:]]))
    options = tiny.run_options(ctc_weight=0.0, epochs=1)
    model = dataclasses.replace(options.model, family="encoder_only")
    check_run(data, dataclasses.replace(options, model=model))
    assert "2 of 8 train clips have more tokens than memory positions" in caplog.text
    assert "cannot write their sentences" in caplog.text
    assert "train.label_smoothing is 0.1, but encoder_only has no decoder" in caplog.text


def test_the_same_seed_gives_the_same_weights_to_the_bit(tmp_path: Path) -> None:
    data, options = tiny.training_data(), tiny.run_options()
    for name in ("first", "second"):
        checkpoint, _ = train(data, options, provenance={"x": 1}, log=ignore)
        save_checkpoint(tmp_path / name, checkpoint)
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert files == ["checkpoint.json", "model.safetensors", "tokenizer.json"]
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    other_seed, _ = train(data, tiny.run_options(seeds=[4]), provenance={}, log=ignore)
    weights = other_seed.model.state_dict()["decoder.output.weight"]
    assert not torch.equal(weights, checkpoint.model.state_dict()["decoder.output.weight"])


def test_nothing_is_read_that_was_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NaN in all new memory training gives the same bytes as without."""
    chance = dataclasses.replace(tiny.MODEL, dropout=0.2, subsampling=4)
    options = dataclasses.replace(tiny.run_options(epochs=1), model=chance)

    def weights() -> dict[str, torch.Tensor]:
        return train(tiny.training_data(), options, provenance={}, log=ignore)[1].weights

    plain = weights()
    assert not torch.utils.deterministic.fill_uninitialized_memory

    def seed_and_fill(seed: int) -> None:
        seed_everything(seed)
        torch.utils.deterministic.fill_uninitialized_memory = True

    monkeypatch.setattr("signloom.training.train.seed_everything", seed_and_fill)
    filled = weights()
    assert torch.empty(3).isnan().all()
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert all(torch.equal(plain[name], filled[name]) for name in plain)


def test_landmarks_of_another_make_are_refused() -> None:
    data = tiny.training_data()
    checkpoint, _ = train(data, tiny.run_options(epochs=1), provenance={}, log=ignore)
    translator = Translator(checkpoint, CPU)
    data.source.check_extractor({"name": "tiny"})
    with pytest.raises(UserError, match="name: other, not tiny; version: 2, not None"):
        data.source.check_extractor({"name": "other", "version": 2})
    layout = dataclasses.replace(data.dev.read([0])[0].layout, version=9)
    with pytest.raises(UserError, match="layout hands-pose version 9, the checkpoint was"):
        translator.rows(dataclasses.replace(data.dev.read([0])[0], layout=layout))


def test_a_gpu_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match="torch sees no GPU"):
        train(tiny.training_data(), tiny.run_options(device="cuda"), provenance={}, log=ignore)


def test_the_best_epoch_is_kept_and_training_stops_early() -> None:
    data = tiny.training_data()
    # A rate this high makes dev loss rise again soon.
    options = tiny.run_options(epochs=30, patience=3, learning_rate=0.05)
    records: list[EpochRecord] = []
    checkpoint, result = train(data, options, provenance={}, log=records.append)
    losses = [record.dev_loss for record in records]
    batches = FixedBatches(data.dev, tiny.FEATURES, max_frames=80, pad=data.tokenizer.pad)
    objective = BatchLoss(checkpoint.model, tiny.TRAIN, pad=data.tokenizer.pad, subsampling=1)
    assert dev_score(objective, batches, open_devices(tiny.TRAIN))[0] == result.dev_loss
    assert result.dev_loss == min(losses)
    assert losses[result.best_epoch - 1] == min(losses)
    assert len(records) == min(30, result.best_epoch + 3)


def test_without_patience_the_last_epoch_is_kept() -> None:
    """The loss of dev rises long before the signs of dev are read best."""
    options = tiny.run_options(epochs=20, patience=0, learning_rate=0.05)
    records: list[EpochRecord] = []
    _, result = train(tiny.training_data(), options, provenance={}, log=records.append)
    assert len(records) == result.best_epoch == 20
    assert result.dev_loss == records[-1].dev_loss > min(record.dev_loss for record in records)


def without_decoder(**changes: Any) -> RunOptions:
    model = dataclasses.replace(tiny.MODEL, decoder_layers=0)
    return dataclasses.replace(tiny.run_options(**changes), model=model, augment=tiny.NO_AUGMENT)


def test_without_a_decoder_ctc_is_what_is_learnt_and_dev_says_how_well() -> None:
    data = tiny.training_data()
    options = without_decoder(epochs=80, patience=80, learning_rate=0.005, max_frames=40)
    checkpoint, result = train(data, options, provenance={}, log=ignore)
    records = result.history
    assert not any(name.startswith("decoder") for name in checkpoint.model.state_dict())
    for record in records:
        assert record.train_loss == record.train_ctc_loss > 0
        assert record.tokens == len(data.train)  # a label a clip
    assert result.dev_loss == min(record.dev_loss for record in records) < 0.1
    assert records[0].dev_accuracy < records[result.best_epoch - 1].dev_accuracy == 1


def test_without_a_decoder_ctc_has_to_read() -> None:
    for change in ({"ctc_weight": 0.0}, {"consistency": 1.0}):
        with pytest.raises(UserError, match=rf"train\.{next(iter(change))}.* decoder"):
            train(tiny.training_data(), without_decoder(**change), provenance={}, log=ignore)


def test_dev_without_any_sign_of_train_stops_no_model_without_a_decoder() -> None:
    data = tiny.training_data()
    unknown = [dataclasses.replace(target, gloss="NEW") for target in data.dev.targets]
    data = dataclasses.replace(data, dev=dataclasses.replace(data.dev, targets=unknown))
    with pytest.raises(UserError, match=r"no dev clip .* set train\.patience to 0"):
        train(data, without_decoder(patience=5), provenance={}, log=ignore)
    _, result = train(data, without_decoder(patience=0), provenance={}, log=ignore)
    assert (result.best_epoch, result.dev_loss) == (2, 0)


def test_the_given_share_of_input_tokens_is_hidden_and_in_training_alone() -> None:
    data = tiny.training_data()
    first: dict[bool, list[int]] = {True: [], False: []}  # token of each sentence, by training

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if isinstance(module, TokenEmbedding):
            first[module.training] += inputs[0][:, 0].tolist()

    hook = register_module_forward_pre_hook(note)
    try:
        options = tiny.run_options(epochs=25, patience=25, token_drop=0.5)
        train(data, options, provenance={}, log=ignore)
    finally:
        hook.remove()
    assert set(first[False]) == {data.tokenizer.bos}
    assert set(first[True]) == {data.tokenizer.bos, data.tokenizer.pad}
    assert len(first[True]) == 200
    # 200 draws: a deviation of 7 from 100.
    assert 70 < first[True].count(data.tokenizer.pad) < 130


def test_ctc_without_labels_is_refused() -> None:
    data = dataclasses.replace(tiny.training_data(), labels=NO_LABELS)
    with pytest.raises(UserError, match="no train clip has CTC labels"):
        train(data, tiny.run_options(), provenance={}, log=ignore)
    train(data, tiny.run_options(ctc_weight=0.0), provenance={}, log=ignore)


@pytest.mark.parametrize(
    ("warmup", "message"),
    [
        (4000, "train.warmup_steps is 4,000, and this training has 12 steps (6 epochs of 2): the"),
        (13, "only rises, to 92 % of train.learning_rate"),
        (12, ""),
        (0.9, ""),
    ],
)
def test_a_warm_up_longer_than_training_is_told_before_it(
    warmup: float, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_run(tiny.training_data(), tiny.run_options(warmup_steps=warmup, epochs=6))
    assert message in caplog.text
    assert bool(caplog.text) == bool(message)


def test_a_warm_up_may_be_a_share_of_training() -> None:
    records: list[EpochRecord] = []
    options = tiny.run_options(warmup_steps=0.5, epochs=4, schedule="constant", patience=0)
    train(tiny.training_data(), options, provenance={}, log=records.append)
    # The rate of the next step after 2, 4, 6 and 8 of 8 steps.
    assert [r.lr / 0.003 for r in records] == pytest.approx([0.75, 1, 1, 1])


@pytest.mark.parametrize("warmup", [0, -1, 1.5, True])
def test_a_warm_up_that_is_neither_is_refused(warmup: float) -> None:
    with pytest.raises(UserError, match=f"warmup_steps: found {warmup}, expected "):
        dataclasses.replace(tiny.TRAIN, warmup_steps=warmup)


def test_a_long_training_says_how_long_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [100.0]
    monkeypatch.setattr("signloom.training.train.time.monotonic", lambda: clock[0])
    caplog.set_level("INFO")
    report = StepReport(epoch=3, step=2, steps=4, loss=1.0, lr=0.1, frames=0, tokens=0, padding=0.0)
    with contextlib.closing(TrainingBar(12, open_devices(tiny.TRAIN), 1)) as bar:
        bar.watch(report)
        for clock[0], step in ((110.0, 3), (340.0, 4), (350.0, 4)):
            bar.watch(dataclasses.replace(report, step=step))
    # From 2.5 to 3 of 12 epochs in 240 s.
    assert caplog.messages[0].startswith("training takes about 1:12:00 (hours:minutes:seconds)")
    assert len(caplog.messages) == 1


def test_two_passes_that_would_be_equal_are_refused() -> None:
    options = tiny.run_options(consistency=1.0, token_drop=0.0)
    with pytest.raises(UserError, match=r"train.consistency is 1, but its two passes are equal"):
        train(tiny.training_data(), options, provenance={}, log=ignore)
