"""Damaged copies of a JSON file, drawn with a seed: what a cut, edited or hostile one may hold."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from signloom.files import hash_file, to_sealed, write_file

_DEEP, _HUGE = "a deep place", "a huge number"
WRONG: dict[str, Any] = {
    "null": None,
    "list": [],
    "lists": [[1], "a"],
    "text": "b",
    "number": 3,
    "negative": -1,
    "large": 10**12,
    "fraction": 0.5,
    "nan": float("nan"),
    "true": True,
    "map": {},
    "strange map": {"a": [1]},
    "deep": _DEEP,
    "huge": _HUGE,
    "long": "x" * 100_000,
}


def edit_json(path: Path, **changes: object) -> None:
    """Change values of a JSON file of ours, which gets the checksum of what it is then."""
    write_file(path, to_sealed({**json.loads(path.read_text(encoding="utf-8")), **changes}))


def keep_hashes(folder: Path) -> None:
    """Take the files of a checkpoint, which a test changed, for those that were trained."""
    names = ("tokenizer.json", "model.safetensors")
    edit_json(folder / "checkpoint.json", sha256={name: hash_file(folder / name) for name in names})


def damaged_texts(content: Any, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield what was done to the content, and the text of the file then.

    Args:
        content: Of a file that is good.
        seed: Of what is drawn.
        count: How many are wanted, beside those that are no JSON or nothing at all.
    """
    text = json.dumps(content)
    yield "empty", ""
    yield "cut", text[: len(text) // 2]
    yield "no JSON", "\x00\xff"
    for kind in WRONG:
        yield f"all of it: {kind}", _text(WRONG[kind])
    generator = random.Random(seed)
    places = list(_places(content))
    for _ in range(count):
        place, kind = generator.choice(places), generator.choice(["missing", *WRONG])
        changed = copy.deepcopy(content)
        *path, last = place
        owner = changed
        for part in path:
            owner = owner[part]
        if kind == "missing":
            del owner[last]
        else:
            owner[last] = WRONG[kind]
        yield f"{'.'.join(map(str, place))}: {kind}", _text(changed)


def _text(content: Any) -> str:
    text = json.dumps(content).replace(f'"{_DEEP}"', "[" * 100_000 + "]" * 100_000)
    return text.replace(f'"{_HUGE}"', "9" * 5_000)


def _places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every key of maps, and the first places of lists."""
    if isinstance(content, dict):
        items = list(content.items())
    else:
        items = list(enumerate(content[:2])) if isinstance(content, list) else []
    for key, value in items:
        yield (*above, key)
        yield from _places(value, (*above, key))
