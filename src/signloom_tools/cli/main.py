"""The program `signloom`: its commands in groups, each a line."""

import argparse
import difflib
import functools
import logging
import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, NoReturn

from signloom.errors import count_of
from signloom.terminal import run_program
from signloom_tools.command_options import describe_command

Describe = Callable[[argparse.ArgumentParser], None]
Commands = dict[str, dict[str, tuple[Describe | str, str]]]
"""By group and name: module and name of the function that runs a command, or what describes it; and
its line in the help, which loads none of them."""
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {  # modules of this package
    "data": {
        "init": ("init:run_init", "make a corpus folder from a table and videos"),
        "merge": ("from_corpora:run_merge", "make one corpus of several, to train on all of them"),
        "compose": ("from_corpora:run_compose", "join takes of single signs to sentences"),
        "project": ("project:run_project", "make a project folder for another corpus"),
        "landmarks": (
            "landmarks:run_landmarks",
            "write MediaPipe Holistic's landmarks of any film",
        ),
        "import": ("landmark_files:run_import", "read landmarks from .pose, Kaggle or NumPy files"),
        "export": (
            "landmark_files:run_export",
            "write landmarks as .pose files, or captions for ELAN",
        ),
        "cache": ("landmark_files:run_cache", "print what the landmark cache holds, or prune it"),
    },
    "model": {
        "summary": ("model:run_summary", "print the configured model: parts, size, speed"),
        "adopt": ("model:run_adopt", "write a search's winner or a preset into params.yaml"),
        "outlook": ("model:run_outlook", "learning curve: what more signers would bring"),
        "tune-worker": ("model:run_tune_worker", "run trials of another machine's search"),
    },
    "translate": {
        "translate": ("translate:run_translate", "print sentences of videos, landmarks or glosses"),
        "lookup": ("lookup:run_lookup", "find the known signs that are nearest to a clip"),
        "export-model": ("translate:run_export_model", "write a model as ONNX or for MLflow"),
    },
    "results": {
        "scores": ("results:run_scores", "print the last evaluation with its floors"),
        "compare": (
            "results:run_compare",
            "compare two runs, with the significance of differences",
        ),
        "stress": ("results:run_stress", "measure robustness to pauses, speed, lost hands"),
        "judge": ("results:run_judge", "let people compare two systems blindly; show the result"),
        "upload-runs": ("results:run_upload_runs", "upload runs that MLflow has not received"),
    },
}

FURTHER = "signloom.commands"  # entry points: commands of other packages, in groups as here

HELP = """\
usage: signloom COMMAND ...

Signing videos and their sentences in, a trained, scored translation model out.
The pipeline itself runs with `dvc repro`.

{groups}

`signloom COMMAND --help` describes a command. `signloom --print-completion bash` (or zsh) prints
what completes commands and options in a shell.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `signloom`; a user's mistake ends in its message and exit code 1."""

    def work() -> None:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        options = build_parser().parse_args(arguments)
        options.run(options)

    run_program(work, stopped="stopped")


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands; their options are described when they are needed."""
    parser = _Parser(prog="signloom")
    parser.add_argument("--version", action="version", version=f"signloom {version('signloom')}")
    parser.add_argument("--print-completion", action=_PrintCompletion, choices=("bash", "zsh"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for group in find_commands().values():
        for name, (how, line) in group.items():
            commands.add_parser(name, help=line, description=f"{line.capitalize()}.").how = how
    return parser


class _Command(argparse.ArgumentParser):
    """The options of a command."""

    how: Describe | str | None = None

    def load(self) -> None:
        """Describe the options, once."""
        how, self.how = self.how, None
        if isinstance(how, str):
            describe_command(self, pkgutil.resolve_name(how))
        elif how:
            how(self)

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """Load the options before they are parsed; one that is unknown is this command's error."""
        self.load()
        namespace, unknown = super().parse_known_args(*args, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """Say how many values of an option were found, and which are expected."""
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            count = len(arg_strings_pattern) - len(arg_strings_pattern.lstrip("A"))
            expected = self._get_formatter()._format_args(action, action.dest.upper())
            message = f"found {count_of(count, 'value')}, expected {expected}"
            raise argparse.ArgumentError(action, message) from None

    def error(self, message: str) -> NoReturn:
        """End with the message alone: what the usage lists is longer than a screen."""
        self.exit(2, f"error: {message}; see `{self.prog} --help`\n")


@functools.cache
def find_commands() -> Commands:
    """Return our commands and those of installed packages, by group."""
    commands_by_group: Commands = {
        group: {name: (f"signloom_tools.cli.{how}", line) for name, (how, line) in commands.items()}
        for group, commands in COMMANDS.items()
    }
    for further in entry_points(group=FURTHER):
        for group, commands in further.load().items():
            commands_by_group.setdefault(group, {}).update(commands)
    return commands_by_group


class _Parser(argparse.ArgumentParser):
    """The command line, whose help lists the commands in groups."""

    def format_help(self) -> str:
        groups = "\n\n".join(
            "\n".join(
                [f"{group}:", *(f"  {name:<16}{line}" for name, (_, line) in commands.items())]
            )
            for group, commands in find_commands().items()
        )
        return HELP.format(groups=groups)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest command instead of all of them."""
        if isinstance(action.choices, dict) and value not in action.choices:
            near = difflib.get_close_matches(value, action.choices, n=1)
            hint = f"did you mean {near[0]}?" if near else "`signloom --help` lists them"
            raise argparse.ArgumentError(None, f"there is no command {value!r}; {hint}")
        super()._check_value(action, value)


class _PrintCompletion(argparse.Action):
    """Print the script by which a shell completes commands and options."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        import shtab

        _complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, values))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, how: object) -> None:
    """Let a shell complete names of files wherever a path is expected."""
    for action in parser._actions:
        if action.type is Path:
            action.complete = how  # type: ignore[attr-defined]  # as shtab asks for
        elif isinstance(action.choices, dict):
            for command in action.choices.values():
                if isinstance(command, _Command):
                    command.load()
                _complete_files(command, how)


if __name__ == "__main__":
    main()
