"""Films with captions: what belongs to which film, and a row for each cue."""

import contextlib
import re
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from signloom.corpus.manifest import VIDEO_SUFFIXES, Clip
from signloom.errors import ClipError, Problem, UserError, name_problem
from signloom.grouping import group_pairs
from signloom.progress import progress_file
from signloom_tools.importing.captions import (
    MIN_INSIDE,
    READ_SUFFIXES,
    Captions,
    Cue,
    apply_rules,
    last_end_s,
    read_captions,
    split_name,
)
from signloom_tools.importing.column_sources import FieldSource, find_sources
from signloom_tools.importing.new_corpus import (
    CorpusPlan,
    RefusedRow,
    VideoFolder,
    clip_id_of,
    count_reasons,
    count_shared,
    find_as_written,
    name_cue,
    stem,
)
from signloom_tools.importing.options import Choice, CueRules
from signloom_tools.importing.pictures import OTHER_SUFFIXES, SUFFIXES, PictureFolder
from signloom_tools.importing.user_tables import TableRow, UserTable

CAPTIONS = "captions"  # the column of a table of films that names their caption files
_CELLS = ("clip_id", "video", "start_s", "end_s", "text", "signer", "gloss", "language", "split")


@dataclass(slots=True)
class CueRows:
    """The cues of films as rows of a table, and what is none."""

    rows: list[tuple[TableRow, str | None]] = field(default_factory=list)
    refusals: list[RefusedRow] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    signers: dict[str, str] = field(default_factory=dict)  # by names, as `Captions` has them
    with_gloss_lines: list[str] = field(default_factory=list)  # names of such ELAN files

    def refuse(self, table: str, line: int, name: str, reason: str, *concerns: str) -> None:
        """Note what becomes no clip."""
        self.refusals.append(RefusedRow(table, line, name, Problem(reason, "", concerns)))

    def reasons(self) -> list[str]:
        """Say why how much of it becomes no clip."""
        return [
            f"{count}: {reason} (first {refusal.table}: {refusal.detail})"
            for reason, count, refusal in count_reasons(self.refusals)
        ]


def add_paths(cue_rows: CueRows, videos: VideoFolder, columns: Mapping[str, str]) -> CueRows:
    """Return rows with what the paths of their videos say too; without any row, a row a video."""
    rows = cue_rows.rows or [
        (TableRow(videos.folder.name, number, {"video": path.as_posix()}), None)
        for number, path in enumerate(videos.all(pictures=True), start=1)
    ]
    header = cue_rows.header or ["video"]
    sources = find_sources(header, {n: name for n, name in columns.items() if name in header})
    with_paths = CueRows(refusals=cue_rows.refusals)
    for row, split in rows:
        values = row.values(sources)
        name = values.get("video") or values.get("clip_id", "")
        path, reason = videos.find(name)
        fields = videos.fields_of(path) if path else {}
        if not fields:
            reason = reason or "its path does not fit --pattern"
            with_paths.refuse(row.table, row.line, name, reason, str(path or name))
            continue
        cells = {**fields, "video": name, **row.cells}
        with_paths.rows.append((TableRow(row.table, row.line, cells), split))
    if not cue_rows.rows:
        reason = "a picture next to films; move it if it is a clip"
        for path in videos.beside_films:
            with_paths.refuse(videos.folder.name, 0, path.as_posix(), reason, path.as_posix())
    if not with_paths.rows:
        endings = ", ".join((*VIDEO_SUFFIXES, *SUFFIXES, *OTHER_SUFFIXES))
        reasons = with_paths.reasons() or [f"no file below {videos.folder} ends in {endings}"]
        raise UserError("\n  ".join(["no video can be taken", *reasons]))
    with_paths.header = list(with_paths.rows[0][0].cells)
    return with_paths


def clip_name(film: str, cue: Cue) -> str:
    """Return what the clip of a cue is called: as its file says, or the film and its start."""
    return cue.clip_id or name_cue(film, cue.start_s)


