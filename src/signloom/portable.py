"""The code path of the numeric libraries: variables by which all x86 processors compute alike.

Each library picks its fastest instructions when it loads, and other instructions round and add up
otherwise. The path that these variables choose needs AVX2.
"""

import os
from contextlib import suppress
from pathlib import Path

# OpenBLAS, of which NumPy and SciPy carry a copy each, chooses its kernels by the processor's
# model number, and the slowest for a number newer than the copy (OpenMathLib/OpenBLAS#4267). NumPy
# has other last digits and another order of ties with AVX-512; it passes over names that the
# release or the processor does not have.
_AVX512 = (
    "AVX512F",
    "AVX512CD",
    "AVX512_KNL",
    "AVX512_KNM",
    "AVX512_SKX",
    "AVX512_CLX",
    "AVX512_CNL",
    "AVX512_ICL",
    "AVX512_SPR",
    "X86_V4",
)
NUMPY = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(_AVX512)}
# MKL promises equal results on all processors for COMPATIBLE alone.
PYTORCH = {
    "OMP_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",
}
CODE_PATH = NUMPY | PYTORCH


def set_numpy_path() -> None:
    """Set NumPy's part of the code path, which costs no time that shows; before NumPy loads.

    Where Linux does not say that the processor has AVX2, nothing is set: OpenBLAS believes what it
    is told, and the process would end with an illegal instruction.
    """
    with suppress(OSError):
        if "avx2" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
            os.environ.update(NUMPY)
            os.environ.pop("NPY_ENABLE_CPU_FEATURES", None)  # NumPy refuses both


def is_portable() -> bool:
    """Return whether this process was started with the code path."""
    return all(os.environ.get(name) == value for name, value in CODE_PATH.items())


def set_variables() -> dict[str, str]:
    """Return what the variables of the code path say in this process."""
    return {name: os.environ[name] for name in CODE_PATH if name in os.environ}
