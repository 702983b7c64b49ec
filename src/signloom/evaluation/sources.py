"""A translator and a corpus come in; what it reads of each clip, landmarks or glosses, goes out."""

import json
from collections.abc import Sequence
from pathlib import Path

from signloom.corpus.clips import SourceSequence
from signloom.corpus.shards import read_shards, shards_metadata
from signloom.corpus.targets import Target
from signloom.translator import Translator


def read_sources(
    translator: Translator, targets: Sequence[Target], shards: Path
) -> dict[str, SourceSequence]:
    """Return clip id to what the model reads, of all clips that have it.

    Args:
        translator: The trained model.
        targets: Of all clips; glosses stand in them.
        shards: Landmarks of the clips.

    Raises:
        UserError: If the landmarks are missing, damaged or of another make than the model's.
    """
    if translator.reads_glosses:
        encode = translator.spec.glosses.encode
        return {target.clip_id: encode(target.gloss) for target in targets if target.gloss}
    translator.check_extractor(json.loads(shards_metadata(shards).extractor))
    return {**read_shards(shards)}
