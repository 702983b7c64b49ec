import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from signloom.models.recurrent import AttentionScore, RecurrentSeq2Seq
from signloom.models.registry import build_model
from tests import tiny
from tests.contract.variants import build
from tests.unit.models.formulas import array, layer_norm, linear

STATES = torch.tensor([[[1.0, 2.0]]])  # (B, T, D)
MEMORY = torch.tensor([[[3.0, 1.0], [0.0, -1.0]]])  # (B, M, D)


def lstm_model(**changes: object) -> RecurrentSeq2Seq:
    model = build(family="lstm", **changes).model
    assert isinstance(model, RecurrentSeq2Seq)
    return model


def set_weight(layer: nn.Module, rows: list[list[float]]) -> None:
    layer.weight = nn.Parameter(torch.tensor(rows))


def test_dot_scores_by_hand() -> None:
    score = AttentionScore(2, "dot")
    # 1 * 3 + 2 * 1 = 5; 1 * 0 + 2 * -1 = -2.
    assert score(STATES, score.key(MEMORY)).tolist() == [[[5.0, -2.0]]]
    assert list(score.parameters()) == []


def test_general_scores_by_hand() -> None:
    score = AttentionScore(2, "general")
    set_weight(score.key, [[2.0, 0.0], [1.0, -1.0]])
    # W h is (6, 2) and (0, 1); s W h is 6 + 4 = 10 and 0 + 2 = 2.
    assert score(STATES, score.key(MEMORY)).tolist() == [[[10.0, 2.0]]]


