"""`signloom project`: folders whose files come from the installed package, or from its clone.

A project has copies of parameters, presets and stages; the code stays where it is. Where stages
of a clone depend on folders of src/, those of a project depend on stamps: files of `data/code` that
hold the hash of a folder of the package. Stage `code` writes them anew each time, so an upgraded
package runs again exactly the stages whose code it changes.

Usage (stage `code`): python -m signloom_tools.cli.project
"""

import difflib
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom import __version__
from signloom.config import check_shape, read_json, shape
from signloom.errors import UserError
from signloom.files import hash_file, hash_folder, to_text, write_file
from signloom.paths import DEMO_CORPUS, JUDGEMENTS, OPS, PARAMS, START
from signloom.terminal import run_program
from signloom.training.start_file import write_start
from signloom_tools.command_options import argument, option
from signloom_tools.outputs import made_whole
from signloom_tools.params_file import update_params

FILES = Path(__file__).parents[1] / "project"  # in the package; none in a clone
CLONE = Path(__file__).parents[3]
STATE = Path(".signloom.json")  # which version's files a project has, and their hashes
STAMPS = Path("data/code")
FORMAT_VERSION = 1
DRAWN = {"folder": str(DEMO_CORPUS), "manifest": "manifest.tsv"}  # what a project begins with
OWN = (PARAMS.as_posix(), OPS.as_posix(), "data/demo/params.yaml")  # values of the user

README = """\
# A Signloom project

    dvc repro                     # draw a corpus, train, score: some 10 minutes on two cores
    signloom scores
    signloom init data/raw/NAME --videos DIR --table FILE --use    # then the same two again

Your values are in params.yaml and ops.yaml. The code is the installed package: after
`pip install --upgrade signloom` (or `git pull` in the clone) run `signloom project --upgrade`.
"""
_STAGE = """\
stages:
  code:
    desc: Stamp the installed code, so that an upgrade runs what it changes
    cmd: python -m signloom_tools.cli.project
    always_changed: true
    outs:
      - data/code:
          cache: false

"""
NEXT = """\
{folder} is a project of its own. Next:
  cd {folder}
  dvc repro && signloom scores                    # the drawn corpus; or your own:
  signloom init data/raw/NAME --videos DIR --table FILE --use && dvc repro"""
_DEPENDENCY = re.compile(r"^(\s+- )src/([\w/.]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ProjectOptions:
    """Make a folder for another corpus, in which every command runs.

    It has its own parameters, presets, stages, data, scores and runs; the code is the installed
    package, or the clone whose `signloom` this is.
    """

    folder: Path | None = argument("for example corpora/weather", "FOLDER", nargs="?")
    upgrade: bool = option(
        "bring the files of this project to the version of the installed package", False
    )


def run_project(options: ProjectOptions) -> None:
    """Make the folder and print the next steps, or upgrade this one."""
    if options.upgrade and options.folder is None:
        print("\n".join([*upgrade_project(Path()), f"this project is of Signloom {__version__}"]))
    elif options.upgrade or options.folder is None:
        raise UserError("give FOLDER, or --upgrade in the folder of a project")
    else:
        make_project(options.folder)
        print(NEXT.format(folder=options.folder))


def project_files() -> dict[str, str]:
    """Return the files of a project of this version, by their name in it."""
    root, patterns = FILES, ["**/*"]
    if not FILES.is_dir():
        root, settings = CLONE, tomllib.loads((CLONE / "pyproject.toml").read_text("utf-8"))
        patterns = settings["tool"]["signloom"]["project-files"]
    names = sorted(
        path
        for pattern in patterns
        for path in root.glob(pattern)
        if path.is_file() and path.suffix != ".pyc"
    )
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in names}
    if root == CLONE:
        texts |= {name: _committed(CLONE / name) for name in OWN}
    for name in ("dvc.yaml", "data/demo/dvc.yaml"):
        texts[name] = _DEPENDENCY.sub(
            lambda match: f"{match[1]}{STAMPS.as_posix()}/{match[2].replace('/', '.')}", texts[name]
        )
    texts["dvc.yaml"] = texts["dvc.yaml"].replace("stages:\n", _STAGE, 1)
    return texts


