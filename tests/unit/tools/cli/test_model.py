"""`signloom summary` and `signloom adopt`."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.tune import main as search
from signloom.config import load_params, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.models.registry import build_model, planned
from signloom.paths import TUNE
from signloom.preflight import SECTIONS, check_params, check_together
from signloom.training.train import read_run_options
from signloom.tune.space import TuneOptions, parse_space
from signloom_tools.cli.main import main
from signloom_tools.model_summary import count_by_half, find_sizes
from signloom_tools.presets import adopt, read_preset
from tests import tiny
from tests.expect_error import expect_error


@pytest.fixture
def params(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text((tiny.ROOT / "pipeline/smoke/params.yaml").read_text())
    return path


def test_summary_shows_sizes_and_speed(params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect_error("the vocabulary is unknown; run `dvc repro", ["summary", "--params", str(params)])
    main(["summary", "--params", str(params), "--vocab", "300"])
    text = capsys.readouterr().out
    assert re.search(r" 1x\d+x299 ", text)  # the features of the layout that params.yaml names
    assert " 1x20x300 " in text  # logits
    assert re.search(r"^  encoder \(TransformerEncoder\) .* [\d,]+$", text, re.MULTILINE)
    totals = r"encoder [\d,]+, decoder [\d,]+, head [\d,]+$"
    assert re.search(rf"^parameters: [\d,]+ \(\d\.\d MB\): {totals}", text, re.MULTILINE)
    assert "outputs of all layers: " in text
    assert "mult-adds: encode" in text
    for name in ("latency on", "encode", "step", "greedy_20", "beam_4_20"):
        assert f"{name} " in f"{text.splitlines()[-1]} "


def test_summary_of_a_model_of_text_counts_tokens(
    params: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["adopt", "--params", str(params), "--preset", "reversal"])
    capsys.readouterr()
    main(["summary", "--params", str(params), "--vocab", "300"])
    text = capsys.readouterr().out
    assert re.search(r"^input: \d+ of 300 source tokens, 20 of 300 tokens,", text, re.MULTILINE)
    assert " features" not in text


def test_adopt_writes_the_winner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params, best = tmp_path / "params.yaml", tmp_path / "best.json"
    params.write_text("model:\n  norm: pre  # why\n")
    best.write_text(json.dumps({"overrides": {"model": {"norm": "post"}}}))
    arguments = ["adopt", "--params", str(params), "--best", str(best)]
    main(arguments)
    assert params.read_text() == "model:\n  norm: post # why\n"
    text = capsys.readouterr().out
    assert "-  norm: pre  # why" in text
    assert "+  norm: post # why" in text
    main(arguments)
    assert "has these values already" in capsys.readouterr().out


PRESETS = sorted((tiny.ROOT / "presets").glob("*.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"dev": {"bleu4": 1.0}}', "no overrides"),
        ("[]", "no overrides"),
        ('{"overrides": {"model": 3}}', "overrides.model: found 3, expected a map"),
    ],
)
def test_adopt_of_another_json_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    best = tmp_path / "best.json"
    best.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(["adopt", "--best", str(best)])
    assert message in str(end.value)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_a_preset_changes_the_parameters_and_builds_a_model(
    preset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tiny.ROOT)
    params = tmp_path / "params.yaml"
    params.write_bytes(Path("params.yaml").read_bytes())
    main(["adopt", "--params", str(params), "--preset", preset.stem])
    shown = capsys.readouterr().out
    assert "has these values already" in shown or "\n+  " in shown
    run_options = read_run_options(params)
    for section, values in load_params(preset).items():
        options: Any = load_section(params, section, SECTIONS[section])
        read = json.loads(json.dumps(dataclasses.asdict(options)))
        assert read.get("space", {}).items() >= values.pop("space", {}).items()
        assert read.items() >= values.items()
    # The whole configuration: the pipeline's own checks pass, and a search holds this model.
    check_params(params)
    check_together(params, load_section(params, "corpus", CorpusOptions))
    tune = load_section(params, "tune", TuneOptions)
    widths = parse_space(tune.space)["model.d_model"]
    assert not tune.trials or widths.holds(run_options.model.d_model)
    reads = dataclasses.replace(
        run_options.model, source="landmarks"
    )  # as the sums of docs/models.md
    with planned():
        model = build_model(reads, input_width=126, vocab_size=130_000, ctc_labels=0)
    size = sum(parameter.numel() for parameter in model.parameters())
    expected = {
        "sign-transformer": 18_971_136 + 158_455_760,
        "pre-norm": 18_980_352 + 158_475_216,
        "lip-conformer": 37_959_168 + 158_475_216,
    }
    assert size == expected.get(preset.stem, size)


@pytest.mark.slow
def test_a_preset_is_the_same_whole_configuration_after_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_a_preset_changes_the_parameters_and_builds_a_model."""
    monkeypatch.chdir(tiny.ROOT)
    params, template = tmp_path / "params.yaml", Path("params.yaml").read_text()

    def adopt_after(text: str, name: str) -> tuple[str, list[Any]]:
        params.write_text(text)
        after, run = adopt(params, read_preset(name))[1], read_run_options(params)
        if run.model.source == "glosses":  # reads no landmarks
            return after, [run.model, run.train]
        loaded = load_params(params)
        tune = loaded["tune"]["trials"] and loaded["tune"]["space"]
        return after, [run, loaded["extract"], loaded["tokenize_targets"], tune]

    alone = {path.stem: adopt_after(template, path.stem)[1] for path in PRESETS}
    former = template
    for name in (*alone, *reversed(alone)):  # what any before it has left must not matter
        former, adopted = adopt_after(former, name)
        assert (name, adopted) == (name, alone[name])


@pytest.mark.parametrize(("width", "encoder"), [(None, 18_971_136), (2048, 19_955_200)])
def test_the_summary_after_document_000_has_the_figures_of_the_document(
    width: int | None, encoder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.ROOT)
    params = tmp_path / "params.yaml"
    params.write_bytes(Path("params.yaml").read_bytes())
    main(["adopt", "--params", str(params), "--preset", "sign-transformer"])
    options = read_run_options(params)
    sizes = find_sizes(params, options.model, 130_000, width)
    assert (sizes.input_width, sizes.frames, sizes.ctc_labels) == (width or 126, 250, 0)
    with planned():
        model = build_model(
            options.model, input_width=sizes.input_width, vocab_size=130_000, ctc_labels=0
        )
    totals = count_by_half(model)
    assert totals["encoder"] == encoder
    assert totals["decoder"] + totals["head"] == 158_455_760
    assert options.train.max_frames // sizes.frames == 16
    assert set(dataclasses.asdict(options.augment).values()) == {0.0, 0.2}  # 0.2: of no mask


def test_presets_are_listed_and_an_unknown_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tiny.ROOT)
    main(["adopt", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [path.stem for path in PRESETS]
    expect_error("presets here: base, keras-lstm", ["adopt", "--preset", "huge"])


def test_no_search_gives_no_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (tiny.ROOT / "params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("trials: 6 ", "trials: 0 "))
    stale = TUNE / "best.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    search()  # reads no landmarks: there are none here
    assert [path.name for path in TUNE.iterdir()] == ["trials.json"]
    expect_error(r"no search \(tune.trials was 0\)", ["adopt"])
