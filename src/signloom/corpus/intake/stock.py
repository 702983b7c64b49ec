"""The clips of a corpus come in; whether a new clip is one of them, and fits to them, goes out."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from signloom.corpus.cells import parse_segment
from signloom.corpus.intake.deliveries import Candidate
from signloom.corpus.intake.ledgers import Withdrawn
from signloom.corpus.intake.options import IngestOptions
from signloom.corpus.intake.texts import TextRules, learn_rules
from signloom.corpus.manifest import Clip
from signloom.corpus.setup.plan import clip_id_of
from signloom.corpus.video_hashes import HashedVideo

Content = tuple[str, float | None, float | None]
"""SHA-256 of a video, start_s, end_s: what a clip shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """What a corpus holds, ready to be asked.

    Attributes:
        contents: The clip that shows each content.
        videos: Where a video lies in the corpus, by hash.
        signers: Who signs in a video, by hash.
        splits: Of each signer.
        ids: Of all clips.
        rules: What its sentences are like.
        withdrawn: What must not come in again, by hash.
    """

    contents: Mapping[Content, Clip]
    videos: Mapping[str, Path]
    signers: Mapping[str, set[str]]
    splits: Mapping[str, set[str]]
    ids: set[str]
    rules: TextRules
    withdrawn: Mapping[str, Withdrawn]

    def holds(self, candidate: Candidate, content: Content) -> bool:
        """Return whether a candidate is a clip that came in before, by the same name."""
        clip = self.contents.get(content)
        return clip is not None and (
            clip.clip_id in (clip_id_of(candidate.name), other_id(candidate.name, content))
            and clip.text == candidate.values.get("text")
            and clip.signer == candidate.values.get("signer")
        )


def take_stock(
    clips: Sequence[Clip],
    hashes: Mapping[Path, HashedVideo],
    withdrawn: Mapping[str, Withdrawn],
) -> Stock:
    """Look through the clips of a corpus, at least one of them in train."""
    contents: dict[Content, Clip] = {}
    videos: dict[str, Path] = {}
    signers: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    for clip in clips:
        splits[clip.signer].add(clip.split)
        if clip.video is not None and clip.video in hashes:
            sha256 = hashes[clip.video].sha256
            contents.setdefault((sha256, clip.start_s, clip.end_s), clip)
            videos.setdefault(sha256, clip.video)
            signers[sha256].add(clip.signer)
    # The founders alone, if there are any: what comes in must not widen what may come in.
    train = [clip for clip in clips if clip.split == "train"]
    rules = learn_rules([c.text for c in [c for c in train if c.batch is None] or train])
    ids = {clip.clip_id for clip in clips}
    return Stock(contents, videos, signers, splits, ids, rules, withdrawn)


def content_of(candidate: Candidate, hashes: Mapping[Path, HashedVideo]) -> Content | None:
    """Return what a candidate shows; None if its video cannot be read."""
    video = hashes.get(candidate.video) if candidate.video else None
    if video is None:
        return None
    start_s, end_s, _ = parse_segment(candidate.values)
    return video.sha256, start_s, end_s


def other_id(name: str, content: Content) -> str:
    """Return the id of a clip whose name is another clip's: always the same for a content."""
    return f"{clip_id_of(name)}-{_digest(content)[:8]}"


def fingerprint(candidate: Candidate, content: Content | None, options: IngestOptions) -> str:
    """Return a hash of all that decides about a candidate but the corpus."""
    values = sorted(candidate.values.items())
    return _digest([candidate.where, content, values, candidate.faults, astuple(options)])[:16]


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
