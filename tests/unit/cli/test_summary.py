import json
import re
from pathlib import Path

import pytest
import torch

from signloom.cli.main import main
from signloom.cli.summary import count_mult_adds, list_parts
from tests import tiny
from tests.contract.variants import build


@pytest.fixture
def params(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text((tiny.ROOT / "pipeline/smoke/params.yaml").read_text())
    return path


def test_the_table_names_parts_sizes_and_speed(
    params: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["summary", "--params", str(params), "--vocab", "300", "--frames", "30", "--batch", "2"])
    text = capsys.readouterr().out
    assert "[2, 30, 299]" in text  # the features of the layout that params.yaml names
    assert "[2, 20, 300]" in text  # logits
    assert re.search(r"^  encoder \(TransformerEncoder\) .* [\d,]+$", text, re.MULTILINE)
    assert re.search(r"^parameters: [\d,]+ \(\d\.\d MB\)$", text, re.MULTILINE)
    assert "outputs of all layers: " in text
    assert "mult-adds: encode" in text
    for name in ("encode", "step", "greedy_20"):
        assert f"{name} " in text.splitlines()[-1]


@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_json_counts_every_parameter(
    family: str, params: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params.write_text(params.read_text().replace("family: transformer", f"family: {family}"))
    main(["summary", "--params", str(params), "--vocab", "300", "--json", "--tokens", "3"])
    found = json.loads(capsys.readouterr().out)
    whole = found["modules"][0]
    assert whole["output"] == [1, 3, 300]
    assert found["parameters"] == whole["parameters"]
    assert found["bytes"]["parameters"] == 4 * found["parameters"]
    assert found["sizes"]["vocab_size"] == 300
    assert set(found["latency_s"]) == {"encode", "step", "greedy_3"}
    assert all(seconds > 0 for seconds in found["latency_s"].values())


@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_no_part_counts_twice(family: str) -> None:
    subject = build(family=family, tied_embeddings=True)
    tgt = torch.zeros(2, 5, dtype=torch.int64)
    whole, *parts = list_parts(subject.model, [*subject.source([9, 9]), tgt])
    assert len({part.name for part in parts}) == len(parts)
    assert sum(part.parameters for part in parts if part.depth == 1) == whole.parameters
    by_name = {part.name: part for part in parts}
    assert by_name["encoder"].output == [2, 9, 16]
    assert by_name["decoder.output"].parameters == tiny.VOCAB  # its matrix is the embedding's


def test_mult_adds_by_hand() -> None:
    model = tiny.model(ctc_labels=0)
    src, valid = tiny.source(0, [9, 9])
    tgt = torch.zeros(2, 5, dtype=torch.int64)
    b, s, t, f, d, ff, v = 2, 9, 5, tiny.INPUT_WIDTH, 16, 24, tiny.VOCAB
    layer = 4 * d * d + 2 * d * ff  # query, key, value, output; feed-forward
    encode = s * f * d + 2 * (s * layer + 2 * s * s * d)
    cross = 2 * t * d * d + 2 * s * d * d + 2 * t * s * d
    decode = 2 * (t * layer + 2 * t * t * d + cross) + t * d * v
    assert count_mult_adds(model, [src, valid, tgt]) == {"encode": b * encode, "decode": b * decode}


@pytest.mark.parametrize("bidirectional", [True, False])
def test_mult_adds_of_recurrence_by_hand(bidirectional: bool) -> None:
    subject = build(family="lstm", bidirectional=bidirectional, ctc_labels=0)
    b, s, t, f, d, v = 2, 9, 5, tiny.INPUT_WIDTH, 16, tiny.VOCAB
    width = d // 2 if bidirectional else d
    encode = s * f * d + 2 * s * (d // width) * 4 * width * (d + width)  # 4 gates of x and h
    # The keys, scores, means, what combines them with the states, and the output.
    attend = s * d * d + 2 * t * s * d + t * 2 * d * d + t * d * v
    inputs = [*subject.source([9, 9]), torch.zeros(2, 5, dtype=torch.int64)]
    found = count_mult_adds(subject.model, inputs)
    assert found == {"encode": b * encode, "decode": b * (2 * t * 4 * d * 2 * d + attend)}


def test_without_tokens_the_vocabulary_must_be_given(params: Path) -> None:
    with pytest.raises(SystemExit, match="the vocabulary is unknown; run `dvc repro"):
        main(["summary", "--params", str(params)])


@pytest.mark.parametrize("frames", ["0", "-1", "1.5", "many"])
def test_what_counts_no_frames_is_refused(
    frames: str, params: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["summary", "--params", str(params), "--frames", frames])
    expected = f"--frames: found {frames}, expected a whole number of at least 1"
    assert expected in capsys.readouterr().err