def test_additive_scores_by_hand() -> None:
    score = AttentionScore(2, "additive")
    assert score.vector is not None
    set_weight(score.query, [[1.0, 0.0], [0.0, 1.0]])
    set_weight(score.key, [[0.0, 1.0], [1.0, 0.0]])
    set_weight(score.vector, [[1.0, 10.0]])
    # W1 s + W2 h is (1, 2) + (1, 3) = (2, 5), and (1, 2) + (-1, 0) = (0, 2).
    expected = [np.tanh(2) + 10 * np.tanh(5), np.tanh(0) + 10 * np.tanh(2)]
    np.testing.assert_allclose(array(score(STATES, score.key(MEMORY)))[0, 0], expected, rtol=1e-6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def run_lstm(lstm: nn.LSTM, x: np.ndarray, suffix: str, h: np.ndarray, c: np.ndarray) -> tuple:
    """Return the outputs of one direction of the first layer and its last h and c, (S, D)."""
    weights = {
        name: array(getattr(lstm, f"{name}_l0{suffix}"))
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    outputs = []
    for frame in x:
        gates = weights["weight_ih"] @ frame + weights["weight_hh"] @ h
        i, f, g, o = np.split(gates + weights["bias_ih"] + weights["bias_hh"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), h, c


@pytest.mark.parametrize("attention", ["none", "dot", "general", "additive"])
def test_the_whole_model_equals_its_equations(attention: str) -> None:
    model = lstm_model(encoder_layers=1, decoder_layers=1, attention=attention)
    src, valid = tiny.source(1, [6, 9])
    tokens = torch.tensor([[1, 5, 6], [1, 8, 9]])
    encoder, decoder, zero = model.encoder, model.decoder, np.zeros(8)
    for row, length in enumerate((6, 9)):
        x = linear(array(src[row, :length]), encoder.source.projection)
        forward, h, c = run_lstm(encoder.recurrence, x, "", zero, zero)
        backward, h_back, c_back = run_lstm(encoder.recurrence, x[::-1], "_reverse", zero, zero)
        memory = layer_norm(np.concatenate((forward, backward[::-1]), axis=1), encoder.norm)
        embedded = array(decoder.embedding.weight)[tokens[row].numpy()] * 4  # sqrt(16)
        start = (np.concatenate((h, h_back)), np.concatenate((c, c_back)))
        states, _, _ = run_lstm(decoder.recurrence, embedded, "", *start)
        if decoder.score is not None and decoder.combine is not None:
            keys = decoder.score.key(torch.tensor(memory[None], dtype=torch.float32))
            scores = array(decoder.score(torch.tensor(states[None], dtype=torch.float32), keys))[0]
            weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            np.testing.assert_allclose(
                array(model.align(model.encode(src, valid), tokens)[row, :, :length]),
                weights,
                atol=1e-5,
            )
            states = np.tanh(linear(np.hstack((weights @ memory, states)), decoder.combine))
        expected = linear(states, decoder.output)
        # Float32 against float64.
        np.testing.assert_allclose(
            array(model(src, valid, tokens)[row]), expected, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("attention", ["none", "general"])
def test_without_attention_the_last_state_is_all_the_decoder_gets(attention: str) -> None:
    model = lstm_model(attention=attention)
    memory = model.encode(*tiny.source(1, [6, 9]))
    tokens = torch.tensor([[1, 5, 6], [1, 8, 9]])
    before = model.decode(memory, tokens)
    memory.states.neg_()
    assert torch.equal(model.decode(memory, tokens), before) == (attention == "none")


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "pairs"),
    [(3, 2, [1, 2]), (1, 3, [0, 0, 0]), (2, 2, [0, 1])],
)
def test_layers_are_paired_from_the_top(
    encoder_layers: int, decoder_layers: int, pairs: list[int]
) -> None:
    model = lstm_model(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    memory = model.encoder(*tiny.source(1, [6, 9]))
    assert memory.ends[0].shape == (2, encoder_layers, 16)
    for now, end in zip(model.start(memory).now, memory.ends, strict=True):
        assert torch.equal(now, end[:, pairs])


def test_forget_gates_begin_open_and_recurrent_matrices_orthogonal() -> None:
    for lstm in (lstm_model().encoder.recurrence, lstm_model().decoder.recurrence):
        width = lstm.hidden_size
        bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
        assert bias[width : 2 * width].eq(1).all()
        assert bias[:width].eq(0).all()
        assert bias[2 * width :].eq(0).all()
        recurrent = lstm.weight_hh_l0
        torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(width), rtol=0, atol=1e-5)


class KerasModel(nn.Module):
    """Document 001's models with the layers of PyTorch: embeddings, LSTMs, and dot attention."""

    def __init__(self, source: int, target: int, embedding: int, hidden: int, *, looks: bool):
        super().__init__()
        self.enc_emb = nn.Embedding(source, embedding)
        self.enc_lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dec_emb = nn.Embedding(target, embedding)
        self.dec_lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.combine = (
            nn.Linear(2 * hidden, hidden) if looks else None
        )  # Keras: Dense(hidden, tanh)
        self.output = nn.Linear(hidden, target)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        encoded, state = self.enc_lstm(self.enc_emb(source))
        decoded, _ = self.dec_lstm(self.dec_emb(target), state)
        if self.combine is not None:
            weights = (decoded @ encoded.transpose(1, 2)).softmax(dim=-1)
            decoded = torch.tanh(self.combine(torch.cat((weights @ encoded, decoded), dim=-1)))
        return self.output(decoded)


@pytest.mark.parametrize("attention", ["none", "dot"])
def test_the_models_of_document_001_are_reproduced(attention: str) -> None:
    options = dataclasses.replace(
        tiny.MODEL,
        family="lstm",
        source="glosses",
        d_model=12,
        heads=1,
        embedding_width=6,
        encoder_layers=1,
        decoder_layers=1,
        attention=attention,
        bidirectional=False,
        embedding_scale=False,
        tied_embeddings=False,
        encoder_norm=False,
        subsampling=1,
        dropout=0,
    )
    model = build_model(options, input_width=30, vocab_size=20, ctc_labels=0)
    torch.manual_seed(2)
    twin = KerasModel(30, 20, 6, 12, looks=attention == "dot")
    names = {
        "encoder.source.projection": twin.enc_emb,
        "encoder.recurrence": twin.enc_lstm,
        "decoder.embedding": twin.dec_emb,
        "decoder.recurrence": twin.dec_lstm,
        "decoder.combine": twin.combine,
        "decoder.output": twin.output,
    }
    for name, layer in names.items():
        if layer is not None:
            model.get_submodule(name).load_state_dict(layer.state_dict())
    counts = [sum(p.numel() for p in m.parameters()) for m in (model, twin)]
    assert counts[0] == counts[1]
    source, target = torch.tensor([[3, 7, 29, 1]]), torch.tensor([[1, 5, 19]])
    output = model(source, torch.ones(1, 4, dtype=torch.bool), target)
    torch.testing.assert_close(output, twin(source, target))


def test_a_gru_and_an_rnn_equal_their_equations() -> None:
    src, valid = tiny.source(1, [6])
    for family in ("gru", "rnn"):
        model = build(family=family, encoder_layers=1, bidirectional=False).model
        assert isinstance(model, RecurrentSeq2Seq)
        recurrence = model.encoder.recurrence
        w_ih, w_hh, b_ih, b_hh = (
            array(getattr(recurrence, f"{name}_l0"))
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = np.zeros(16)
        for frame in linear(array(src[0]), model.encoder.source.projection):
            from_frame, from_state = w_ih @ frame + b_ih, w_hh @ h + b_hh
            if family == "rnn":
                h = np.tanh(from_frame + from_state)
                continue
            (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(from_frame, 3), np.split(from_state, 3)
            r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
            h = (1 - z) * np.tanh(n_x + r * n_h) + z * h
        ends = model.encoder(src, valid).ends
        assert len(ends) == 1
        np.testing.assert_allclose(array(ends[0][0, 0]), h, rtol=1e-5, atol=1e-6)
