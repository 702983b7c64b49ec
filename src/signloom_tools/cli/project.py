"""The command that makes another project folder beside this one, for another corpus."""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from signloom.dvc import SHARED_WITH, write_start
from signloom.errors import UserError
from signloom.files import check_writable, made_whole, write_file
from signloom.paths import BASELINE, JUDGEMENTS, LAST_NIGHT, OPS, PARAMS, START
from signloom_tools.cli.installed import FILES, make_installed_project, upgrade_project, version

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
  signloom demo                                   # or your own corpus:
  signloom init data/raw/NAME --videos DIR --table FILE --use && dvc repro"""


def add_project(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom project`."""
    parser.description = (
        "Make a folder for another corpus: its own params.yaml and ops.yaml, data, checkpoint, "
        "scores, report and runs, beside those of this project and with its code. Every command "
        "runs in it as here."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="for example corpora/weather"
    )
    parser.add_argument(
        "--upgrade", action="store_true",
        help="bring the files of this project to the version of the installed package",
    )  # fmt: skip
    parser.set_defaults(run=run_project)


def run_project(options: argparse.Namespace) -> None:
    """Make the folder and say what comes next, or upgrade this one."""
    if options.upgrade == (options.folder is not None):
        raise UserError("give FOLDER, or --upgrade in the folder of a project")
    if options.upgrade:
        print("\n".join([*upgrade_project(Path()), f"this project is of Signloom {version()}"]))
    elif is_clone(Path.cwd()):
        make_project(Path.cwd(), options.folder)
        print(NEXT.format(folder=options.folder))
    else:
        make_installed_project(options.folder)
        print(NEXT_ALONE.format(folder=options.folder))


def is_clone(root: Path) -> bool:
    """Return whether new projects are to share the code of this folder."""
    return (root / "src/signloom").exists() or not FILES.is_dir()


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom demo`."""
    parser.description = (
        "Draw a corpus of signing, find its landmarks, train, score and report, as `make demo` "
        "does in a clone: some 10 minutes on two cores."
    )
    parser.set_defaults(run=run_demo)


def run_demo(_: argparse.Namespace) -> None:
    """Run the stages, then print the scores.

    Raises:
        UserError: If this is no project, or a stage fails.
    """
    missing = [name for name in (PARAMS, Path("dvc.yaml"), Path("pipeline")) if not name.exists()]
    if missing:
        raise UserError(f"{missing[0]} is missing here: `signloom project NAME`, then cd NAME")
    if importlib.util.find_spec("dvc") is None:
        raise UserError("the demo trains a model: pip install 'signloom[training]'")
    for command in ("dvc repro", "signloom_tools.cli.main scores"):
        if code := subprocess.run([sys.executable, "-m", *command.split()], check=False).returncode:
            raise UserError(f"`{command}` ended with code {code}; see above")


def make_project(root: Path, folder: Path) -> None:
    """Make a project folder that shares the code of another and nothing else.

    Args:
        root: the project whose code, and parameters to begin with, it gets
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
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{folder} exists and is no empty folder: name another")
    inside = target.relative_to(root).parts[:1] if target.is_relative_to(root) else ()
    if inside and inside[0] in (*LINKED, "data", "reports", ".git", ".dvc"):
        raise UserError(
            f"{folder} would lie in {inside[0]}, which the stages watch: name another folder, for "
            "example corpora/weather"
        )
    check_writable(target)
    with made_whole(target):
        _fill(root, target)


def _fill(root: Path, target: Path) -> None:
    for name in LINKED:
        (target / name).symlink_to(os.path.relpath(root / name, target))
    for name in COPIED:
        write_file(target / name, (root / name).read_text("utf-8"))
    (target / BASELINE).parent.mkdir()
    write_file(target / BASELINE, '{"format_version": 1, "metrics": {}}\n')
    write_file(target / LAST_NIGHT, "{}\n")
    from signloom.evaluation.judge import make_judgements  # scores, which take their time

    make_judgements(target / JUDGEMENTS)
    (target / "data").mkdir()
    write_start(None, target / START)
    _start_dvc(root, target)


def _start_dvc(root: Path, target: Path) -> None:
    """Make the folder a project of DVC's, whose cache is the first one's: files are kept once."""
    if importlib.util.find_spec("dvc") is None:
        return
    is_in_git = any((one / ".git").exists() for one in target.parents)
    how = "--subdir" if is_in_git else "--no-scm"
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "init", "--quiet", how],
        cwd=target, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"`dvc init` failed in {target}: {done.stderr.strip()}")
    (root / SHARED_WITH).parent.mkdir(parents=True, exist_ok=True)
    with (root / SHARED_WITH).open("a", encoding="utf-8") as file:
        file.write(f"{target}\n")
    cache = os.path.relpath(root / ".dvc/cache", target / ".dvc")
    alone = "" if is_in_git else "    no_scm = true\n"  # or DVC looks for Git and finds none
    write_file(
        target / ".dvc/config",
        f"[core]\n    analytics = false\n{alone}[cache]\n    dir = {cache}\n",
    )
