"""The manifest, one row a clip: a TSV, CSV or Parquet table comes in, checked `Clip`s go out.

The format is described in docs/data.md. Everything is checked before anything runs, and all the
problems of a file come in one error, each with its line.
"""

import difflib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.cells import VideoPaths, id_problem, parse_segment
from signloom.corpus.tables import SUFFIXES, Problem, Table, field_problem, read_table, write_table

SPLITS = ("train", "dev", "test")
REQUIRED = ("clip_id", "text", "signer", "split")
OF_VIDEOS = ("video", "start_s", "end_s")  # not of a corpus of imported landmarks
OPTIONAL = (*OF_VIDEOS, "gloss", "language", "batch")
IMPORTED_SHARDS = Path("landmarks", "shards")  # in the corpus folder; see `signloom import`

_MAX_LISTED = 50  # problems in one message

_Numbered = tuple[int, "Clip"]  # line (or row) number, clip


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusOptions:
    """Section `corpus` of params.yaml."""

    folder: Path
    """Folder of the manifest and its videos, from the project's root; DVC watches all of it."""
    manifest: str
    """File name of the manifest in it; .tsv, .csv or .parquet."""
    signer_disjoint: bool
    """Refuse a signer in two splits. False only for corpora whose official splits share signers."""

    def __post_init__(self) -> None:
        """Refuse a table of unknown kind, and one that lies elsewhere."""
        name = Path(self.manifest)
        if name.suffix not in SUFFIXES or name.name != self.manifest:
            raise ValueError(
                f"manifest: found {self.manifest!r}, expected the name of a "
                f"{' or '.join(SUFFIXES)} file in corpus.folder"
            )

    @property
    def path(self) -> Path:
        """The manifest."""
        return self.folder / self.manifest

    @property
    def imported_shards(self) -> Path:
        """The landmarks of a corpus without videos."""
        return self.folder / IMPORTED_SHARDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """One signed utterance, its sentence and its place in the corpus."""

    clip_id: str
    # Joined with the manifest's folder; None: its landmarks are imported, or there are none.
    video: Path | None
    text: str
    signer: str
    split: str  # train, dev or test
    start_s: float | None = None  # None: from the first frame
    end_s: float | None = None  # None: to the last frame
    gloss: str | None = None  # signs separated by spaces
    language: str | None = None  # of the text
    batch: str | None = None  # delivery that brought it, see `signloom ingest`; None: a founder