def list_captions(sources: Sequence[Path]) -> list[Path]:
    """Return the caption files among files and below folders, in order.

    Raises:
        UserError: If a source is not there.
    """
    paths: dict[Path, None] = {}
    for source in sources:
        if not source.exists():
            raise UserError(f"{source}: no such file or folder of captions")
        below = sorted(source.rglob("*")) if source.is_dir() else [source]
        paths.update(
            (path, None)
            for path in below
            if path == source
            or (
                path.suffix.lower() in READ_SUFFIXES
                and not (path.name.startswith(".") or name_problem(path))
            )
        )
    return list(paths)


def measure_film(path: Path, least_s: float = 0.0) -> float | None:
    """Return how many seconds a film has by its header; None: it does not say.

    If that is less than `least_s`, by its pictures (see `Video.find_end_s`).

    Raises:
        ClipError: If it cannot be opened.
    """
    from signloom.detection.video import Video  # PyAV loads slowly

    if path.is_dir():  # of pictures
        return None
    with Video(path) as video:
        return video.find_end_s(least_s)


_Cut = tuple[Clip, float, float]  # a part of a film, with the seconds and frame rate of that film
_SHORTEST_S = 0.1  # half of the clips last longer, or their times are no seconds
_UNITS = {"milliseconds": 1e-3, "microseconds": 1e-6, "steps of 100 ns": 1e-7}


def check_times(plan: CorpusPlan, sources: Mapping[str, FieldSource]) -> None:
    """Leave out the clips whose times lie beyond the end of their film.

    Args:
        plan: Its clips of films whose header says no length stay.
        sources: Where the times come from.

    Raises:
        UserError: If half of them do: they are in another unit, or times of other films.
    """
    cuts = _measure_films(plan)
    reason = "its times lie beyond the end of its film"
    beyond = [
        RefusedRow(row.table, row.line, clip.clip_id, Problem(reason, "", (_tell(clip, length_s),)))
        for clip, length_s, _ in cuts
        if not _fits(_edges(clip, length_s), length_s) and (row := plan.rows[clip.clip_id])
    ]
    if beyond and 2 * len(beyond) >= len(cuts):
        raise UserError(
            f"{beyond[0].table} line {beyond[0].line}: {reason} ({beyond[0].detail}), and so it is "
            f"with {len(beyond)} of {len(cuts)} clips. {_advise(cuts, sources)}"
        )
    plan.refusals += beyond
    lost = {row.clip_id for row in beyond}
    plan.clips = [clip for clip in plan.clips if clip.clip_id not in lost]
    lengths_s = [c.end_s - (c.start_s or 0.0) for c in plan.clips if c.end_s is not None]
    if lengths_s and statistics.median(lengths_s) < _SHORTEST_S:
        plan.notes.append(
            f"half of the clips last less than {_SHORTEST_S:g} s: are their times seconds?"
        )


def _measure_films(plan: CorpusPlan) -> list[_Cut]:
    """Return the clips that are parts of films whose length is known, with that length."""
    by_film = group_pairs(
        (clip.video, clip)
        for clip in plan.clips
        if clip.video and (clip.start_s, clip.end_s) != (None, None)
    )
    cuts: list[_Cut] = []
    films = tqdm(by_film.items(), "measuring", unit=" films", delay=1.0, file=progress_file())
    for path, clips in films:
        last_s = max(clip.end_s or clip.start_s or 0.0 for clip in clips)
        with contextlib.suppress(ClipError):  # which extraction tells
            length_s, fps = _measure(plan.videos.get(path, path), last_s)
            cuts += [(clip, length_s, fps) for clip in clips if length_s]
    return cuts


def _measure(source: Path | PictureFolder, last_s: float) -> tuple[float, float]:
    """Return seconds, 0 if unknown, and rate of a film whose clips end at `last_s`."""
    from signloom.detection.video import Video  # PyAV loads slowly

    if isinstance(source, PictureFolder):
        return source.length_s, source.fps
    with Video(source) as video:
        return video.find_end_s(last_s) or 0.0, video.fps


