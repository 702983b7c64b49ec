"""The command that makes a project folder for another corpus, or upgrades one."""

from dataclasses import dataclass
from pathlib import Path

from signloom.errors import UserError
from signloom_tools.cli.installed import make_project, upgrade_project, version
from signloom_tools.options import argument, option

NEXT = """\
{folder} is a project of its own. Next:
  cd {folder}
  dvc repro && signloom scores                    # the drawn corpus; or your own:
  signloom init data/raw/NAME --videos DIR --table FILE --use && dvc repro"""


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
        print("\n".join([*upgrade_project(Path()), f"this project is of Signloom {version()}"]))
    elif options.upgrade or options.folder is None:
        raise UserError("give FOLDER, or --upgrade in the folder of a project")
    else:
        make_project(options.folder)
        print(NEXT.format(folder=options.folder))
