"""The patch number of Python changes no byte that DVC hashes."""

import itertools
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import tiny
from tests.extraction import contents

OUTPUTS = ("data/checkpoint", "reports/tune")


def other_python() -> str:
    """Return a Python of this minor version and of another patch number; skip without one."""
    name = "python" + ".".join(platform.python_version_tuple()[:2])
    for folder in (*os.get_exec_path(), "/usr/bin"):
        path = shutil.which(name, path=folder)
        if path is None:
            continue
        command = [path, "-c", "import platform; print(platform.python_version())"]
        version = subprocess.run(
            command, check=False, capture_output=True, text=True
        ).stdout.strip()
        if version.startswith(name.removeprefix("python")) and version != platform.python_version():
            return path
    pytest.skip(f"needs a second {name}, of another patch number than {platform.python_version()}")


@pytest.mark.slow
def test_two_pythons_of_one_minor_version_write_the_same_bytes(tmp_path: Path) -> None:
    """Quick twin: test_versions_that_change_no_number_are_left_out."""
    pythons = (sys.executable, other_python())
    packages = (str(tiny.ROOT), str(tiny.ROOT / "src"), sysconfig.get_path("purelib"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages)}
    for number, stage in itertools.product(range(2), ("tune", "train")):
        project = tmp_path / str(number)
        if not project.exists():
            tiny.write_project(project)
        subprocess.run(
            [pythons[number], "-m", f"pipeline.{stage}"], cwd=project, check=True, env=environment
        )
    for output in OUTPUTS:
        first, second = (contents(tmp_path / str(number) / output) for number in range(2))
        assert first
        assert first == second