def _edges(clip: Clip, length_s: float, factor: float = 1.0) -> tuple[float, float]:
    """Return start and end of a clip if its times are multiplied."""
    return factor * (clip.start_s or 0.0), length_s if clip.end_s is None else factor * clip.end_s


def _fits(edges_s: tuple[float, float], length_s: float) -> bool:
    inside_s = min(edges_s[1], length_s) - edges_s[0]
    return inside_s > 0 and inside_s >= MIN_INSIDE * (edges_s[1] - edges_s[0])


def _tell(clip: Clip, length_s: float) -> str:
    end = "s on" if clip.end_s is None else f"to {clip.end_s:g} s"
    return f"{clip.start_s or 0:g} {end}, the film ends at {length_s:.2f} s"


def _advise(cuts: Sequence[_Cut], sources: Mapping[str, FieldSource]) -> str:
    """Say in which unit all times would fit, and the option for it."""
    columns = {
        edge: source.column
        for edge in ("start", "end")
        if (source := sources.get(f"{edge}_s")) and source.column
    }
    fps = statistics.median(fps for *_, fps in cuts)
    for name, factor in {f"frames ({fps:g} a second)": 1 / fps, **_UNITS}.items():
        if columns and _are_in_unit(cuts, factor):
            kind = {"frames": "frame", "milliseconds": "ms"}.get(name.split()[0])
            pairs = " ".join(f"{edge}_{kind}={column}" for edge, column in columns.items())
            rate = f" --fps {fps:g}" * (kind == "frame")
            how = f"--column {pairs}{rate}" if kind else "write them in seconds"
            return f"As {name} they would fit: {how}"
    names = ("start_s", "end_s", "duration_s", "start_frame", "end_frame")
    empty = " ".join(f"{name}=" for name in names if name in sources)
    return (
        "Are they times of longer films, of which these are parts? "
        f"--set {empty} takes each film whole"
    )


