"""Signers of a new corpus of single signs who seem to have exchanged two of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from signloom.config import parse_options
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip


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
    from signloom.translation.linear_view import frames_vector

    section = {**params["features"], **recipe["features"]}
    features = parse_options(section, FeatureOptions, where="features")
    source = LandmarkSource(layout=shards_metadata(shards).layout, extractor={})
    train = [clip for clip in clips if clip.split == "train"]
    train = train[:: -(-len(train) // MOST_TAKES)]
    sequences = read_shards(shards, [clip.clip_id for clip in train])
    vectors = np.stack([frames_vector(source, features, sequences[c.clip_id]) for c in train])
    cases = find_exchanged(vectors, [c.text for c in train], [c.signer for c in train])
    return [f"warning: {case}; compare their takes, and correct the table" for case in cases]
