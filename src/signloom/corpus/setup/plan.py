"""Rows of a user's table come in; the clips of a manifest, and the rows that make none, go out."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from signloom.config import UserError
from signloom.corpus.cells import id_problem, parse_segment
from signloom.corpus.manifest import SPLITS, Clip
from signloom.corpus.setup.columns import Source
from signloom.corpus.setup.splits import NAMES, deal_splits
from signloom.corpus.setup.user_tables import Row
from signloom.corpus.setup.videos import PLACE, VideoFolder, stem
from signloom.corpus.tables import field_problem

_NO_SPLIT = SPLITS[0]  # stands in until the clips are dealt


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """How rows become clips."""

    sources: Mapping[str, Source]
    """Where each field comes from."""
    split_names: Mapping[str, str]
    """What the table calls its splits, beyond the usual names, and train, dev or test."""
    fps: float | None
    """Frames a second of start_frame and end_frame."""
    unspaced: bool
    """Take the spaces out of the text, for scripts without them."""
    shares: tuple[float, float, float] | None
    """Deal the clips to train, dev and test in these shares; None: the table says the split."""
    by: str
    """What to deal: `signer` or `clip`."""
    text_only: bool
    """Make a text corpus: every clip needs glosses, none a video."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that becomes no clip."""

    table: str
    line: int
    clip_id: str
    reason: str  # alike for rows with the same fault, so that they can be counted
    detail: str = ""


@dataclass(slots=True)
class Plan:
    """What a corpus will hold."""

    clips: list[Clip] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    videos: dict[Path, Path] = field(default_factory=dict)  # in the corpus -> where it lies now
    renamed: int = 0  # clips whose id is not the table's name, since it could name no clip

    def shared_signers(self) -> dict[str, list[str]]:
        """Return the signers who are in several splits, and in which."""
        found: dict[str, set[str]] = defaultdict(set)
        for clip in self.clips:
            found[clip.signer].add(clip.split)
        order = SPLITS.index
        return {who: sorted(of, key=order) for who, of in sorted(found.items()) if len(of) > 1}


def plan_corpus(
    rows: Sequence[tuple[Row, str | None]],
    options: RowOptions,
    corpus: Path,
    videos: VideoFolder | None,
    imported: Collection[str] | None,
) -> Plan:
    """Decide what becomes of each row; nothing is written.

    Args:
        rows: Each with the split that its table was given for, if any.
        options: How rows become clips.
        corpus: The corpus folder.
        videos: Where to look for videos; None: not looked for.
        imported: Clips whose landmarks are in the corpus; None: it is a corpus of videos.

    Raises:
        UserError: If the clips cannot be dealt to the splits.
    """
    plan, first = Plan(), dict[str, Row]()
    for row, split in rows:
        name, values = _values(row, split, options)
        clip_id = clip_id_of(name)
        found = _problem(clip_id, values, first.get(clip_id), options)
        video = None
        if not found and imported is not None and clip_id not in imported:
            found = ("no landmarks of it were imported", name)
        elif not found and videos is not None:
            video, reason = videos.find(values.get("video") or name)
            found = (reason, values.get("video") or name) if video is None else None
        if found:
            plan.refusals.append(Refusal(row.table, row.line, clip_id or name, *found))
            continue
        first[clip_id] = row
        plan.renamed += clip_id != name
        path = _place(corpus, videos, video, plan) if videos and video else None
        start_s, end_s, _ = parse_segment(values)
        plan.clips.append(
            Clip(
                clip_id=clip_id, video=path, start_s=start_s, end_s=end_s,
                text=values["text"], signer=values["signer"], split=values["split"],
                gloss=values.get("gloss") or None, language=values.get("language") or None,
            )
        )  # fmt: skip
    if options.shares and plan.clips:
        signers = {clip.clip_id: clip.signer for clip in plan.clips}
        dealt = deal_splits(signers, options.shares, options.by)
        plan.clips = [replace(clip, split=dealt[clip.clip_id]) for clip in plan.clips]
    return plan


