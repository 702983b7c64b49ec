"""Puts the files of a project (stages, parameters, presets) into the wheel, from where they lie."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = (
    "params.yaml", "ops.yaml", "dvc.yaml", "schemas/*.json", ".gitignore", ".dvcignore",
    "presets/*.yaml", "pipeline/*.py", "data/.gitignore", "data/demo/.gitignore",
    "data/demo/dvc.yaml", "data/demo/params.yaml", ".dvc/plots/*",
)  # fmt: skip


class BuildWithProject(build_py):
    """Copies what `signloom project` makes a project of."""

    def run(self) -> None:
        """Build, then copy; an editable install reads the files of the clone."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).parent
        for pattern in FILES:
            for path in root.glob(pattern):
                target = Path(self.build_lib) / "signloom_tools/project" / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


setup(cmdclass={"build_py": BuildWithProject})
