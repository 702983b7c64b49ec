"""What several system tests start from; each has a `project` of its own."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(project: Path) -> Iterator[Callable[[str, int], None]]:
    """Mounts a disk of some kB at a place of the project."""
    mounted = []

    def mount(place: str, kilobytes: int) -> None:
        folder = project / place
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("may not mount a small disk here; needs root")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        # Lazily: who delivers the stage's run may be at work there for a moment still.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
