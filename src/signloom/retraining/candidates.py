"""A stored version and the landmarks of clips come in, what its models say goes out."""

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import safetensors
import torch

from signloom.checkpoint import FORMAT_VERSION, SPEC, WEIGHTS
from signloom.config import UserError, check_version, parse_options, read_json
from signloom.corpus.fingerprints import check_same_make
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import shards_metadata
from signloom.decoding import DecodingOptions
from signloom.evaluation.seeds import seed_folders
from signloom.evaluation.systems import plain_texts
from signloom.models.precision import Precision
from signloom.reproducibility import write_atomically
from signloom.retraining.gate import Said
from signloom.retraining.store import ModelStore
from signloom.translator import Translator

TRANSLATIONS = "translations"  # in a version's folder: what it said, by hash of what it saw
PACE_CLIPS, PACE_ROUNDS = 16, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A version as it would translate.

    Attributes:
        version: Its number.
        folder: Of the version.
        checkpoints: One a seed; the first is the one that translates for people.
        decoding: The search that its evaluation chose on dev.
        precision: Of the weights, likewise.
    """

    version: int
    folder: Path
    checkpoints: tuple[Path, ...]
    decoding: DecodingOptions
    precision: Precision

    @property
    def parameters(self) -> int:
        """Numbers in the weights of one model."""
        with safetensors.safe_open(self.checkpoints[0] / WEIGHTS, "pt") as weights:
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118


def read_candidate(store: ModelStore, version: int) -> Candidate:
    """Return a version of the store.

    Raises:
        UserError: If it is not there or its evaluation is damaged.
    """
    store.check_known(version)
    checkpoint, search = store.checkpoint(version), store.search(version)
    where = f"{store.evaluation(version)}: decoding"
    return Candidate(
        version=version,
        folder=store.folder(version),
        checkpoints=(checkpoint, *seed_folders(checkpoint)),
        decoding=parse_options(search["decoding"], DecodingOptions, where=where),
        precision=cast("Precision", search["precision"]),
    )


def check_readable(store: ModelStore, shards: Path) -> None:
    """Refuse landmarks that the champion was not made for, before a challenger is trained.

    Raises:
        UserError: If champion and challenger could not be compared on them.
    """
    champion = store.champion()
    if champion is None:
        return
    go_on = "`dvc repro evaluate`, `signloom champion add`, `signloom champion promote N --force`"
    mend = (
        f"version {champion}, the champion, cannot be compared with anything on them. Set the "
        "options of `extract` back to those it was trained with; or go on with the new ones: "
        f"{go_on}"
    )
    path = store.checkpoint(champion) / SPEC
    content, made = read_json(path, mend=mend), shards_metadata(shards)
    old = f"go back to the Signloom that made the champion, or go on without it: {go_on}"
    check_version(path, content, FORMAT_VERSION, mend=old)
    check_same_make(json.loads(made.extractor), content["extractor"], mend=mend)
    if json.loads(made.layout.to_json()) != content["layout"]:
        name = content["layout"].get("name")
        raise UserError(
            f"these landmarks have layout {made.layout.name}, the champion reads {name}, or "
            f"another version of it; {mend}"
        )


def say(
    candidate: Candidate, sequences: Mapping[str, LandmarkSequence], *, keep: bool
) -> dict[str, list[str]]:
    """Translate clips with the model of every seed, each as its version searches.

    Args:
        candidate: Who translates.
        sequences: Clip id to landmarks.
        keep: Write the sentences into the version's folder, and read them there if the same
            models have seen the same landmarks before.

    Returns:
        Clip id to the sentence of each seed.
    """
    if not sequences:
        return {}
    path = candidate.folder / TRANSLATIONS / f"{_hash_task(candidate, sequences)}.json"
    if keep and path.is_file():
        found: dict[str, list[str]] = read_json(path, mend=f"remove {path}")
        return found
    clips = list(sequences.values())
    by_seed = []
    for folder in candidate.checkpoints:
        translator = Translator.load(folder, precision=candidate.precision)
        by_seed.append(plain_texts(translator.translate(clips, candidate.decoding)))
    texts = {clip: [said[row] for said in by_seed] for row, clip in enumerate(sequences)}
    if keep:
        write_atomically(path, json.dumps(texts, ensure_ascii=False, indent=0) + "\n")
    return texts


def describe(candidate: Candidate, texts: Mapping[str, Sequence[str]]) -> Said:
    """Return what a candidate said with what it is, for the rules."""
    return Said(
        version=candidate.version,
        texts=texts,
        decoding={**asdict(candidate.decoding), "precision": candidate.precision},
        parameters=candidate.parameters,
    )


def measure_cpu_s(
    old: Candidate, new: Candidate, sequences: Mapping[str, LandmarkSequence]
) -> tuple[float, float]:
    """Return the CPU time in which the served models of both translate the same clips, seconds.

    They take turns, and of some rounds the one counts that is worst for `new`: models of one size
    differ by a tenth and more from round to round, and chance must not make one the cheaper.
    """
    clips = list(sequences.values())[:PACE_CLIPS]
    device = torch.device("cpu")
    pair = [
        (Translator.load(one.checkpoints[0], device, precision=one.precision), one.decoding)
        for one in (old, new)
    ]
    rounds = []
    for _ in range(PACE_ROUNDS):
        marks = [time.process_time()]
        for translator, decoding in pair:
            translator.translate(clips, decoding)
            marks.append(time.process_time())
        rounds.append((marks[1] - marks[0], marks[2] - marks[1]))
    return max(rounds, key=lambda seconds: seconds[1] / seconds[0])


def _hash_task(candidate: Candidate, sequences: Mapping[str, LandmarkSequence]) -> str:
    """Return what names a version's search over these landmarks; its weights never change."""
    search = {**asdict(candidate.decoding), "precision": candidate.precision}
    digest = hashlib.sha256(json.dumps(search, sort_keys=True).encode())
    for clip, sequence in sequences.items():
        size = (sequence.points.shape, sequence.fps, sequence.width, sequence.height)
        digest.update(f"\0{clip}\0{size}".encode())
        digest.update(sequence.points.tobytes() + sequence.present.tobytes())
    return digest.hexdigest()[:32]
