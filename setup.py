"""Puts the files of a project (stages, parameters, presets) into the wheel, from where they lie."""

import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithProject(build_py):
    """Copies what `signloom project` makes a project of."""

    def run(self) -> None:
        """Build, then copy; an editable install reads the files of the clone."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).parent
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        for pattern in settings["tool"]["signloom"]["project-files"]:
            for path in root.glob(pattern):
                target = Path(self.build_lib) / "signloom_tools/project" / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


setup(cmdclass={"build_py": BuildWithProject})
