"""Translation of lines of glosses."""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.errors import UserError
from signloom_tools.cli.translate_options import (
    TranslateOptions,
    check_attention,
    load_translator,
    write_attention,
)

if TYPE_CHECKING:
    from signloom.features.glosses import GlossSequence
    from signloom.translation.translator import Translation

# `lines.txt`, `folder/lines`; a line such as `HAUS LAUFEN/GEHEN` is none.
_LOOKS_LIKE_PATH = re.compile(r".*\.[A-Za-z]\w*|\S*[/\\]\S*")


def translate_glosses(options: TranslateOptions) -> None:
    """Print the translations of each line, in order; an empty line gives an empty one.

    Raises:
        UserError: If the checkpoint was not trained on glosses, or nothing is given.
    """
    lines = read_lines(options.glosses)
    translator, decoding = load_translator(options)
    vocabulary = translator.source.glosses(options.model.checkpoint)
    sources = [vocabulary.encode(line) for line in lines]
    filled = [source for source in sources if len(source.ids)]
    inputs = [Path(argument) for argument in options.glosses if os.path.isfile(argument)]  # noqa: PTH113 (or lines)
    check_attention(options, len(filled), inputs)
    translated = translator.translate(
        filled, decoding, n_best=options.n_best, skip_unsure=options.skip_unsure
    )
    pairs = zip(filled, translated, strict=True)
    write_attention(
        options, translator, [(" ".join(s.glosses), s, translation) for s, translation in pairs]
    )
    translations = iter(translated)
    for source in sources:
        best = next(translations) if len(source.ids) else None
        if options.json:
            print(_to_json(source, best))
        elif best is None:
            print()
        else:
            _print(best, with_scores=options.n_best > 1)
    _warn_of_unknown([name for source in sources for name in source.unknown], len(filled))


def _to_json(source: "GlossSequence", best: "Translation | None") -> str:
    from signloom_tools.translate.answer import to_scored

    scored = {**to_scored(best), **best.check.to_map()} if best else {"text": ""}
    alternatives = [to_scored(alternative) for alternative in best.alternatives] if best else []
    content = {
        "glosses": source.glosses,
        "unknown": source.unknown,
        **scored,
        "alternatives": alternatives,
    }
    return json.dumps(content, ensure_ascii=False)


def _print(best: "Translation", *, with_scores: bool) -> None:
    for translation in (best, *best.alternatives):
        score = f"{translation.hypothesis.score:.4f}\t" if with_scores else ""
        word = f"\t{translation.check.word}" if translation.check.word else ""
        print(score + " ".join(translation.text.split()) + word)


def read_lines(arguments: Sequence[str]) -> list[str]:
    """Return the lines of glosses behind arguments: files, `-` for standard input, or themselves.

    Raises:
        UserError: If a file is missing or cannot be read as text, or all lines are empty.
    """
    lines: list[str] = []
    for argument in arguments:
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


def _warn_of_unknown(unknown: Sequence[str], lines: int) -> None:
    """Name the glosses that the model has never seen: what it makes of them is a guess."""
    if not unknown:
        return
    names = list(dict.fromkeys(unknown))
    some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    amount = f"{len(unknown)} glosses of {lines} line{'s' * (lines > 1)}"
    print(f"warning: {amount} never occurred in train: {some}", file=sys.stderr)