def read_manifest(path: Path, signer_disjoint: bool = True) -> list[Clip]:
    """Read and check a manifest.

    Args:
        path: A .tsv, .csv or .parquet table.
        signer_disjoint: Refuse a signer who appears in two splits.

    Returns:
        The clips in the order of the file.

    Raises:
        UserError: Everything that is wrong with the file, a line for each problem.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such manifest, so there is no corpus. Run `make demo` to draw the demo "
            "corpus, or make one of your own videos with `signloom init` and name it in "
            "params.yaml (corpus.folder, corpus.manifest); docs/data.md has the format."
        )
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: a manifest ends in {' or '.join(SUFFIXES)}")
    table = read_table(path)
    problems = [*table.problems, *_header_problems(table, path)]
    clips: list[_Numbered] = []
    if set(REQUIRED) <= set(table.header):
        clips = _parse_rows(table, path, problems)
        problems += _duplicate_problems(clips, table.unit)
        if signer_disjoint:
            problems += _signer_problems(clips, table.unit)
        problems += _empty_problems(table, clips)
    if problems:
        raise UserError(_message(path, table.unit, problems))
    return [clip for _, clip in clips]


def check_splits(path: Path, clips: Sequence[Clip]) -> None:
    """Refuse a corpus that cannot be trained on, before days of extraction.

    Raises:
        UserError: If a split that training needs has no clip.
    """
    splits = {clip.split for clip in clips}
    if missing := [split for split in ("train", "dev") if split not in splits]:
        raise UserError(
            f"{path}: no clip is in the split {' or '.join(missing)}; train is what the model "
            "learns from, dev decides when training stops. Give some signers that split."
        )


def is_text_corpus(corpus: CorpusOptions, clips: Sequence[Clip]) -> bool:
    """Tell whether a corpus has glosses and sentences only: neither videos nor landmarks."""
    return clips[0].video is None and not corpus.imported_shards.is_dir()


def write_manifest(path: Path, clips: Sequence[Clip]) -> None:
    """Write a manifest, atomically; its kind follows from the suffix.

    Args:
        path: The .tsv, .csv or .parquet file; videos are written relative to its folder.
        clips: At least one; an optional column is written if any clip has a value for it.

    Raises:
        ValueError: If a field would not be read back as it was.
    """
    names = [
        field.name
        for field in fields(Clip)
        if field.name in REQUIRED or any(getattr(clip, field.name) is not None for clip in clips)
    ]
    rows: list[dict[str, object]] = []
    for clip in clips:
        row = {name: getattr(clip, name) for name in names}
        if clip.video:
            row["video"] = clip.video.relative_to(path.parent).as_posix()
        rows.append(row)
    write_table(path, rows)


def _header_problems(table: Table, path: Path) -> list[Problem]:
    problems = []
    for name in dict.fromkeys(table.header):
        if table.header.count(name) > 1:
            problems.append(f"column {name!r} stands there {table.header.count(name)} times")
        if name not in REQUIRED + OPTIONAL:
            near = difflib.get_close_matches(name.lower(), REQUIRED + OPTIONAL, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "remove it"
            problems.append(f"unknown column {name!r}; {hint}")
    missing = [name for name in REQUIRED if name not in table.header]
    if missing:
        problems.append(f"missing column {', '.join(missing)}; found {', '.join(table.header)}")
    problems += _kind_problems(table.header, path.parent / IMPORTED_SHARDS)
    return [(table.header_line, problem) for problem in problems]


def _kind_problems(header: Sequence[str], imported: Path) -> list[str]:
    """Say where a corpus is not one of videos, of imported landmarks or of text, or several."""
    is_imported = imported.is_dir()
    if "video" in header:
        hint = "a corpus has one or the other: remove the column or the folder"
        found = f"column 'video' stands there, and imported landmarks in {imported}; {hint}"
        return [found] if is_imported else []
    if not is_imported and "gloss" not in header:
        hint = "it names the videos; landmarks without videos are brought in by `signloom import`"
        return [f"missing column video; {hint}, and a text corpus has a column gloss instead"]
    why = "the landmarks are imported" if is_imported else "there is no column video"
    extra = [name for name in OF_VIDEOS if name in header]
    return [f"column {name!r} cuts videos, but {why}" for name in extra]


def _parse_rows(table: Table, path: Path, problems: list[Problem]) -> list[_Numbered]:
    """Return the clips of all rows that have an id, a signer and a split; note what is wrong."""
    videos = VideoPaths(path.parent)
    # What every row needs: a text corpus has nothing but glosses to translate.
    source = "video" if "video" in table.header else "gloss"
    is_imported = (path.parent / IMPORTED_SHARDS).is_dir()
    needed = [*REQUIRED, *([] if is_imported else [source])]
    clips = []
    for line, cells in table.rows:
        if len(cells) != len(table.header):
            problems.append((line, f"{len(cells)} fields, but {len(table.header)} columns"))
            continue
        row = dict(zip(table.header, cells, strict=True))
        for name in ("clip_id", "signer"):
            # One name may be typed in two ways; two people in two splits it must not become.
            row[name] = unicodedata.normalize("NFC", row[name])
        start_s, end_s, found = parse_segment(row)
        found += [f"{name} is empty" for name in needed if name in row and not row[name]]
        found += [f"{k} {bad}" for k, v in row.items() if (bad := field_problem(v, path.suffix))]
        if row["clip_id"] and (bad := id_problem(row["clip_id"])):
            found.append(f"clip_id {row['clip_id']!r} {bad}")
        if row["split"] and row["split"] not in SPLITS:
            found.append(f"split {row['split']!r} is not {', '.join(SPLITS[:2])} or {SPLITS[2]}")
        video = row.get("video")
        if video and (bad := videos.problem(video)):
            found.append(f"video {video!r} {bad}")
        problems += [(line, problem) for problem in found]
        clip = Clip(
            **{name: row[name] for name in ("clip_id", "text", "signer", "split")},
            video=path.parent / video if video else None,
            start_s=start_s,
            end_s=end_s,
            gloss=row.get("gloss") or None,
            language=row.get("language") or None,
            batch=row.get("batch") or None,
        )
        clips.append((line, clip))
    return clips


def _duplicate_problems(clips: Iterable[_Numbered], unit: str) -> list[Problem]:
    first: dict[str, int] = {}
    problems = []
    for line, clip in clips:
        if clip.clip_id and first.setdefault(clip.clip_id, line) != line:
            where = f"{unit} {first[clip.clip_id]}"
            problems.append((line, f"clip_id {clip.clip_id!r} stands in {where} already"))
    return problems


def _signer_problems(clips: Iterable[_Numbered], unit: str) -> list[Problem]:
    lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for line, clip in clips:
        if clip.signer and clip.split in SPLITS:
            lines[clip.signer][clip.split].append(line)
    problems = []
    for signer, splits in lines.items():
        if len(splits) > 1:
            parts = [f"{split} ({unit}s {_some(numbers)})" for split, numbers in splits.items()]
            text = f"signer {signer!r} is in {' and '.join(parts)}; give each signer one split"
            hint = ", or set corpus.signer_disjoint to false if the splits are the corpus's own"
            problems.append((min(min(numbers) for numbers in splits.values()), text + hint))
    return problems


def _empty_problems(table: Table, clips: list[_Numbered]) -> list[Problem]:
    if not table.rows:
        return [(table.header_line, "no clip follows the header")]
    if len(clips) < len(table.rows):
        return []  # a row that could not be read may be the one
    if clips and all(clip.split in SPLITS[1:] for _, clip in clips):
        return [(table.header_line, "no clip is in the split train, so nothing can be learned")]
    return []


def _some(numbers: list[int], most: int = 5) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


def _message(path: Path, unit: str, problems: list[Problem]) -> str:
    ordered = sorted(problems, key=lambda problem: problem[0])  # stable within a line
    count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    lines = [f"{path}: {count}; the format is in docs/data.md"]
    for number, text in ordered[:_MAX_LISTED]:
        lines.append(f"  {path.name} {f'{unit} {number}' if number else 'header'}: {text}")
    if len(ordered) > _MAX_LISTED:
        lines.append(f"  ... and {len(ordered) - _MAX_LISTED} more")
    return "\n".join(lines)
