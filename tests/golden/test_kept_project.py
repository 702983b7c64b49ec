"""A project that version 0.2.0 left opens in this one.

`project_0_2_0.tar.gz` was made by 0.2.0 (e998a59a): a corpus of five clips and one delivery taken
in, another delivery waiting, two versions of a model of which the first is the champion, a
checkpoint with drawn weights, and the params.yaml and ops.yaml of its demo. `expected.json` has
what 0.2.0 found there.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom.paths import CHECKPOINT, PARAMS
from signloom.preflight import check_params
from signloom.translation.translator import Translator
from signloom_ops.nightly.store import ModelStore
from signloom_ops.options import load_ops
from signloom_tools.cli.main import main
from signloom_tools.versions import check_kept
from tests import tiny

ARCHIVE = Path(__file__).with_name("project_0_2_0.tar.gz")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    expected: dict[str, Any] = json.loads(Path("expected.json").read_text(encoding="utf-8"))
    return expected


def test_the_checkpoint_translates_as_before(kept: dict[str, Any]) -> None:
    clips, options = [tiny.sequence(0, frames=12)], tiny.decoding(max_tokens=8)
    (translation,) = Translator.load(CHECKPOINT).translate(clips, options)
    assert translation.text == kept["text"]
    assert translation.hypothesis.log_prob == pytest.approx(kept["log_prob"], rel=1e-4)


def test_versions_and_champion_are_those_that_were_kept(
    kept: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    store = ModelStore()
    assert (store.champion(), store.versions()) == (kept["champion"], kept["versions"])
    main(["champion", "list"])
    assert "1\tchampion" in capsys.readouterr().out


def test_a_flipped_bit_in_a_kept_version_is_found(kept: dict[str, Any]) -> None:
    checkpoint = ModelStore().checkpoint(kept["champion"])
    check_kept(checkpoint)
    content = bytearray((checkpoint / "model.safetensors").read_bytes())
    content[-9] ^= 16
    (checkpoint / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="found SHA-256"):
        check_kept(checkpoint)


def test_the_corpus_opens_and_the_waiting_delivery_comes_in(
    kept: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    assert [clip.clip_id for clip in read_manifest(corpus.path)] == kept["clips"]
    main(["ingest", "data/inbox"])
    assert [clip.clip_id for clip in read_manifest(corpus.path)] == [*kept["clips"], "emil-1"]
    # What 0.2.0 took in can be taken out.
    main(["withdraw", "2026-11-20", "--reason", "a test"])
    assert "dora-1" not in {clip.clip_id for clip in read_manifest(corpus.path)}


def test_the_parameters_of_the_demo_open(kept: dict[str, Any]) -> None:
    for name in ("params", "ops"):
        Path(f"demo_{name}.yaml").replace(f"{name}.yaml")
    check_params(PARAMS)
    assert load_ops(PARAMS).gate.metric == "auto"