def _are_in_unit(cuts: Sequence[_Cut], factor: float) -> bool:
    """Return whether whole numbers times a factor are seconds that fit all films."""
    times = (time_s for clip, *_ in cuts for time_s in (clip.start_s, clip.end_s))
    edges = [(_edges(clip, length_s, factor), length_s) for clip, length_s, _ in cuts]
    median_s = statistics.median(end_s - start_s for (start_s, end_s), _ in edges)
    is_whole = all(time_s is None or time_s.is_integer() for time_s in times)
    return is_whole and median_s > _SHORTEST_S and all(_fits(*pair) for pair in edges)


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
        sources: Caption files and folders of them.
        tables: Tables of films with the split that each is given for, if any. Their cells are
            those of all cues of the film; films that they do not name are left out.
        columns: Fields and what the tables call them.
        choice: What to take of a file.

    Raises:
        UserError: If there is no caption file, or no cue that can be taken.
    """
    cue_rows = CueRows()
    film_cells, named = _read_tables(videos, tables, columns, cue_rows)
    paths = list_captions([*named, *([] if named and not sources else sources or [videos.folder])])
    if not paths:
        raise UserError(
            f"{videos.folder}: no captions there ({', '.join(READ_SUFFIXES)}); give --captions FILE"
        )
    files = _read_captions(videos, paths, named, film_cells, choice, cue_rows)
    for film in sorted({*videos.all(), *film_cells}):
        if tables and film not in film_cells:
            reason = "no row of the tables names it"
            cue_rows.refuse(film.name, 0, stem(film.name), reason, film.as_posix())
        else:
            _add_film(cue_rows, videos, film, files.get(film, []), film_cells, rules)
    if not cue_rows.rows:
        raise UserError("\n  ".join(["no cue can be taken", *cue_rows.reasons()]))
    cells = {name for row, _ in cue_rows.rows for name, value in row.cells.items() if value}
    table_columns = [name for table, _ in tables for name in table.header]
    cue_rows.header = list(dict.fromkeys([*(n for n in _CELLS if n in cells), *table_columns]))
    return cue_rows


FilmCells = Mapping[Path, tuple[Mapping[str, str], str | None]]
"""Cells and split of a film by the tables."""
_NOTHING: FilmCells = {}
_CODE = re.compile(r"([^\W\d_]+?)0*(\d+)")  # of a signer, as S015
_NO_FILM = "no video of its name is below --videos"
_NO_SIGNER = (
    "which of its films shows its signer is not known; give a --table of films with the columns "
    "video, captions and signer"
)


def _read_captions(
    videos: VideoFolder,
    paths: Sequence[Path],
    named: Mapping[Path, Sequence[Path]],
    film_cells: FilmCells,
    choice: Choice,
    cue_rows: CueRows,
) -> dict[Path, list[Captions]]:
    """Return the captions of each film, by the tables, their names, or who signs in it."""
    files: dict[Path, list[Captions]] = defaultdict(list)
    for path in paths:
        if choice.language and split_name(path)[1].partition("-")[0] not in ("", choice.language):
            continue
        try:
            captions = read_captions(path, choice)
        except UserError as error:
            cue_rows.refuse(path.name, 0, path.stem, "its captions cannot be read", str(error))
            continue
        captions, parts = deal_cues(videos, captions, named.get(path, ()), film_cells)
        cue_rows.signers |= captions.signers
        cue_rows.with_gloss_lines += [path.name] * captions.has_gloss_lines
        for film, cues in parts.items():
            if isinstance(film, Path):
                files[film].append(replace(captions, cues=cues))
                captions = replace(captions, broken=())  # said once
            elif len(parts) == 1:
                cue_rows.refuse(path.name, 0, path.stem, film, path.as_posix())
            else:
                for cue in cues:
                    cue_rows.refuse(path.name, 0, clip_name(path.stem, cue), film, cue.where)
    return files


def deal_cues(
    videos: VideoFolder,
    captions: Captions,
    named: Sequence[Path] = (),
    film_cells: FilmCells = _NOTHING,
) -> tuple[Captions, dict[Path | str, list[Cue]]]:
    """Return the cues of each film, and by the reason those that are of none.

    Who signs in a film is said by its row, or by its name. Named are the films by the tables.
    """
    films = {film.as_posix(): film for film in named} or _find_films(videos, captions)
    paths = [film for film in films.values() if film]
    codes = rank_codes({cue.signer for cue in captions.cues}, list(films))
    cues = [replace(cue, signer=codes.get(cue.signer, cue.signer)) for cue in captions.cues]
    captions = replace(captions, cues=cues, signers={**captions.signers, **codes})
    signers = {cue.signer for cue in cues}
    if not (paths and signers):
        return captions, {paths[0] if paths else _NO_FILM: []}
    films_by_signer = {who: _films_of_signer(who, films, film_cells) for who in signers}
    names = {stem(captions.path.stem), stem(split_name(captions.path)[0])}
    is_its_own = len(films) == 1 and (
        stem(paths[0].name) in names or not any(films_by_signer.values())
    )
    is_clear = is_its_own or (len(signers) == 1 and not named)
    parts: dict[Path | str, list[Cue]] = defaultdict(list)
    later_s = {PurePosixPath(name).name: seconds for name, seconds in captions.media.items()}
    for cue in captions.cues:
        for film in films_by_signer[cue.signer] or (paths[:1] if is_clear else [_NO_SIGNER]):
            by_s = 0.0 if isinstance(film, str) else later_s.get(film.name, 0.0)
            parts[film].append(cue.later(by_s))
    return captions, parts


def _films_of_signer(
    signer: str, films: Mapping[str, Path | None], film_cells: FilmCells
) -> list[Path | str]:
    """Return the films of a signer by the tables, or else by their names the first one.

    A film that lies nowhere is the reason, `_NO_FILM`.
    """
    paths: list[Path | str] = [
        path
        for path in films.values()
        if path and signer and film_cells.get(path, ({},))[0].get("signer") == signer
    ]
    return paths or [films[name] or _NO_FILM for name in films_of(signer, list(films))][:1]


def rank_codes(signers: Collection[str], films: Sequence[str]) -> dict[str, str]:
    """Return how films call signers that are numbered from 1 on, as tiers of Corpus NGT.

    S1 and S2 are S015 and S016, in the order of their numbers, where each film has one such code.
    """
    matches = {who: _CODE.fullmatch(who) for who in signers}
    numbers = {int(code[2]): who for who, code in matches.items() if code}
    letters = {code[1].casefold() for code in matches.values() if code}
    codes: dict[int, str] = {}
    for film in films:
        pieces = [_CODE.fullmatch(piece) for piece in re.split(r"[\W_]+", stem(film))]
        film_codes = [code for code in pieces if code and {code[1].casefold()} == letters]
        codes |= {int(film_codes[0][2]): film_codes[0][0]} if len(film_codes) == 1 else {}
    if not len(signers) == len(films) == len(codes) or {*numbers} != {*range(1, len(films) + 1)}:
        return {}
    return {numbers[place]: codes[code] for place, code in enumerate(sorted(codes), start=1)}


def films_of(signer: str, films: Sequence[str]) -> list[str]:
    """Return the films whose names say that a signer is in them, by what the others' lack.

    A is in 14_1a1.mp4 where there is a 14_1b1.mp4, and S1, or S001, in C01_S001_b.mpg where there
    is a C01_S002_b.mpg.
    """

    def fold(name: str) -> str:
        return re.sub(r"0+(?=\d)", "", stem(PurePosixPath(name).name).casefold())

    names = [fold(film) for film in films]
    pieces = [{*re.split(r"[\W_]+", name)} for name in names]
    shared = set.intersection(*pieces) if len(films) > 1 else set()
    ahead = count_shared(names) if len(films) > 1 else 0
    behind = count_shared([name[ahead:][::-1] for name in names]) if len(films) > 1 else 0
    return [
        film
        for film, name, parts in zip(films, names, pieces, strict=True)
        if fold(signer) in {*(parts - shared), name[ahead : len(name) - behind]} - {""}
    ]


def _read_tables(
    videos: VideoFolder,
    tables: Sequence[tuple[UserTable, str | None]],
    columns: Mapping[str, str],
    cue_rows: CueRows,
) -> tuple[FilmCells, dict[Path, list[Path]]]:
    """Return what tables say of films, and the caption files that they name with their films."""
    film_cells: dict[Path, tuple[Mapping[str, str], str | None]] = {}
    named: dict[Path, list[Path]] = defaultdict(list)
    for table, split in tables:
        table_columns = {field: name for field, name in columns.items() if name in table.header}
        sources = find_sources(table.header, table_columns)
        for row in table.rows:
            values = row.values(sources)
            name = values.get("video") or values.get("clip_id", "")
            film, reason = videos.find(name)
            if film is None:
                cue_rows.refuse(row.table, row.line, name, reason, name)
                continue
            more = {n: values[n] for n in ("signer", "language") if values.get(n)}
            captions, cells = row.cells.get(CAPTIONS), {**row.cells, **more}
            before, split_before = film_cells.setdefault(film, (cells, split))
            if {**before, CAPTIONS: captions} != {**cells, CAPTIONS: captions} or (
                split != split_before
            ):
                reason = "another row says something else of its film"
                cue_rows.refuse(row.table, row.line, name, reason, name)
                continue
            if captions:
                named[find_as_written(table.path.parent / captions)].append(film)
    return film_cells, named


def _find_films(videos: VideoFolder, captions: Captions) -> dict[str, Path | None]:
    """Return the names of the films of a caption file and where they lie, None if nowhere.

    That is the film of its name; else those that it links; else those whose names begin with it.
    """
    path, root = captions.path.resolve(), videos.folder.resolve()
    folder = path.relative_to(root).parent if path.is_relative_to(root) else Path()

    def find(name: str) -> Path | None:
        candidates = (folder / name, name, PurePosixPath(name).name)
        return next(
            filter(None, (videos.find(str(candidate))[0] for candidate in candidates)), None
        )

    film = find(path.stem) or find(split_name(path)[0])
    links = [name for name in captions.media if stem(name) != name]  # no sound files
    if film or links:
        return {film.as_posix(): film} if film else {name: find(name) for name in links}
    alike = [video for video in videos.all() if video.name.startswith(f"{path.stem}_")]
    return {video.as_posix(): video for video in alike if len(alike) > 1}


def _add_film(
    cue_rows: CueRows,
    videos: VideoFolder,
    film: Path,
    files: Sequence[Captions],
    film_cells: FilmCells,
    rules: CueRules,
) -> None:
    """Add a row for each cue of a film, which must have one caption file."""
    name = stem(film.name)
    if not videos.find(film.name)[0]:  # another folder has one of its name
        name = clip_id_of(film.with_name(name).as_posix())
    if len(files) != 1:
        reason = "several caption files are of its film" if files else "no captions are beside it"
        listed = [captions.path.name for captions in files] or [film.as_posix()]
        cue_rows.refuse(listed[0], 0, name, reason, *listed[1:] or listed)
        return
    table = files[0].path.name
    try:
        last_s = last_end_s(files[0].cues) + rules.shift_s
        duration_s = measure_film(videos.folder / film, last_s)
    except ClipError as error:
        cue_rows.refuse(table, 0, name, error.problem.reason, film.as_posix())
        return
    for where, problem in files[0].broken:
        cue_rows.refuse(table, 0, name, problem.reason, where, *problem.concerns)
    numbers = {cue.where: number for number, cue in enumerate(files[0].cues, start=1)}
    kept_cues, left_out = apply_rules(files[0].cues, rules, duration_s)
    for cue, problem in left_out:
        line, clip = numbers[cue.where], clip_name(name, cue)
        cue_rows.refuse(table, line, clip, problem.reason, cue.where, *problem.concerns)
    cells, split = film_cells.get(film, ({}, None))
    cells = {**videos.fields_of(film), **cells}
    # A participant may be called A in every film: who signs alone is who the table says.
    alone = cells.get("signer") if len({cue.signer for cue in files[0].cues}) == 1 else ""
    ends_s = None if duration_s is None else round(duration_s, 3)
    for cue in kept_cues:
        # A clip that has no times comes back without any.
        is_film = cue.clip_id and (cue.start_s, cue.end_s) == (0.0, ends_s)
        times = ("", "") if is_film else (f"{cue.start_s:.3f}", f"{cue.end_s:.3f}")
        cue_cells = {
            "clip_id": clip_name(name, cue),
            "video": film.as_posix(),
            "text": cue.text,
            "start_s": times[0],
            "end_s": times[1],
            "gloss": cue.gloss,
            "signer": alone or cue.signer or cells.get("signer", ""),
            "language": cue.language or cells.get("language", ""),
        }
        cue_rows.rows.append((TableRow(table, numbers[cue.where], {**cells, **cue_cells}), split))


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
        films[clip.video].append(
            Cue(
                start_s=clip.start_s or 0.0,
                end_s=end_s,
                text=clip.text,
                signer=clip.signer,
                language=clip.language or "",
                gloss=clip.gloss or "",
                clip_id=clip.clip_id,
                hypothesis=hypothesis,
                score=score,
            )
        )
    if not films:
        raise UserError("no clip has a video, so there is no film to write captions for")
    return films


def caption_files(film: Path, cues: Sequence[Cue]) -> dict[Path, list[Cue]]:
    """Return the caption files to write for a film, and their cues."""
    files = {film.with_suffix(".eaf"): list(cues), film.with_suffix(".vtt"): list(cues)}
    hypotheses = [replace(cue, text=cue.hypothesis) for cue in cues if cue.hypothesis]
    return {**files, film.with_suffix(".hypotheses.vtt"): hypotheses} if hypotheses else files