def _committed(path: Path) -> str:
    """Return a file of the clone's last commit, without what was changed for one corpus."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        return subprocess.run(
            command, cwd=path.parent, capture_output=True, encoding="utf-8", check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return path.read_text("utf-8")


def make_project(folder: Path) -> None:
    """Make a project of the package's files, whose corpus is the drawn one.

    Raises:
        UserError: If the folder holds something, or DVC is missing or fails.
    """
    from signloom.evaluation.judgements import (
        make_judgements,  # imports scores, which takes a while
    )

    files = project_files()
    with made_whole(folder):
        _write_all(folder, {**files, "README.md": README})
        update_params(folder / PARAMS, {"corpus": DRAWN})  # those of a clone may name its own
        make_judgements(folder / JUDGEMENTS)
        (folder / START).parent.mkdir(exist_ok=True)
        write_start(None, folder / START)
        _init_dvc(folder)
        _write_all(folder, {name: text for name, text in files.items() if name.startswith(".dvc/")})
        write_stamps(folder)
        _write_state(folder, _hashes(files))


def _init_dvc(folder: Path) -> None:
    if importlib.util.find_spec("dvc") is None:
        raise UserError("a project trains models: pip install 'signloom[training]'")
    is_in_git = any((parent / ".git").exists() for parent in folder.resolve().parents)
    how = "--subdir" if is_in_git else "--no-scm"
    command = [sys.executable, "-m", "dvc", "init", "--force", "--quiet", how]  # empties .dvc
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise UserError(f"`dvc init` failed in {folder}: {process.stderr.strip()}")
    config = "[core]\n    analytics = false\n"
    config += "" if is_in_git else "    no_scm = true\n"  # or DVC looks for Git and finds none
    write_file(folder / ".dvc/config", config)


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, text)


def _write_state(folder: Path, files: Mapping[str, str]) -> None:
    # Of what the version made, not of what lies there: a change by hand stays one.
    state = {"format_version": FORMAT_VERSION, "version": __version__, "files": files}
    write_file(folder / STATE, to_text(state))


def _hashes(files: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return version and hashes of the files of a project; None in a clone.

    Raises:
        UserError: If the file is damaged, or the project is of a later version.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    hint = "restore it from Git"
    kind = shape(version=str, files=dict[str, str])
    state: dict[str, Any] = check_shape(read_json(path, hint=hint), kind, where=path, hint=hint)
    if state.get("format_version") != FORMAT_VERSION:
        raise UserError(f"{path} is of a later Signloom: restore it")
    if _order(state["version"]) > _order(__version__):
        raise UserError(
            f"{folder.resolve()} is a project of Signloom {state['version']}, and {__version__} is "
            "installed: pip install --upgrade signloom"
        )
    return state


def _order(number: str) -> list[int]:
    """Return the release alone: of 0.2.0rc1 and 0.2.0 none is later."""
    return [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]|\.(?!\d)", number)[0])]


def upgrade_project(folder: Path) -> list[str]:
    """Bring the files of a project to the version of the package.

    params.yaml and ops.yaml keep what the user wrote. The state is written last: until then the
    stages refuse to run, and what was interrupted is done by running this again.

    Returns:
        What to print: the difference.

    Raises:
        UserError: Before anything is written, if a file is not as its version made it.
    """
    state = read_state(folder)
    if state is None:
        raise UserError(
            f"{folder.resolve()} has no {STATE}: run this in a project that `signloom project` of "
            "an installed package made; a clone is upgraded with Git"
        )
    files = project_files()
    hashes = _hashes(files)
    changed = {
        name: text for name, text in files.items() if _is_older(folder, name, hashes[name], state)
    }
    shown: list[str] = []
    for name, text in changed.items():
        old = (folder / name).read_text("utf-8") if (folder / name).is_file() else ""
        lines = old.splitlines(), text.splitlines()
        shown += difflib.unified_diff(*lines, name, name, lineterm="", n=1)
    _write_all(folder, changed)
    write_stamps(folder)
    _write_state(folder, hashes)
    return shown


def _is_older(folder: Path, name: str, new_hash: str, state: Mapping[str, Any]) -> bool:
    """Return whether a file is missing or as another version made it.

    Raises:
        UserError: If a person has changed a file that this version also changes.
    """
    path, old_hash = folder / name, state["files"].get(name)
    if not path.is_file():
        return True
    present_hash = hash_file(path)
    if name in OWN or present_hash == new_hash:
        return False
    if present_hash != old_hash and old_hash != new_hash:
        raise UserError(
            f"{name} is not as Signloom {state['version']} made it: put your change aside "
            f"(mv {name} {name}.mine), run this again, and make the change anew"
        )
    return present_hash == old_hash


def write_stamps(folder: Path) -> None:
    """Write the hash of each folder of the package that a stage of the project depends on."""
    packages = Path(__file__).parents[2]
    stamps = set()
    for name in ("dvc.yaml", "data/demo/dvc.yaml"):
        text = (folder / name).read_text("utf-8")
        stamps |= set(re.findall(rf"- {STAMPS.as_posix()}/([\w.]+)$", text, re.MULTILINE))
    (folder / STAMPS).mkdir(parents=True, exist_ok=True)
    for stamp in sorted(stamps):
        path = packages / stamp.removesuffix(".py").replace(".", os.sep)
        module = path.with_suffix(".py")
        hashes = (hash_folder(path, kind)[:16] for kind in ("*.py", "*.html", "*.css", "*.js"))
        digest = hash_file(module) if stamp.endswith(".py") else "".join(hashes)
        write_file(folder / STAMPS / stamp, f"{digest}\n")


def check_project(folder: Path) -> None:
    """Refuse a project whose files are of another version than the code.

    Raises:
        UserError: With the command that brings them together.
    """
    state = read_state(folder)
    if state is None:
        return
    hashes = _hashes(project_files()) if FILES.is_dir() else state["files"]
    if (state["version"], state["files"]) != (__version__, hashes):
        raise UserError(
            f"{folder.resolve()}: its files are of Signloom {state['version']}, or an upgrade was "
            f"interrupted; installed is {__version__}: run `signloom project --upgrade`"
        )


def main() -> None:
    """Write the stamps of the project in the working folder."""

    def work() -> None:
        check_project(Path())
        write_stamps(Path())

    run_program(work, stopped="stopped")


if __name__ == "__main__":
    main()
