"""The stages compute the same bytes on every x86 processor with AVX2: here, and emulated."""

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import ExitStack
from pathlib import Path

import pytest

from signloom.portable import CODE_PATH, NUMPY
from tests import tiny
from tests.processors import PARTS

# Of another maker; and with a model number that the OpenBLAS of NumPy 1.26 does not know.
PROCESSORS = ("Haswell", "EPYC-Rome", "Haswell,model=207")
EMULATED = [part for part in PARTS if part != "extract"]  # minutes: LiteRT's kernels
EMULATOR = shutil.which("qemu-x86_64")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EMULATOR is None, reason="needs qemu-x86_64: apt-get install qemu-user"),
    pytest.mark.skipif(
        "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split(),
        reason="this processor has no AVX2",
    ),
]


def start(processor: str, *parts: str, code: str = "") -> subprocess.Popen[str]:
    """Print the hashes of some parts as a processor computes them; empty: as this one does."""
    emulator = [str(EMULATOR), "-cpu", processor] if processor else []
    program = ["-c", code] if code else ["-m", "tests.processors"]
    inherited = {name: value for name, value in os.environ.items() if name not in CODE_PATH}
    path = os.pathsep.join((str(tiny.ROOT / "src"), sysconfig.get_path("purelib")))
    # The emulator starts no link, so the environment's packages have to be named.
    python = str(Path(sys.executable).resolve())
    variables = {name: value for name, value in CODE_PATH.items() if name not in NUMPY}
    return subprocess.Popen(
        [*emulator, python, *program, *parts],
        cwd=tiny.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**inherited, **variables, "PYTHONPATH": path},
    )


def read_hashes(process: subprocess.Popen[str]) -> dict[str, str]:
    output, messages = process.communicate()
    assert process.returncode == 0, messages
    rows = [line.split() for line in output.splitlines() if line.split()[0] in PARTS]
    return {part: digest for part, digest, *_ in rows}


def test_three_processors_compute_what_this_one_does() -> None:
    """Quick twin: test_a_process_starts_again_with_the_code_path."""
    with ExitStack() as stack:
        started = [stack.enter_context(start(name, *EMULATED)) for name in ("", *PROCESSORS)]
        here, *emulated = map(read_hashes, started)
    assert [*here] == EMULATED
    for processor, hashes in zip(PROCESSORS, emulated, strict=True):
        assert hashes == here, processor


def test_without_the_code_path_an_unknown_processor_computes_something_else() -> None:
    code = "import numpy\nfrom tests.processors import main\nmain()"  # NumPy loads before it is set
    with start("Haswell,model=207", "features", code=code) as unset, start("", "features") as here:
        assert read_hashes(unset) != read_hashes(here)
