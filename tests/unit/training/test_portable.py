"""One code path gives the same bytes whatever instructions the libraries would choose."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from signloom.devices import restart_portable
from signloom.portable import CODE_PATH, NUMPY, set_numpy_path
from tests import tiny

TRAIN = """
import hashlib, sys
from signloom.portable import is_portable
from signloom.devices import restart_portable
if sys.argv[1] == "portable":
    restart_portable()
    assert is_portable()

import torch
torch.set_num_threads(1)
from dataclasses import replace
from signloom.training.train import train
from signloom.translation.translator import Translator
from tests import tiny

model = replace(tiny.MODEL, d_model=48, d_ff=96, dropout=0.1, subsampling=2)
data = tiny.training_data()
checkpoint, fit = train(
    data, replace(tiny.run_options(epochs=3), model=model), provenance={}, log=lambda _: None
)
weights = b"".join(w.numpy().tobytes() for w in fit.weights.values())
clips = data.dev.read(range(len(data.dev)))
found = Translator(checkpoint, torch.device("cpu")).translate(clips, tiny.decoding(beam_size=3))
scores = [one.hypothesis.log_prob.hex() for one in found]
print(hashlib.sha256(weights).hexdigest(), scores)
"""
# What an old and a new processor choose by themselves. oneDNN and MKL pass over what is not there;
# PyTorch believes what it is told, and the process would end with an illegal instruction.
OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
}
NEW = {
    "ATEN_CPU_CAPABILITY": torch.backends.cpu.get_cpu_capability().lower(),
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
    "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    "MKL_CBWR": "AUTO",
}
HAS_AVX2 = torch.backends.cpu.get_cpu_capability() in {"AVX2", "AVX512"}


def result(kind: str, level: dict[str, str]) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in CODE_PATH}
    process = subprocess.run(
        [sys.executable, "-c", TRAIN, kind],
        cwd=tiny.ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**inherited, **level},
    )
    return process.stdout


@pytest.mark.slow
@pytest.mark.skipif(not HAS_AVX2, reason="this processor has no AVX2")
def test_old_and_new_instructions_train_and_translate_the_same() -> None:
    """Quick twin: test_a_process_starts_again_with_the_code_path."""
    assert result("plain", OLD) != result("plain", NEW)
    assert result("portable", OLD) == result("portable", NEW)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_AVX2, reason="this processor has no AVX2")
def test_a_process_starts_again_with_the_code_path() -> None:
    """Quick twin: test_what_numpy_would_refuse_together_is_not_set_together."""
    code = (
        "import os, sys; from signloom.devices import restart_portable; restart_portable(); "
        "print(os.getpid(), [os.environ[n] for n in sys.argv[1:]])"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code, *CODE_PATH],
        cwd=tiny.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **NEW},
    )
    assert started.communicate()[0] == f"{started.pid} {[*CODE_PATH.values()]}\n"


@pytest.mark.skipif(not HAS_AVX2, reason="this processor has no AVX2")
def test_what_numpy_would_refuse_together_is_not_set_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NPY_ENABLE_CPU_FEATURES", "AVX2")
    for name in NUMPY:
        monkeypatch.setenv(name, "")
    set_numpy_path()
    assert {name: os.environ[name] for name in NUMPY} == NUMPY
    assert "NPY_ENABLE_CPU_FEATURES" not in os.environ


def test_what_has_no_common_code_path_is_refused_or_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for change in ({"precision": "bfloat16"}, {"device": "cuda"}):
        with pytest.raises(ValueError, match="portable: found with precision"):
            tiny.run_options(portable=True, **change)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    restart_portable()
    assert "aarch64 is no x86 processor" in caplog.text
