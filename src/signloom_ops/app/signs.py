"""Recordings of the app as signs that can be looked up the minute they were made."""

import contextlib
import logging
from pathlib import Path

import numpy as np

from signloom.checkpoint import WEIGHTS
from signloom.config import checked_dataclass, read_record
from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import ClipError, UserError
from signloom.extraction.extract import extract_video, options_of_fingerprint
from signloom.features.features import FloatArray
from signloom.files import hash_file, to_sealed, write_file
from signloom.translation.lookup import SignIndex
from signloom.translation.translator import Translator
from signloom_ops.app.takes import Take, TakeStore
from signloom_tools.translate.segmentation import cut, segment_by_rest

ENCODING = "encoding.json"  # in the folder of a recording's film

logger = logging.getLogger(__name__)


@checked_dataclass
class _Encoding:
    weights: str  # SHA-256 of those of the model that made it
    values: list[float]
    hands: int  # how many of them, at the end, are of hands
    is_joint: bool = False  # whether they are of the models of all seeds


def encode_film(
    film: Path, translator: Translator, weights: str, sequence: LandmarkSequence | None = None
) -> FloatArray:
    """Return the encoding of a recording, shape (D + H,), which is kept in its folder.

    Args:
        film: In the folder of its recording.
        weights: Their SHA-256.
        sequence: The landmarks of what is signed, if they were found already.

    Raises:
        ClipError: If the film cannot be read.
    """
    path, hands = film.with_name(ENCODING), translator.hand_width
    made_by = {"weights": weights, "hands": hands, "is_joint": translator.is_joint}
    with contextlib.suppress(UserError):  # not there, torn: it is made again
        cached = read_record(path, _Encoding, hint="")
        if {name: getattr(cached, name) for name in made_by} == made_by:
            return np.array(cached.values, np.float32)
    if sequence is None:
        source = translator.source.landmarks()
        detector = options_of_fingerprint(source.extractor)
        sequence = extract_video(film, detector, threads=2)
        if spans := segment_by_rest(sequence):  # training clips have no rests either
            sequence = cut(sequence, (spans[0][0], spans[-1][1]))
    encoding = translator.encode_signs([sequence])[0]
    write_file(path, to_sealed({**made_by, "values": encoding.tolist()}))
    return encoding


def open_recordings(translator: Translator, checkpoint: Path, index: SignIndex) -> SignIndex:
    """Return the app's recordings for `signloom lookup`, which finds this by its entry point."""
    return index_recordings(TakeStore(), index, translator, hash_file(checkpoint / WEIGHTS))


def index_recordings(
    takes: TakeStore, index: SignIndex, translator: Translator, weights: str, *, but: str = ""
) -> SignIndex:
    """Return the training clips and the recordings that have a text.

    Args:
        index: The training clips.
        weights: Their SHA-256.
        but: Id of a recording that is left out: the one that is asked about.
    """
    encoded: list[tuple[Take, FloatArray]] = []
    for take in takes.list_takes():
        if not take.text or take.parts or take.state == "recording" or take.id == but:
            continue
        try:
            encoded.append((take, encode_film(takes.film(take), translator, weights)))
        except (ClipError, UserError) as error:
            # The hint of a film is about the row of a manifest.
            why = error.problem.reason if isinstance(error, ClipError) else error
            logger.warning("recording %s is left out: %s", take.id, why)
    return index.beside(
        [take.id for take, _ in encoded],
        [take.text for take, _ in encoded],
        np.array([encoding for _, encoding in encoded], np.float32).reshape(
            -1, index.projection.width
        ),
    )
