"""Candidates that may come in come in; their clips, splits and places in the corpus go out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from signloom.corpus.cells import parse_segment
from signloom.corpus.intake.judgement import Judgement
from signloom.corpus.intake.options import IngestOptions
from signloom.corpus.intake.splits import deal_signers
from signloom.corpus.intake.stock import other_id
from signloom.corpus.intake.survey import Survey
from signloom.corpus.intake.workshop import Move, Workshop
from signloom.corpus.manifest import SPLITS, Clip, CorpusOptions, write_manifest
from signloom.corpus.setup.plan import clip_id_of
from signloom.corpus.setup.videos import PLACE
from signloom.reproducibility import flush_to_disk


def make_clips(
    found: Survey,
    judged: Judgement,
    corpus: CorpusOptions,
    options: IngestOptions,
    batch: str,
) -> tuple[list[Clip], dict[str, Path]]:
    """Return the new clips, and where each video that the corpus lacks belongs, by its hash."""
    splits = _find_splits(found, judged, corpus, options)
    taken = set(found.stock.ids)
    videos = dict(found.stock.videos)
    places: dict[str, Path] = {}
    clips = []
    for arrival, split in zip(judged.arrivals, splits, strict=True):
        values, sha256 = arrival.candidate.values, arrival.content[0]
        clip_id = clip_id_of(arrival.candidate.name)
        other = other_id(arrival.candidate.name, arrival.content)
        clip_id = other if clip_id in taken else clip_id
        taken.add(clip_id)
        if sha256 not in videos:
            suffix = arrival.candidate.video.suffix.lower() if arrival.candidate.video else ""
            place = corpus.folder / PLACE / batch / f"{clip_id}{suffix}"
            # Nobody's file is overwritten, not even one that no clip needs.
            place = place.with_name(f"{other}{suffix}") if place.exists() else place
            videos[sha256] = places[sha256] = place
        start_s, end_s, _ = parse_segment(values)
        clips.append(
            Clip(
                clip_id=clip_id, video=videos[sha256], start_s=start_s, end_s=end_s,
                text=values["text"], signer=values["signer"], split=split,
                gloss=values.get("gloss") or None, language=values.get("language") or None,
                batch=batch,
            )
        )  # fmt: skip
    return clips, places


def manifest_move(shop: Workshop, clips: Sequence[Clip]) -> Move:
    """Make a manifest of these clips ready; return its move."""
    corpus = shop.corpus
    path = shop.staged / "tables" / corpus.manifest
    path.parent.mkdir(parents=True, exist_ok=True)
    moved = [
        replace(clip, video=clip.video and path.parent / clip.video.relative_to(corpus.folder))
        for clip in clips
    ]
    write_manifest(path, moved)
    flush_to_disk(path)
    return path, corpus.path


def _find_splits(
    found: Survey, judged: Judgement, corpus: CorpusOptions, options: IngestOptions
) -> list[str]:
    """Return the split of each arrival: as before, as asked, else as dealt."""
    if not corpus.signer_disjoint:
        return [one.candidate.values.get("split") or SPLITS[0] for one in judged.arrivals]
    signers = [one.candidate.values["signer"] for one in judged.arrivals]
    settled = {
        signer: next(iter(found.stock.splits.get(signer) or judged.said[signer]), "")
        for signer in signers
    }
    counts = Counter(clip.split for clip in found.clips)
    counts.update(settled[signer] for signer in signers if settled[signer])
    new = Counter(signer for signer in signers if not settled[signer])
    dealt = deal_signers(new, counts, options.shares)
    return [settled[signer] or dealt[signer] for signer in signers]