def clip_id_of(name: str) -> str:
    """Return an id that a manifest takes for a name that it may not: paths, odd signs, dashes."""
    name = unicodedata.normalize("NFC", name)
    legal = "".join(c if unicodedata.category(c)[0] in "LMN" or c in " ._-" else "_" for c in name)
    return f"_{legal}" if legal[:1] in ("-", ".") else legal


def count_reasons(refusals: Sequence[Refusal]) -> list[tuple[str, int, Refusal]]:
    """Return each reason with how many rows have it and the first of them, the most first."""
    counts = Counter(refusal.reason for refusal in refusals)
    first = {refusal.reason: refusal for refusal in reversed(refusals)}
    return [(reason, count, first[reason]) for reason, count in counts.most_common()]


def _values(row: Row, split: str | None, options: RowOptions) -> tuple[str, dict[str, str]]:
    """Return what a row calls its clip, and the fields of a manifest."""
    values = {
        name: " ".join(source.of(row.cells).split()) for name, source in options.sources.items()
    }
    values["signer"] = unicodedata.normalize("NFC", values.get("signer", ""))
    if options.unspaced:
        values["text"] = values["text"].replace(" ", "")
    if options.shares:
        values["split"] = _NO_SPLIT
    else:
        said = split or values.get("split", "")
        values["split"] = options.split_names.get(said) or NAMES.get(said.lower(), said)
    for edge in ("start", "end"):
        frame = values.pop(f"{edge}_frame", "")
        if frame and options.fps:
            values[f"{edge}_s"] = _seconds(frame, options.fps)
    name = values.get("clip_id") or stem(PurePosixPath(values.get("video", "")).name)
    return name, values


def _seconds(frame: str, fps: float) -> str:
    return f"{int(frame) / fps:.6f}" if frame.isdecimal() else f"frame {frame}"


def _problem(
    clip_id: str, values: Mapping[str, str], other: Row | None, options: RowOptions
) -> tuple[str, str] | None:
    """Say what is wrong with a row as (reason, detail)."""
    for name in ("text", "signer", "split", *(["gloss"] if options.text_only else [])):
        if not values.get(name):
            return f"{name} is empty", ""
    if not clip_id:
        return "clip_id is empty", ""
    if bad := id_problem(clip_id):
        return "its name can name no clip", bad
    if values["split"] not in SPLITS:
        return "its split is not known; --splits NAME=train says what it is", values["split"]
    for name, value in values.items():
        if bad := field_problem(value, ".tsv"):
            return f"{name} {bad}", value
    if problems := parse_segment(values)[2]:
        return "its start and end are no segment", problems[0]
    if other is not None:
        return "its clip_id stands in an earlier row", f"{other.table} line {other.line}"
    return None


def _place(corpus: Path, videos: VideoFolder, video: Path, plan: Plan) -> Path:
    """Return the path of a video in the corpus, and note where it has to come from."""
    folder, root = videos.folder.resolve(), corpus.resolve()
    if folder.is_relative_to(root):
        return corpus / folder.relative_to(root) / video
    target = corpus / PLACE / video
    plan.videos[target] = videos.folder / video
    return target


def check_plan(plan: Plan) -> None:
    """Refuse a plan that is no corpus.

    Raises:
        UserError: If no row can be taken, or a split that training needs has no clip.
    """
    if not plan.clips and not plan.refusals:
        raise UserError("the table has no row after its header")
    if not plan.clips:
        reason, count, one = count_reasons(plan.refusals)[0]
        raise UserError(
            f"no row can be taken; {count} of {len(plan.refusals)}: {reason} ({one.table} line "
            f"{one.line}: {one.detail or one.clip_id})"
        )
    there = {clip.split for clip in plan.clips}
    if missing := [name for name in ("train", "dev") if name not in there]:
        raise UserError(
            f"no clip is in the split {' or '.join(missing)}. Give tables for them (--table "
            "dev=FILE), name them (--splits NAME=dev), or have the clips dealt: --shares 80 10 10"
        )
