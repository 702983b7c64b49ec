"""The corpus and the kept models come in; whether there is anything to do, and why, goes out.

A corpus is new if no model that was decided on has seen it. So a delivery that came in before a
crash is still new, and one whose model was refused is not.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from signloom.corpus.intake import has_news
from signloom.corpus.intake.survey import check_videos
from signloom.corpus.manifest import Clip, read_manifest
from signloom.retraining.options import Settings, Start
from signloom.retraining.store import FORGOTTEN, ModelStore

Kind = Literal["train", "finish", "nothing"]
ALSO = "also_of"  # mark of a version: keys of further corpora that give the same model
BY_HAND = "rows added by hand"  # clips of no delivery that came after the first model


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to be done tonight."""

    kind: Kind
    """`finish`: only what follows a decision, because the last night did not come that far."""
    reasons: tuple[str, ...]
    """Why, a phrase each."""
    version: int | None = None
    """That was decided on, if only what follows is to be done."""


def make_plan(settings: Settings, store: ModelStore, *, to_finish: int | None, force: bool) -> Plan:
    """Look for something to do; takes seconds.

    Parameters or code that changed are no reason: what a person edits by day, a person tries by
    day. `force` makes them one.

    Args:
        settings: The parameters.
        store: The kept models.
        to_finish: Version that came to the gate in a night that was cut then, if there is one.
        force: Train whatever is found.

    Raises:
        UserError: If there is no valid corpus, or one of glosses and sentences.
    """
    corpus, retrain = settings.corpus, settings.retrain
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_videos(corpus, clips)
    reasons = []
    if retrain.inbox.is_dir() and has_news(corpus, retrain.inbox, retrain.ingest):
        reasons.append(f"something new lies in {retrain.inbox}")
    reasons += _corpus_reasons(clips, store)
    if force:
        reasons.append("it was asked for (--force)")
    if reasons:
        return Plan(kind="train", reasons=tuple(reasons))
    if to_finish is not None:
        why = f"the night that decided on version {to_finish} was cut after it"
        return Plan(kind="finish", reasons=(why,), version=to_finish)
    return Plan(kind="nothing", reasons=())


def _corpus_reasons(clips: Sequence[Clip], store: ModelStore) -> list[str]:
    """Say why the corpus wants a model or a decision."""
    decided = decided_versions(store)
    key = corpus_key(clips)
    if any(key in _considered(store, version) for version in decided):
        return []
    waiting = store.challenger()
    if waiting is not None and waiting not in decided and key in _considered(store, waiting):
        return [f"version {waiting} is trained and was not decided on"]
    if not decided:
        return ["no model has been decided on yet"]
    new = {name: len(ids) for name, ids in new_clips(clips, store).items()}
    if new:
        return [f"{count} clips of {name} wait in the corpus" for name, count in new.items()]
    return ["clips left the corpus or were changed since the last model"]


def _considered(store: ModelStore, version: int) -> list[str]:
    """Return the keys of the corpora that a version is a model of."""
    also: list[str] = store.marks(version).get(ALSO, [])
    return [store.facts(version).get("corpus_key", ""), *also]


def decided_versions(store: ModelStore) -> list[int]:
    """Return the versions that a decision was made about, the oldest first."""
    return [version for version in store.versions() if store.decision(version) is not None]


def choose_parent(store: ModelStore, start: Start) -> int | None:
    """Return the version whose weights training starts from; None: from scratch.

    Weights that learnt from someone who is to be forgotten are not handed on.
    """
    champion = store.champion() if start == "champion" else None
    if champion is None or store.marks(champion).get(FORGOTTEN):
        return None
    return champion


def corpus_key(clips: Sequence[Clip]) -> str:
    """Return what identifies the clips that a model may learn from, whatever brought them."""
    rows = sorted(
        [clip.clip_id, clip.text, clip.signer, clip.split, str(clip.video), clip.start_s,
         clip.end_s, clip.gloss, clip.language]
        for clip in clips
    )  # fmt: skip
    return hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode()).hexdigest()


def new_clips(clips: Sequence[Clip], store: ModelStore) -> dict[str, list[str]]:
    """Return the clips that no decided model has seen, by delivery in the manifest's order.

    Before the first decision the clips of no delivery are the founding stock: not new.
    """
    decided = decided_versions(store)
    seen = {name for version in decided for name in seen_clips(store.facts(version))}
    found: dict[str, list[str]] = {}
    for clip in clips:
        if clip.clip_id not in seen and (decided or clip.batch):
            found.setdefault(clip.batch or BY_HAND, []).append(clip.clip_id)
    return found


def seen_clips(facts: dict[str, Any]) -> list[str]:
    """Return the ids of the clips that were in the corpus of a version, rejected ones too."""
    splits: dict[str, list[str]] = facts.get("clips", {})
    rejected: list[str] = facts.get("rejected", [])
    return [name for names in (*splits.values(), rejected) for name in names]
