"""Commands of the user that score sentences: JSON lines go to them, numbers come back.

Learned metrics (BLEURT, COMET) need weights of gigabytes and libraries of their own. They stay
outside: whoever has them writes a few lines around them (docs/scoring.md has some).
"""

import json
import math
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from signloom.config import UserError
from signloom.evaluation.systems import SplitResult


def run_commands(
    commands: Mapping[str, str], results: Sequence[SplitResult]
) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Let every command score what every system said.

    A command runs once, so that it loads its model once. Its lines on standard input have
    `clip_id`, `source` (the glosses, empty if there are none), `hypothesis` and `reference`.

    Args:
        commands: Name of the metric to command line; it is split as a shell would, and run
            without one.
        results: What was said.

    Returns:
        Name to (split, system) to a number for each clip.

    Raises:
        UserError: If a command cannot be run, fails, or prints anything but a number a line.
    """
    places, lines = [], []
    for result in results:
        for system, texts in result.texts.items():
            places.append((result.split, system))
            lines.append(
                [
                    {
                        "clip_id": target.clip_id,
                        "source": target.gloss,
                        "hypothesis": text,
                        "reference": target.text,
                    }
                    for target, text in zip(result.targets, texts, strict=True)
                ]
            )
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for name, command in commands.items():
        numbers = iter(_ask(name, command, [line for part in lines for line in part]))
        found[name] = {
            place: [next(numbers) for _ in part] for place, part in zip(places, lines, strict=True)
        }
    return found


def _ask(name: str, command: str, lines: Sequence[Mapping[str, str]]) -> list[float]:
    where = f"evaluate.commands.{name} ({command})"
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    try:
        done = subprocess.run(
            shlex.split(command), input=text.encode(), stdout=subprocess.PIPE, check=False
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"{where} cannot be run: {error}; a learned metric needs its program and its model on "
            "this machine, nothing is downloaded. Give its full path, or take the line out"
        ) from None
    if done.returncode:
        raise UserError(
            f"{where} ended with exit code {done.returncode}; what it printed stands above"
        )
    printed = done.stdout.decode(errors="replace").split("\n")
    rows = [line for line in printed if line.strip()]
    if len(rows) != len(lines):
        raise UserError(f"{where} printed {len(rows)} lines for {len(lines)} sentences")
    numbers = []
    for number, row in enumerate(rows, start=1):
        try:
            numbers.append(float(row))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise UserError(f"{where}: line {number} is {row!r}, expected a finite number")
    return numbers
