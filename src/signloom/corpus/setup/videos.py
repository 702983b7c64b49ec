"""A folder of videos comes in; the file that a row of a table means, and its place, go out."""

import os
import shutil
from collections import defaultdict
from pathlib import Path, PurePosixPath

from signloom.config import UserError

SUFFIXES = (".mp4", ".avi", ".mkv", ".mov", ".webm", ".mpg", ".mpeg", ".m4v", ".wmv", ".flv", ".ts")
PICTURES = (".png", ".jpg", ".jpeg")
PLACE = "videos"  # folder in the corpus for videos that lie elsewhere


class VideoFolder:
    """All videos below a folder, found by path, by name, or by name without its ending."""

    def __init__(self, folder: Path, *, follow_links: bool = True) -> None:
        if not folder.is_dir():
            raise UserError(f"--videos {folder}: no such folder")
        self.folder = folder
        self._by_stem: dict[str, list[Path]] = defaultdict(list)
        self._pictures: set[str] = set()  # folders of pictures, one a clip
        for root, _, names in os.walk(folder, followlinks=follow_links):
            below = Path(root).relative_to(folder)
            for name in sorted(names):
                suffix = PurePosixPath(name).suffix.lower()
                if suffix in SUFFIXES:
                    self._by_stem[stem(name)].append(below / name)
                elif suffix in PICTURES:
                    self._pictures.update(below.parts)

    def find(self, name: str) -> tuple[Path | None, str]:
        """Return the path below the folder of the video that a cell means, or None and why not.

        Of several videos with the name, the one counts whose path ends as the cell says.
        """
        wanted = PurePosixPath(name.replace("\\", "/"))
        found = self._by_stem.get(stem(wanted.name), [])
        if len(found) > 1:
            parts = (*wanted.parts[:-1], stem(wanted.name))
            ends = [p for p in found if (*p.parts[:-1], stem(p.name))[-len(parts) :] == parts]
            same = [path for path in ends if path.name == wanted.name]
            found = same or ends or found
        if len(found) == 1:
            return found[0], ""
        if found:
            return None, f"{len(found)} videos have its name"
        if self._pictures.intersection(wanted.parts):
            return None, "its video is a folder of pictures (docs/corpora.md joins them)"
        return None, "no video of its name"


def place_video(source: Path, target: Path, *, copy: bool, force: bool) -> None:
    """Link or copy a video to where the manifest names it.

    Raises:
        UserError: If another file is there and `force` does not allow to replace it.
    """
    source = source.resolve()
    if target.is_symlink() or target.exists():
        is_same = target.resolve() == source and target.is_symlink() != copy
        if is_same:
            return
        if not force:
            raise UserError(f"{target} is there already; --force replaces it")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if copy:
            shutil.copyfile(source, temporary)
        else:
            temporary.symlink_to(source)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def stem(name: str) -> str:
    """Return a file's name without the ending of a video; names may have other dots."""
    return name[: -len(PurePosixPath(name).suffix)] if name.lower().endswith(SUFFIXES) else name
