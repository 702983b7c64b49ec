"""One suite over every family and variant: what decoding and training rely on."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import get_args

import jaxtyping
import pytest
import torch
from torch.nn import functional

from signloom.checkpoint import load_checkpoint, save_checkpoint
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer
from signloom.models.registry import FAMILIES, planned
from signloom.models.seq2seq import Memory, ModelOptions
from tests import tiny
from tests.contract.variants import COMBINED, TEXT_MODELS, VARIANTS, Subject, build

LENGTHS = [9, 5, 12]
TOKENS = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10], [1, 11, 4, 5]])
RECURRENT = ("rnn", "gru", "lstm")
# Float32 sums in an order that processors choose: a few units in the last place of the largest
# numbers that are added up, and those of unnormalised decoders reach the tens.
CLOSE = {"rtol": 1e-4, "atol": 5e-5}
DECODING = [
    n for n, changes in VARIANTS.items() if dataclasses.replace(tiny.MODEL, **changes).has_decoder
]


def test_families_are_those_that_options_allow() -> None:
    allowed = get_args(ModelOptions.__annotations__["family"])
    assert set(FAMILIES) == set(allowed)
    assert {variant.get("family", "transformer") for variant in VARIANTS.values()} == set(allowed)


def marked(name: str) -> object:
    return pytest.param(
        VARIANTS[name], id=name, marks=[pytest.mark.slow] if name in COMBINED else []
    )


@pytest.fixture(params=[marked(name) for name in VARIANTS])
def subject(request: pytest.FixtureRequest) -> Subject:
    return build(**request.param)


@pytest.fixture(params=[marked(name) for name in DECODING])
def writer(request: pytest.FixtureRequest) -> Subject:
    """A subject with a decoder."""
    return build(**request.param)


def write(subject: Subject, memory: Memory, tokens: torch.Tensor = TOKENS) -> torch.Tensor:
    """Return the logits of the next tokens, or of what CTC spells at each real position."""
    model = subject.model
    if model.has_decoder:
        return model.decode(memory, tokens)
    return model.text_logits(memory)[memory.valid]


def logits_of(subject: Subject, tokens: torch.Tensor = TOKENS) -> torch.Tensor:
    return write(subject, subject.model.encode(*subject.source(LENGTHS)), tokens)


def test_logits_have_a_row_for_each_token_and_a_column_for_each_id(subject: Subject) -> None:
    src, valid = subject.source(LENGTHS)
    memory = subject.model.encode(src, valid)
    positions = -(-12 // subject.options.subsampling)
    assert memory.states.shape == (3, positions, subject.options.d_model)
    assert memory.valid.shape == (3, positions)
    labels = tiny.VOCAB + 1 if subject.model.spells_tokens else 5
    spelt = int(memory.valid.sum()), labels
    assert write(subject, memory).shape == (
        (3, 4, tiny.VOCAB) if subject.model.has_decoder else spelt
    )
    assert subject.model.ctc_logits(memory).shape == (3, positions, 5)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the types that tests check, as other people's code calls a model."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("unchecked")
def test_a_source_of_another_shape_is_refused(subject: Subject) -> None:
    src, valid = subject.source(LENGTHS)
    encode = subject.model.encode
    if subject.options.source == "glosses":
        with pytest.raises(ValueError, match=r"tokens: found float32 of shape \(3, 12\), expected"):
            encode(src.float(), valid)
        with pytest.raises(ValueError, match=r"tokens: found ids from .* to 20, expected 0 to 19"):
            encode(src + (src == src.max()) * (20 - src.max()), valid)
    else:
        expected = r"expected numbers of shape \(B, S, 6\)"
        with pytest.raises(
            ValueError, match=rf"src: found float32 of shape \(3, 12, 5\), {expected}"
        ):
            encode(src[..., :5], valid)
        with pytest.raises(ValueError, match=rf"src: found float32 of shape \(12, 6\), {expected}"):
            encode(src[0], valid)
        with pytest.raises(ValueError, match=rf"src: found int64 of shape \(3, 12\), {expected}"):
            encode(torch.ones(3, 12, dtype=torch.int64), valid)
    with pytest.raises(ValueError, match=r"src_valid: found bool of shape \(3, 11\), .*\(3, 12\)"):
        encode(src, valid[:, 1:])
    with pytest.raises(ValueError, match="src_valid: found int64 of shape"):
        encode(src, valid.long())


@pytest.mark.usefixtures("unchecked")
def test_tokens_of_another_shape_are_refused(writer: Subject) -> None:
    src, valid = writer.source(LENGTHS)
    for tokens, message in (
        (
            TOKENS[..., None],
            r"tokens: found int64 of shape \(3, 4, 1\), expected ids of .*\(B, T\)",
        ),
        (TOKENS.float(), r"tokens: found float32 of shape \(3, 4\), expected ids"),
        (TOKENS + 9, r"tokens: found ids from 10 to 20, expected 0 to 19"),
        (TOKENS[:1], "tgt_in: found 1 clips, expected 3, as the memory"),
    ):
        with pytest.raises(ValueError, match=message):
            writer.model(src, valid, tokens)


def test_the_head_projects_the_decoders_states(writer: Subject) -> None:
    memory = writer.model.encode(*writer.source(LENGTHS))
    states, head = writer.model.decode_states(memory, TOKENS), writer.model.head
    expected = writer.model.decode(memory, TOKENS)
    assert torch.equal(head(states), expected)
    assert states.shape == (3, 4, writer.options.d_model)
    assert torch.equal(functional.linear(states, head.weight, head.bias), expected)
    embedding = writer.model.state_dict(keep_vars=True)["decoder.embedding.weight"]
    assert (head.weight is embedding) == writer.options.tied_embeddings


def test_gradients_reach_every_parameter(subject: Subject) -> None:
    memory = subject.model.encode(*subject.source(LENGTHS))
    logits, ctc_logits = write(subject, memory), subject.model.ctc_logits(memory)
    logits = logits.clamp(min=-1e4)  # of what no position emits
    sum(x.square().sum() for x in (logits, ctc_logits)).backward()
    parameters = {n: p for n, p in subject.model.named_parameters() if p.requires_grad}
    still = [name for name, p in parameters.items() if p.grad is None or not p.grad.any()]
    # A key's bias adds the same number to every score of a query, which softmax takes away.
    nothing = ("key_value.bias", "k_proj.bias")
    assert [name for name in still if not name.endswith(nothing)] == []
    assert (len(parameters) < len(list(subject.model.parameters()))) == (
        subject.options.freeze != "none"
    )


def test_future_tokens_change_no_earlier_logit(writer: Subject) -> None:
    changed = TOKENS.clone()
    changed[:, 2:] = 3
    before, after = logits_of(writer), logits_of(writer, changed)
    torch.testing.assert_close(before[:, :2], after[:, :2], **CLOSE)
    assert not torch.allclose(before[:, 2:], after[:, 2:])


def test_more_padding_of_the_source_changes_nothing(subject: Subject) -> None:
    src, valid = subject.source(LENGTHS)
    # What stands in padding must not matter either.
    more = torch.cat((src, torch.full_like(src[:, :7], 9)), dim=1)
    more[~torch.cat((valid, valid[:, :7] & False), dim=1)] = 9
    more_valid = torch.cat((valid, torch.zeros(3, 7, dtype=torch.bool)), dim=1)
    memory, padded = subject.model.encode(src, valid), subject.model.encode(more, more_valid)
    real = memory.valid
    assert torch.equal(padded.valid[:, : real.shape[1]], real)
    assert not padded.valid[:, real.shape[1] :].any()
    torch.testing.assert_close(padded.states[padded.valid], memory.states[real], **CLOSE)
    expected = write(subject, memory)
    torch.testing.assert_close(write(subject, padded), expected, **CLOSE)


def test_order_of_the_source_matters(subject: Subject) -> None:
    src, valid = subject.source([12, 12])
    first, second = (
        write(subject, subject.model.encode(x, valid), TOKENS[:2]) for x in (src, src.flip(1))
    )
    if not subject.options.has_decoder:  # what each frame says, whenever it comes
        second = second.unflatten(0, (2, -1)).flip(1).flatten(0, 1)
    # Attention alone is blind to order; a Conformer's convolutions are not.
    is_blind = subject.options.positions == "none" and subject.options.family == "transformer"
    assert torch.allclose(first, second, atol=1e-5 if is_blind else 1e-3) == is_blind


def test_steps_equal_teacher_forcing(writer: Subject) -> None:
    memory = writer.model.encode(*writer.source(LENGTHS))
    state = writer.model.start(memory)
    stepped = []
    for column in TOKENS.T:
        logits, state = writer.model.step(column, state)
        stepped.append(logits)
    full = writer.model.decode(memory, TOKENS)
    torch.testing.assert_close(torch.stack(stepped, dim=1), full, **CLOSE)


def test_selected_rows_go_on_alone(writer: Subject) -> None:
    memory = writer.model.encode(*writer.source(LENGTHS))
    rows = torch.tensor([2, 0, 2])
    first, state = writer.model.step(TOKENS[:, 0], writer.model.start(memory))
    everything, _ = writer.model.step(TOKENS[:, 1], state)
    chosen, _ = writer.model.step(TOKENS[rows, 1], state.select(rows))
    torch.testing.assert_close(chosen, everything[rows], **CLOSE)
    begun, _ = writer.model.step(TOKENS[rows, 0], writer.model.start(memory.select(rows)))
    torch.testing.assert_close(begun, first[rows], **CLOSE)


@pytest.mark.slow
def test_one_batch_can_be_overfitted(writer: Subject) -> None:
    """Quick twin: test_gradients_reach_every_parameter."""
    src, valid = writer.source(LENGTHS)
    writer.model.train()
    optimizer = torch.optim.AdamW(writer.model.parameters(), lr=0.02)
    loss = torch.tensor(torch.inf)
    for _ in range(150):
        # Without a look at the source the first tokens alone cost ln(3) / 3 = 0.37.
        if loss < 0.15:
            return
        logits = writer.model(src, valid, TOKENS[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), TOKENS[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss is {loss.item():.2f} after 150 steps")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.build(tiny.SENTENCES, "pruned")


def test_a_loaded_checkpoint_is_the_saved_one(
    subject: Subject, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    options = dataclasses.replace(subject.options, source="landmarks")
    text, ctc = TEXT_MODELS.get(options.text_model), CtcLabels(kind="glosses", names=("A", "B"))
    saved = tiny.checkpoint(tokenizer, model=options, ctc=ctc, text_model=text)
    save_checkpoint(tmp_path / "checkpoint", saved)
    assert len({path.stat().st_mode for path in (tmp_path / "checkpoint").iterdir()}) == 1
    loaded = load_checkpoint(tmp_path / "checkpoint", torch.device("cpu"))
    assert loaded.spec == saved.spec
    weights = loaded.model.state_dict()
    assert weights.keys() == saved.model.state_dict().keys()
    assert all(torch.equal(weights[name], w) for name, w in saved.model.state_dict().items())


def test_the_same_seed_gives_the_same_training_pass(subject: Subject) -> None:
    changes = {**dataclasses.asdict(subject.options), "dropout": 0.3}
    trained = build(**changes)
    evaluated = logits_of(trained)
    trained.model.train()
    passes = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        passes.append(logits_of(trained))
    assert torch.equal(passes[0], passes[1])
    assert not torch.allclose(passes[0], passes[2])
    trained.model.eval()
    if subject.options.family != "convolution":  # whose running means have moved
        assert torch.equal(logits_of(trained), evaluated)


def test_half_precision_stays_close(subject: Subject) -> None:
    expected = logits_of(subject)
    # bfloat16 has 8 bits: 0.4 % of each number, of sums over some layers.
    loose = {"rtol": 0.1, "atol": 0.15}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(logits_of(subject).float(), expected, **loose)
    subject.model.to(torch.bfloat16)
    src, valid = subject.source(LENGTHS)
    src = src.to(torch.bfloat16) if src.is_floating_point() else src
    logits = write(subject, subject.model.encode(src, valid))
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(logits.float(), expected, **loose)


def test_masks_hold_in_float16(subject: Subject) -> None:
    src, valid = subject.source(LENGTHS)
    valid[1] = False
    expected = write(subject, subject.model.encode(src, valid))
    # It ends at 65,504: a mask of -1e9 is no number there.
    subject.model.to(torch.float16)
    src = src.to(torch.float16) if src.is_floating_point() else src
    logits = write(subject, subject.model.encode(src, valid))
    # 11 bits: 0.05 % of each number, of sums over some layers.
    torch.testing.assert_close(logits.float(), expected, rtol=0.02, atol=0.02)


def test_a_clip_without_frames_gives_no_nan_and_disturbs_no_other(subject: Subject) -> None:
    src, valid = subject.source(LENGTHS)
    expected = subject.model(src, valid, TOKENS)
    valid[1] = False
    subject.model.train()
    memory = subject.model.encode(src, valid)
    logits = subject.model(src, valid, TOKENS)
    assert logits.isfinite().all()
    assert subject.model.ctc_logits(memory).isfinite().all()
    (logits.clamp(min=-1e4).square().sum() + memory.states.square().sum()).backward()
    gradients = [p.grad for p in subject.model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    # A batch norm goes by the clips of the batch: tests/unit/models/test_convolution.py.
    options = subject.options
    if not options.layer_drop and options.family != "convolution":
        mask = torch.tensor([[True]] * 3) if options.has_decoder else memory.valid
        mask = mask.expand(logits.shape[:2])
        undisturbed = mask & torch.tensor([[True], [False], [True]])
        torch.testing.assert_close(logits[undisturbed], expected[undisturbed], **CLOSE)
        src[1] = 9  # what stands in padding does not matter here either
        torch.testing.assert_close(subject.model(src, valid, TOKENS)[mask], logits[mask], **CLOSE)


def test_lengths_past_every_table_go_on(writer: Subject) -> None:
    src, valid = writer.source([300])
    tokens = torch.arange(300)[None] % tiny.VOCAB
    logits = writer.model(src, valid, tokens)
    assert logits.isfinite().all()
    # Its tables have not grown for the tokens.
    fresh = build(**dataclasses.asdict(writer.options)).model(src, valid, tokens[:, :20])
    torch.testing.assert_close(fresh, logits[:, :20], **CLOSE)


def test_the_attention_of_each_head_is_a_distribution_over_what_may_be_seen(
    subject: Subject,
) -> None:
    src, valid = subject.source(LENGTHS)
    valid[1] = False
    options, model = subject.options, subject.model
    memory = model.encode(src, valid)
    before = write(subject, memory)
    maps = model.attention_maps(src, valid, TOKENS)
    assert torch.equal(write(subject, model.encode(src, valid)), before)
    real = memory.valid[:, None, None, None].expand(-1, 1, 1, 1, -1)
    is_filled = torch.tensor([1.0, 0.0, 1.0])
    attends = options.family not in RECURRENT
    assert (maps.encoder is not None) == (attends and options.family != "convolution")
    assert (maps.decoder is not None) == (attends and options.has_decoder)
    assert (maps.cross is not None) == (
        options.has_decoder and (attends or options.attention != "none")
    )
    if maps.encoder is not None:
        positions = real.shape[-1]
        layers = {"decoder_only": options.decoder_layers}
        expected = layers.get(options.family, options.encoder_layers), options.heads
        assert maps.encoder.shape == (3, *expected, positions, positions)
        assert not maps.encoder.masked_select(~real).any()
        if options.causal_encoder:
            assert not maps.encoder.triu(1).any()
        sums = maps.encoder.sum(dim=-1)
        torch.testing.assert_close(sums, is_filled[:, None, None, None].expand_as(sums))
    if maps.decoder is not None and maps.cross is not None:
        assert maps.decoder.shape == (3, options.decoder_layers, options.heads, 4, 4)
        assert not maps.decoder.triu(1).any()
        decoder, cross = maps.decoder.sum(dim=-1), maps.cross.sum(dim=-1)
        if options.family == "decoder_only":  # source and target in one softmax
            torch.testing.assert_close(decoder + cross, torch.ones_like(decoder))
        else:
            torch.testing.assert_close(decoder, torch.ones_like(decoder))
            torch.testing.assert_close(cross, is_filled[:, None, None, None].expand_as(cross))
    if maps.cross is not None:
        assert not maps.cross.masked_select(~real).any()
        mean = maps.cross.mean(dim=(1, 2))
        mean = mean / mean.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        torch.testing.assert_close(mean, model.align(memory, TOKENS))


def test_a_planned_model_has_the_shapes_of_a_built_one(subject: Subject) -> None:
    with planned():
        plan = build(**dataclasses.asdict(subject.options)).model.state_dict()
    assert all(tensor.is_meta for tensor in plan.values())
    built = subject.model.state_dict()
    assert {n: t.shape for n, t in plan.items()} == {n: t.shape for n, t in built.items()}


@pytest.mark.slow
def test_planning_a_model_does_not_load_the_compiler() -> None:
    """It takes more than a second of every `signloom translate`.

    Quick twin: test_a_planned_model_has_the_shapes_of_a_built_one.
    """
    code = (
        "import sys; from signloom.models.registry import build_model, planned\n"
        "from signloom.models.seq2seq import Memory, ModelOptions\n"
        f"with planned(): build_model({tiny.MODEL!r}, input_width=6, vocab_size=9, ctc_labels=3)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_model_without_ctc_refuses_its_logits(family: str) -> None:
    options = next(v for v in VARIANTS.values() if v.get("family", "transformer") == family)
    subject = build(**options, ctc_labels=0)
    with pytest.raises(ValueError, match=r"train\.ctc_weight"):
        subject.model.ctc_logits(subject.model.encode(*subject.source(LENGTHS)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 18, "heads": 4}, "d_model: 18 is not divisible by heads"),
        ({"d_model": 15, "heads": 3}, "multiple of 2"),
        ({"encoder_layers": 0}, "encoder_layers: found 0"),
        ({"dropout": 1.0}, "dropout: found 1.0"),
        ({"layer_drop": -0.1}, "layer_drop: found -0.1"),
        ({"conv_kernel": 4}, "conv_kernel: found 4, expected an odd number"),
        ({"conv_kernel": -1}, "conv_kernel: found -1, expected at least 1"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(tiny.MODEL, **change)
