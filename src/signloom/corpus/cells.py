"""The text of one cell of a manifest comes in; what is wrong with it goes out."""

import math
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from signloom.corpus.tables import field_problem

_MAX_ID_BYTES = 200  # ids become parts of file names, which end at 255 bytes


def parse_segment(row: Mapping[str, str]) -> tuple[float | None, float | None, list[str]]:
    """Return start_s and end_s of a row, None where they are empty, and what is wrong with them."""
    seconds: dict[str, float | None] = {"start_s": None, "end_s": None}
    problems = []
    for name in seconds:
        text = row.get(name, "")
        try:
            number = float(text) if text else None
        except ValueError:
            number = math.nan
        if number is None or (math.isfinite(number) and number >= 0 and "_" not in text):
            seconds[name] = number
        else:
            problems.append(f"{name} {text!r} is not a number of seconds, 0 or more, as in 3.25")
    start_s, end_s = seconds.values()
    if end_s is not None and end_s <= (start_s or 0.0) and not problems:
        problems.append(f"end_s {row['end_s']} is not after start_s {row.get('start_s') or 0}")
    return start_s, end_s, problems


def id_problem(clip_id: str) -> str | None:
    """Say why this cannot name a clip, if it cannot."""
    bad = sorted(
        {c for c in clip_id if unicodedata.category(c)[0] not in "LMN" and c not in " ._-"}
    )
    if bad:
        return f"has {' '.join(map(repr, bad))}; use letters, digits, space, '.', '_' and '-'"
    if clip_id[0] in ".-":
        return f"starts with {clip_id[0]!r}; start it with a letter or a digit"
    if len(clip_id.encode()) > _MAX_ID_BYTES:
        return f"is longer than {_MAX_ID_BYTES} bytes"
    return None


class VideoPaths:
    """Looks paths of videos up, each of their folders once.

    Args:
        folder: The manifest's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._inside: dict[Path, bool] = {}  # by the folder of a video, links and all

    def problem(self, video: str) -> str | None:
        """Say why this is no path of a video in the manifest's folder, if it is none."""
        if "\0" in video or field_problem(video, ""):
            return None  # named already
        if video.startswith("/"):
            return f"is an absolute path; write it relative to the manifest's folder {self._folder}"
        path = self._folder / video
        try:
            inside = self._is_inside(path.parent) and path.name != ".."
            is_file = inside and path.is_file()
        except (OSError, RuntimeError) as error:  # a name too long, a loop of links
            return f"cannot be looked up ({error}); correct the path"
        if not inside:
            return f"leaves the manifest's folder {self._folder}; put the manifest above its videos"
        if not is_file:
            hint = "; write / between folders" if "\\" in video else ""
            return f"is not a file in {self._folder}{hint}; restore it or remove the row"
        return None

    def _is_inside(self, parent: Path) -> bool:
        # The folder is resolved, the file is not: DVC may keep big files as links to its cache.
        if parent not in self._inside:
            self._inside[parent] = parent.resolve().is_relative_to(self._folder)
        return self._inside[parent]
