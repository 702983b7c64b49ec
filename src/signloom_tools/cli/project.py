"""The command that makes another project folder beside this one, for another corpus."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from signloom.errors import UserError
from signloom.paths import OPS, PARAMS
from signloom_tools.cli.installed import (
    FILES,
    begin_project,
    make_installed_project,
    upgrade_project,
    version,
)
from signloom_tools.dvc import SHARED_WITH
from signloom_tools.options import argument, option
from signloom_tools.outputs import made_whole

# The code: one for all.
LINKED = ("src", "pipeline", "presets", "dvc.yaml", "schemas")
COPIED = (PARAMS.name, OPS.name, ".gitignore", ".dvcignore")
NEXT = """\
{folder} has its own params.yaml, data, scores and runs; the code is this project's. Next:
  cd {folder}
  signloom init data/raw/NAME --videos DIR --table FILE --use
  dvc repro"""

NEXT_ALONE = """\
{folder} is a project of its own. Next:
  cd {folder}
  dvc repro && signloom scores                    # the drawn corpus; or your own:
  signloom init data/raw/NAME --videos DIR --table FILE --use && dvc repro"""


@dataclass(frozen=True, kw_only=True)
class ProjectOptions:
    """Make a folder for another corpus, in which every command runs as here.

    It has its own params.yaml and ops.yaml, data, checkpoint, scores, report and runs, and the code
    of this project.
    """

    folder: Path | None = argument("for example corpora/weather", "FOLDER", nargs="?")
    upgrade: bool = option(
        "bring the files of this project to the version of the installed package", False
    )


def run_project(options: ProjectOptions) -> None:
    """Make the folder and print the next steps, or upgrade this one."""
    if options.upgrade and options.folder is None:
        print("\n".join([*upgrade_project(Path()), f"this project is of Signloom {version()}"]))
    elif options.upgrade or options.folder is None:
        raise UserError("give FOLDER, or --upgrade in the folder of a project")
    elif is_clone(Path.cwd()):
        make_project(Path.cwd(), options.folder)
        print(NEXT.format(folder=options.folder))
    else:
        make_installed_project(options.folder)
        print(NEXT_ALONE.format(folder=options.folder))


def is_clone(root: Path) -> bool:
    """Return whether new projects are to share the code of this folder."""
    return (root / "src/signloom").exists() or not FILES.is_dir()


def make_project(root: Path, folder: Path) -> None:
    """Make a project folder that shares the code of another and nothing else.

    Args:
        root: the project whose code, and the parameters of its last commit, it gets
        folder: where; missing or empty

    Raises:
        UserError: If `root` is no project, or the folder holds something, or lies in the code.
    """
    missing = [name for name in (*LINKED, *COPIED) if not (root / name).exists()]
    if missing:
        raise UserError(
            f"{root} lacks {', '.join(missing)}: run this in the folder of a Signloom project"
        )
    target = folder.resolve()
    inside = target.relative_to(root).parts[:1] if target.is_relative_to(root) else ()
    if inside and inside[0] in (*LINKED, "data", "reports", ".git", ".dvc"):
        raise UserError(
            f"{folder} would lie in {inside[0]}, which the stages watch: name another folder, for "
            "example corpora/weather"
        )
    with made_whole(target):
        for name in LINKED:
            (target / name).symlink_to(os.path.relpath(root / name, target))
        files = {name: _committed(root / name) for name in COPIED}
        begin_project(target, files, cache=root / ".dvc/cache")
        (root / SHARED_WITH).parent.mkdir(parents=True, exist_ok=True)
        with (root / SHARED_WITH).open("a", encoding="utf-8") as file:
            file.write(f"{target}\n")


def _committed(path: Path) -> str:
    """Return a file of the last commit, without what was changed for one corpus."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        return subprocess.run(
            command, cwd=path.parent, capture_output=True, encoding="utf-8", check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return path.read_text("utf-8")
