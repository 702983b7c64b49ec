"""What `signloom translate --glosses` does: lines of glosses come in, sentences are printed."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from signloom.config import UserError
from signloom.serving.defaults import DECODING

_OF_CLIPS = {
    "paths": "PATH", "video": "--video", "font": "--font", "timing": "--timing",
    "hand_model": "--hand-model", "pose_model": "--pose-model", "fps": "--fps",
    "width": "--width", "height": "--height",
}  # fmt: skip
# `lines.txt`, `folder/lines`; a line such as `HAUS LAUFEN/GEHEN` is none.
_LOOKS_LIKE_PATH = re.compile(r".*\.[A-Za-z]\w*|\S*[/\\]\S*")


def translate_glosses(options: argparse.Namespace) -> None:
    """Print the translations of each line, in order; an empty line gives an empty one.

    Raises:
        UserError: If the checkpoint was not trained on glosses, or nothing is given.
    """
    _refuse_options_of_clips(options)
    lines = read_lines(options.glosses)
    from signloom.decoding import DecodingOptions
    from signloom.translator import Translator

    try:
        decoding = DecodingOptions(**{name: getattr(options, name) for name in DECODING})
    except ValueError as error:
        raise UserError(str(error)) from None
    translator = Translator.load(options.checkpoint, precision=options.precision)
    if not translator.reads_glosses:
        raise UserError(
            f"{options.checkpoint} was trained on landmarks, not on glosses (model.source: tokens)"
        )
    sources = [translator.spec.glosses.encode(line) for line in lines]
    told = [source for source in sources if len(source.ids)]
    said = iter(translator.translate(told, decoding, n_best=options.n_best))
    for source in sources:
        found = next(said) if len(source.ids) else None
        every = [found, *found.alternatives] if found else []
        if options.json:
            rows = [
                {
                    "text": one.text,
                    "score": one.hypothesis.score,
                    "log_prob": one.hypothesis.log_prob,
                }
                for one in every
            ]
            first = rows[0] if rows else {"text": ""}
            content = {
                "glosses": source.glosses, "unknown": source.unknown, **first,
                "alternatives": rows[1:],
            }  # fmt: skip
            print(json.dumps(content, ensure_ascii=False))
            continue
        for one in every:
            score = f"{one.hypothesis.score:.4f}\t" if options.n_best > 1 else ""
            print(score + " ".join(one.text.split()))
        if not every:
            print()
    _tell_unknown([name for source in sources for name in source.unknown], len(told))


def _refuse_options_of_clips(options: argparse.Namespace) -> None:
    """Refuse what would be passed over in silence, all of it at once."""
    given = {flag: getattr(options, name) for name, flag in _OF_CLIPS.items()}
    found = [
        flag
        for flag, value in given.items()
        if not (value is None or value is False or value in ("", []))  # 0 was given, too
    ]
    if found:
        raise UserError(
            f"{', '.join(found)}: of videos and landmarks, without meaning for glosses; leave "
            "out this or --glosses"
        )


def read_lines(given: Sequence[str]) -> list[str]:
    """Return the lines of glosses behind arguments: files, `-` for standard input, or themselves.

    Raises:
        UserError: If a file is missing or cannot be read as text, or all lines are empty.
    """
    lines: list[str] = []
    for argument in given:
        try:
            if argument == "-":
                lines += sys.stdin.read().splitlines()
            elif os.path.isfile(argument):  # noqa: PTH113 (which fails for lines of 256 bytes)
                lines += Path(argument).read_text(encoding="utf-8-sig").splitlines()
            elif _LOOKS_LIKE_PATH.fullmatch(argument):
                raise UserError(
                    f"--glosses {argument}: no such file; expected one, a line of glosses or -, "
                    "which reads lines from standard input, whatever is in them"
                )
            else:
                lines.append(argument)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"--glosses {argument}: {error}; expected text in UTF-8, a line a clip"
            ) from None
    if not any(line.strip() for line in lines):
        raise UserError("--glosses: found no gloss; give a line of them, a file of lines, or -")
    return lines


def _tell_unknown(unknown: Sequence[str], lines: int) -> None:
    """Say which glosses the model has never seen: what it makes of them is a guess."""
    if not unknown:
        return
    names = list(dict.fromkeys(unknown))
    some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    found = f"{len(unknown)} glosses of {lines} line{'s' * (lines > 1)}"
    print(f"warning: {found} never stood in train: {some}", file=sys.stderr)
