"""Films with captions: what belongs to which film, and a row for each cue."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from signloom.corpus.manifest import Clip
from signloom.errors import ClipError, Problem, UserError, name_problem
from signloom_tools.importing.captions import (
    READ_SUFFIXES,
    Captions,
    Cue,
    apply_rules,
    read_captions,
    split_name,
)
from signloom_tools.importing.new_corpus import (
    RefusedRow,
    VideoFolder,
    clip_id_of,
    count_reasons,
    stem,
)
from signloom_tools.importing.options import Choice, CueRules
from signloom_tools.importing.user_tables import Row, UserTable, find_sources

CAPTIONS = "captions"  # the column of a table of films that names their caption files
_CELLS = ("clip_id", "video", "start_s", "end_s", "text", "signer", "gloss", "language")


@dataclass(slots=True)
class CueRows:
    """The cues of films as rows of a table, and what is none."""

    rows: list[tuple[Row, str | None]] = field(default_factory=list)
    refusals: list[RefusedRow] = field(default_factory=list)
    header: list[str] = field(default_factory=list)

    def refuse(self, table: str, line: int, name: str, reason: str, *concerns: str) -> None:
        """Note what becomes no clip."""
        self.refusals.append(RefusedRow(table, line, name, Problem(reason, "", concerns)))

    def reasons(self) -> list[str]:
        """Say why how much of it becomes no clip."""
        return [
            f"{count}: {reason} (first {one.table}: {one.detail})"
            for reason, count, one in count_reasons(self.refusals)
        ]


def clip_name(film: str, cue: Cue) -> str:
    """Return what the clip of a cue is called: as its file says, or the film and its start."""
    return cue.clip_id or f"{film}-{round(cue.start_s * 1000):08d}"


def list_captions(sources: Sequence[Path]) -> list[Path]:
    """Return the caption files among files and below folders, in order.

    Raises:
        UserError: If a source is not there.
    """
    found: dict[Path, None] = {}
    for source in sources:
        if not source.exists():
            raise UserError(f"{source}: no such file or folder of captions")
        below = sorted(source.rglob("*")) if source.is_dir() else [source]
        found.update(
            (path, None)
            for path in below
            if path == source
            or (
                path.suffix.lower() in READ_SUFFIXES
                and not (path.name.startswith(".") or name_problem(path))
            )
        )
    return list(found)


def measure_film(path: Path) -> float | None:
    """Return how many seconds a film has by its header; None: it does not say.

    Raises:
        ClipError: If it cannot be opened.
    """
    from signloom.detection.video import Video  # PyAV loads slowly

    if path.is_dir():  # of pictures
        return None
    with Video(path) as video:
        return video.duration_s


def read_films(
    videos: VideoFolder,
    sources: Sequence[Path],
    tables: Sequence[tuple[UserTable, str | None]],
    columns: Mapping[str, str],
    choice: Choice,
    rules: CueRules,
) -> CueRows:
    """Return a row for each cue of the films in a folder.

    Args:
        videos: The films.
        sources: Caption files and folders of them.
        tables: Tables of films with the split that each is given for, if any. Their cells are
            those of all cues of the film; films that they do not name are left out.
        columns: Fields and what the tables call them.
        choice: What to take of a file.
        rules: How cues become clips.

    Raises:
        UserError: If there is no caption file, or no cue that can be taken.
    """
    found = CueRows()
    said, named = _read_tables(videos, tables, columns, found)
    paths = list_captions([*named, *([] if named and not sources else sources or [videos.folder])])
    if not paths:
        raise UserError(
            f"{videos.folder}: no captions there ({', '.join(READ_SUFFIXES)}); give --captions FILE"
        )
    files = _read_captions(videos, paths, named, choice, found)
    for film in sorted({*videos.all(), *said}):
        if tables and film not in said:
            reason = "no row of the tables names it"
            found.refuse(film.name, 0, stem(film.name), reason, film.as_posix())
        else:
            _add_film(found, videos, film, files.get(film, []), said, rules)
    if not found.rows:
        raise UserError("\n  ".join(["no cue can be taken", *found.reasons()]))
    cells = {name for row, _ in found.rows for name, value in row.cells.items() if value}
    table_columns = [name for table, _ in tables for name in table.header]
    found.header = list(dict.fromkeys([*(n for n in _CELLS if n in cells), *table_columns]))
    return found


def _read_captions(
    videos: VideoFolder,
    paths: Sequence[Path],
    named: Mapping[Path, Path],
    choice: Choice,
    found: CueRows,
) -> dict[Path, list[Captions]]:
    """Return the captions of each film, by the tables or by the names of the files."""
    files: dict[Path, list[Captions]] = defaultdict(list)
    for path in paths:
        if choice.language and split_name(path)[1].partition("-")[0] not in ("", choice.language):
            continue
        try:
            captions = read_captions(path, choice)
        except UserError as error:
            found.refuse(path.name, 0, path.stem, "its captions cannot be read", str(error))
            continue
        if film := named.get(path) or _find_film(videos, captions):
            files[film].append(captions)
        else:
            reason = "no video of its name is below --videos"
            found.refuse(path.name, 0, path.stem, reason, path.as_posix())
    return files


Said = Mapping[Path, tuple[Mapping[str, str], str | None]]
"""Cells and split of a film by the tables."""


def _read_tables(
    videos: VideoFolder,
    tables: Sequence[tuple[UserTable, str | None]],
    columns: Mapping[str, str],
    found: CueRows,
) -> tuple[Said, dict[Path, Path]]:
    """Return what tables say of films, and the caption files that they name with their films."""
    said: dict[Path, tuple[Mapping[str, str], str | None]] = {}
    named: dict[Path, Path] = {}
    for table, split in tables:
        given = {field: name for field, name in columns.items() if name in table.header}
        sources = find_sources(table.header, given)
        for row in table.rows:
            known = {name: source.of(row.cells) for name, source in sources.items()}
            name = known.get("video") or known.get("clip_id", "")
            film, reason = videos.find(name)
            if film is None:
                found.refuse(row.table, row.line, name, reason, name)
                continue
            more = {n: known[n] for n in ("signer", "language") if known.get(n)}
            said[film] = {**row.cells, **more}, split
            if captions := row.cells.get(CAPTIONS):
                named[table.path.parent / captions] = film
    return said, named


def _find_film(videos: VideoFolder, captions: Captions) -> Path | None:
    """Return the film of a caption file: of the same name, else the one that it links."""
    path, film = captions.path, None
    if path.resolve().is_relative_to(videos.folder.resolve()):
        folder = path.resolve().relative_to(videos.folder.resolve()).parent
    else:
        folder = Path()
    names = [folder / path.stem, folder / split_name(path)[0], *map(Path, captions.media)]
    for name in [*names, *(Path(name.name) for name in names)]:
        film = film or videos.find(name.as_posix())[0]
    return film


def _add_film(
    found: CueRows,
    videos: VideoFolder,
    film: Path,
    files: Sequence[Captions],
    said: Said,
    rules: CueRules,
) -> None:
    """Add a row for each cue of a film, which must have one caption file."""
    name = stem(film.name)
    if not videos.find(film.name)[0]:  # another folder has one of its name
        name = clip_id_of(film.with_name(name).as_posix())
    if len(files) != 1:
        reason = "several caption files are of its film" if files else "no captions are beside it"
        listed = [captions.path.name for captions in files] or [film.as_posix()]
        found.refuse(listed[0], 0, name, reason, *listed[1:] or listed)
        return
    table = files[0].path.name
    try:
        duration_s = measure_film(videos.folder / film)
    except ClipError as error:
        found.refuse(table, 0, name, error.problem.reason, film.as_posix())
        return
    for where, problem in files[0].broken:
        found.refuse(table, 0, name, problem.reason, where, *problem.concerns)
    numbers = {cue.where: number for number, cue in enumerate(files[0].cues, start=1)}
    taken, left_out = apply_rules(files[0].cues, rules, duration_s)
    for cue, problem in left_out:
        line, clip = numbers[cue.where], clip_name(name, cue)
        found.refuse(table, line, clip, problem.reason, cue.where, *problem.concerns)
    cells, split = said.get(film, ({}, None))
    ends_s = None if duration_s is None else round(duration_s, 3)
    for cue in taken:
        # A clip that has no times comes back without any.
        is_film = cue.clip_id and (cue.start_s, cue.end_s) == (0.0, ends_s)
        times = ("", "") if is_film else (f"{cue.start_s:.3f}", f"{cue.end_s:.3f}")
        own = {
            "clip_id": clip_name(name, cue), "video": film.as_posix(), "text": cue.text,
            "start_s": times[0], "end_s": times[1], "gloss": cue.gloss,
            "signer": cue.signer or cells.get("signer", ""),
            "language": cue.language or cells.get("language", ""),
        }  # fmt: skip
        found.rows.append((Row(table, numbers[cue.where], {**cells, **own}), split))


def film_cues(
    clips: Sequence[Clip], hypotheses: Mapping[str, tuple[str, float | None]]
) -> dict[Path, list[Cue]]:
    """Return the cues of each film of a corpus: its clips with what a model says.

    Args:
        clips: Those without a video are left out.
        hypotheses: Text and score by clip id.

    Raises:
        UserError: If no clip has a video, or it is asked in vain how long a film is.
    """
    films: dict[Path, list[Cue]] = defaultdict(list)
    for clip in clips:
        if clip.video is None:
            continue
        end_s = clip.end_s
        if end_s is None:
            try:
                end_s = measure_film(clip.video)
            except ClipError as error:
                raise UserError(f"{clip.video}: {error}") from None
        if end_s is None:
            raise UserError(
                f"{clip.video}: its header has no length; give the clip {clip.clip_id} an end_s"
            )
        hypothesis, score = hypotheses.get(clip.clip_id, ("", None))
        films[clip.video].append(Cue(
            start_s=clip.start_s or 0.0, end_s=end_s, text=clip.text, signer=clip.signer,
            language=clip.language or "", gloss=clip.gloss or "", clip_id=clip.clip_id,
            hypothesis=hypothesis, score=score,
        ))  # fmt: skip
    if not films:
        raise UserError("no clip has a video, so there is no film to write captions for")
    return films


def caption_files(film: Path, cues: Sequence[Cue]) -> dict[Path, list[Cue]]:
    """Return the caption files to write for a film, and their cues."""
    files = {film.with_suffix(".eaf"): list(cues), film.with_suffix(".vtt"): list(cues)}
    said = [replace(cue, text=cue.hypothesis) for cue in cues if cue.hypothesis]
    return {**files, film.with_suffix(".hypotheses.vtt"): said} if said else files
