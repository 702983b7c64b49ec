"""Commands that make a corpus of others: `signloom merge` and `signloom compose`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pydantic

from signloom.config import Count, Natural, load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip, CorpusOptions, has_ended, read_manifest
from signloom.corpus.shards import read_clip_frames, read_shards
from signloom.errors import Problem, UserError, count_of
from signloom.paths import CHECKPOINT, SHARDS
from signloom_tools.cli.init import (
    InitOptions,
    TableOptions,
    WritingOptions,
    check_apart,
    finish_corpus,
    make_plan,
)
from signloom_tools.command_options import argument, group, option
from signloom_tools.importing.compose import draw_takes, stock_takes, write_composed
from signloom_tools.importing.merge import find_shared, merge_landmarks, plan_merge, read_parts
from signloom_tools.importing.new_corpus import MANIFEST, RefusedRow, check_free, unfinished
from signloom_tools.importing.recombine import recombine, write_recombined
from signloom_tools.importing.user_tables import how_to_use
from signloom_tools.presets import adopt
from signloom_tools.versions import NamedModel

_Gap = Annotated[float, pydantic.Field(ge=0, le=60)]  # seconds; longer ones fill the memory


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """Make CORPUS of several corpora; its manifest names for each row which it comes from.

    Scores are broken down by it. Videos are linked; of landmarks those are taken that all have.
    docs/data.md has an example.
    """

    corpus: Path = argument("the folder to make", "CORPUS")
    parts: Sequence[str] = argument("a corpus folder, or its manifest", "[NAME=]FROM")
    landmarks: dict[str, str] = option(
        "landmarks to take in place of the videos of a corpus, where others have no videos",
        {},
        metavar="NAME=SHARDS",
    )
    writing: WritingOptions = group(WritingOptions)


def run_merge(options: MergeOptions) -> None:
    """Plan, report, and unless it is a dry run, write."""
    parts = read_parts(options.parts, options.landmarks)
    for part in parts:
        print(f"{part.name}: {count_of(len(part.clips), 'clip')}, {part.kind}")
    shards = [part.shards for part in parts if part.shards]
    check_apart(options.corpus, [*(part.path for part in parts), *shards])
    if not shards and (corpus_shards := options.corpus / IMPORTED_SHARDS).is_dir():
        raise UserError(
            f"{corpus_shards}: found landmarks of another corpus, and these corpora have "
            f"{parts[0].kind}; name another CORPUS, or remove them"
        )
    plan, write = plan_merge(parts, options.corpus), None
    if shards:
        shared, lines = find_shared(parts)
        print("".join(f"  {line}\n" for line in lines), end="")
        write = partial(merge_landmarks, parts, plan, options.corpus, shared)
    finish_corpus(
        options.corpus, options.writing, plan, write, text_only=parts[0].kind == "glosses"
    )


@dataclass(frozen=True, kw_only=True)
class ComposeOptions:
    """Join takes of single signs to the sentences of a table, or recombine clips of this project.

    Takes of train make sentences of train, and so on. CORPUS then holds a manifest and landmarks,
    as after `signloom import`. docs/data.md has examples.
    """

    corpus: Path = argument("the folder to make", "CORPUS")
    takes: Path | None = option(
        "a corpus whose clips are one sign each: its gloss, or else its text",
        None,
        metavar="FOLDER",
    )
    landmarks: Path | None = option(
        "of the takes, where they are videos: data/landmarks/shards of their extraction",
        None,
        metavar="SHARDS",
    )
    recombine: Count | None = option(
        "instead of --takes: the clips of this project and N new train clips, made of the pieces "
        "of those with glosses as the model of data/checkpoint finds them",
        None,
        metavar="N",
    )
    each: Count = option("clips of each sentence", 1)
    gap: _Gap = option("seconds between two signs", 0.25)
    seed: Natural = option("of the draws", 1)
    tables: TableOptions = group(TableOptions, "tables")
    writing: WritingOptions = group(
        WritingOptions, "writing", only=("force", "dry_run", "use", "params")
    )


def run_compose(options: ComposeOptions) -> None:
    """Plan, report, and unless it is a dry run, write."""
    if options.recombine is not None and options.takes is None:
        _recombine(options, options.recombine)
        return
    if options.takes is None or options.recombine is not None:
        raise UserError("give either --takes (signs to join) or --recombine (clips to recombine)")
    shards = options.landmarks or options.takes / IMPORTED_SHARDS
    if not shards.is_dir():
        raise UserError(
            f"{shards}: no landmarks of the takes there; extract them (`dvc repro extract`) and "
            "give --landmarks data/landmarks/shards, or bring them in by `signloom import`"
        )
    check_apart(options.corpus, [options.takes / MANIFEST, shards, *options.tables.files])
    clips = read_manifest(options.takes / MANIFEST, signer_disjoint=False)
    stock = stock_takes(clips, read_clip_frames(shards))
    sign_stocks = [signs for signers in stock.values() for signs in signers.values()]
    takes = sum(len(ids) for signs in sign_stocks for ids in signs.values())
    print(
        f"{options.takes}: {takes} takes of {len(set().union(*sign_stocks))} signs in {len(clips)} "
        "clips (a take has one gloss, landmarks and consent)"
    )
    tables = replace(options.tables, set={**options.tables.set, "signer": "of the takes"})
    if tables.by == "auto":
        tables = replace(tables, by="clip")
    request = InitOptions(corpus=options.corpus, tables=tables, text_only=True, of_takes=True)
    plan = make_plan(request)
    generator = np.random.default_rng(options.seed)
    composed, missing = draw_takes(plan.clips, stock, generator, options.each)
    for clip in plan.clips:
        if lacking := missing.get(clip.clip_id):
            problem = Problem("a sign has no take in its split", "", (clip.split, *lacking))
            row = plan.rows[clip.clip_id]
            plan.refusals.append(RefusedRow(row.table, row.line, clip.clip_id, problem))
    until = {clip.clip_id: clip.consent_until for clip in clips}
    plan.clips = [
        replace(
            clip,
            consent_until=min(
                filter(None, (clip.consent_until, *map(until.get, of))), default=None
            ),
        )
        for clip, of in composed
    ]
    used = len({take for _, of in composed for take in of})
    print(
        f"{used} takes are used; sentences by signers in turn, since nobody has all their "
        f"signs: {sum(clip.signer.endswith('-several') for clip in plan.clips)}"
    )
    write = partial(write_composed, options.corpus, composed, shards, gap_s=options.gap)
    finish_corpus(options.corpus, options.writing, plan, write)


def _recombine(options: ComposeOptions, count: int) -> None:
    """Write the project's clips and new train clips of their pieces, as a corpus of landmarks."""
    if options.tables.table:
        raise UserError("--table goes with --takes: the sentences to recombine are the project's")
    corpus = load_section(options.writing.params, "corpus", CorpusOptions)
    check_apart(options.corpus, [corpus.path, SHARDS])
    if not (options.writing.force or options.writing.dry_run):
        check_free(options.corpus, landmarks=True)
    frames = read_clip_frames(SHARDS)
    clips = [
        replace(clip, video=None, start_s=None, end_s=None, box=None)
        for clip in read_manifest(corpus.path, corpus.signer_disjoint)
        if clip.clip_id in frames and not has_ended(clip.consent_until)
    ]
    glossed = [clip for clip in clips if clip.split == "train" and clip.gloss]
    if not glossed:
        raise UserError(
            f"{corpus.path}: no train clip has a gloss and landmarks, so there are no "
            "pieces; fill the column gloss, or use --takes"
        )
    sequences = read_shards(SHARDS, [clip.clip_id for clip in glossed])
    spans = _find_glosses(glossed, sequences)
    used = [clip for clip in glossed if clip.clip_id in spans]
    print(
        f"{corpus.path}: {len(clips)} clips with landmarks; of {len(glossed)} train clips with "
        f"glosses {len(used)} are cut ({len(glossed) - len(used)} are too short for their glosses "
        "or have one that the model does not know)"
    )
    if not used:
        raise UserError("no clip can be cut, so nothing can be recombined")
    generator = np.random.default_rng(options.seed)
    new_clips, landmarks = recombine(used, spans, sequences, count, generator)
    new = {clip.text for clip in new_clips} - {clip.text for clip in clips}
    print(
        f"{len(new_clips)} new train clips, {len(new)} sentences among them that the corpus lacks"
    )
    if options.writing.dry_run:
        print("nothing was written")
        return
    with unfinished(options.corpus):
        write_recombined(options.corpus, clips, new_clips, landmarks, SHARDS)
        if options.writing.use:
            named = {"folder": options.corpus.as_posix(), "manifest": MANIFEST}
            adopt(options.writing.params, {"corpus": named})
    print(f"wrote {options.corpus / MANIFEST}. {how_to_use(options.corpus / MANIFEST)}")


