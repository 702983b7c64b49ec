"""Warnings of what a new corpus seems to have wrong: films without hands, exchanged signs."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from signloom.config import parse_options
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.errors import ClipError, UserError, count_of

PROBED = 30  # clips of which a picture is looked at, until one shows a hand
NO_HANDS = (
    "warning: no hand in the middle of any of {}. If they show faces that speak, "
    "`signloom adopt --preset lip-conformer` reads their lips; docs/lips.md has that, and what to "
    "do with films of mouths alone"
)


def warn_of_no_hands(clips: Sequence[Clip]) -> str:
    """Say what to do with films of which none shows a hand; "" where one does.

    Films that cannot be read say nothing here: extraction will.
    """
    from signloom.detection.detector import (  # loads slowly
        DetectorOptions,
        build_detector,
        quiet_native_code,
    )
    from signloom.detection.video import Video

    options, detector, handless = DetectorOptions(detector="hands", groups=("hands",)), None, 0
    for clip in clips[:: math.ceil(len(clips) / PROBED) or 1]:
        if clip.video is None:
            return ""
        try:
            with Video(clip.video) as video, quiet_native_code():
                end_s = clip.end_s or video.duration_s or 0.0
                frame = next(video.frames(((clip.start_s or 0.0) + end_s) / 2))
                detector = detector or build_detector(options)
                detector.reset()
                if detector.find(frame.rgb, 0.0):
                    return ""
        except (ClipError, UserError, RuntimeError):
            continue
        handless += 1
    return NO_HANDS.format(count_of(handless, "film")) if handless else ""


def warn_of_exchanged(
    clips: Sequence[Clip], corpus: Path, params: Mapping[str, Any], recipe: Mapping[str, Any]
) -> list[str]:
    """Name the signers of train whose takes of two signs seem to have each other's label.

    Nothing is said of films, whose landmarks are found later: then `evaluate` says it.

    Args:
        params: The parameters file.
        recipe: Values that a new corpus sets, by section and key.
    """
    shards = corpus / IMPORTED_SHARDS
    if recipe["tokenize_targets"]["ctc"] != "texts" or not shards.is_dir():
        return []
    import numpy as np

    from signloom.corpus.shards import read_shards, shards_metadata  # pyarrow loads slowly
    from signloom.evaluation.labelling import MOST_TAKES, find_exchanged  # so does scikit-learn
    from signloom.features.features import FeatureOptions
    from signloom.features.sources import LandmarkSource
    from signloom.translation.linear_classifier import resample_clip

    section = {**params["features"], **recipe["features"]}
    features = parse_options(section, FeatureOptions, where="features")
    source = LandmarkSource(layout=shards_metadata(shards).layout, extractor={})
    train = [clip for clip in clips if clip.split == "train"]
    train = train[:: -(-len(train) // MOST_TAKES)]
    sequences = read_shards(shards, [clip.clip_id for clip in train])
    vectors = np.stack([resample_clip(source, features, sequences[c.clip_id]) for c in train])
    cases = find_exchanged(vectors, [c.text for c in train], [c.signer for c in train])
    return [f"warning: {case}; compare their takes, and correct the table" for case in cases]