def _find_glosses(
    clips: Sequence[Clip], sequences: Mapping[str, LandmarkSequence]
) -> "dict[str, Sequence[tuple[float, float]]]":
    """Return the frames of each gloss, by clip, as the model of data/checkpoint finds them."""
    from rapidfuzz.distance import Levenshtein

    from signloom.translation.recognised_signs import align_glosses, read_signs
    from signloom.translation.translator import Translator

    glosses = [(clip.gloss or "").split() for clip in clips]
    landmarks = [sequences[clip.clip_id] for clip in clips]
    # Seeds need not see a sign at the same moment.
    translator = Translator.load(NamedModel(CHECKPOINT).checkpoint).first_seed
    aligned = align_glosses(translator, landmarks, glosses)
    read = [[sign.gloss for sign in signs] for signs in read_signs(translator, landmarks)]
    wrong = sum(map(Levenshtein.distance, read, glosses)) / sum(map(len, glosses))
    print(f"the model reads {wrong:.0%} of the glosses of these {len(clips)} train clips wrong")
    if wrong > 0.25:  # orders: cut at 34 % recombining cost 10 points, at 17 % it brought 14
        print(
            "so it hardly knows where a gloss is, and new clips may cost more than they bring: "
            "train longer first (docs/data.md)"
        )
    return {c.clip_id: span for c, span in zip(clips, aligned, strict=True) if span is not None}
