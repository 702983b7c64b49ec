import dataclasses
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.manifest import Clip
from signloom.errors import UserError
from signloom.features.glosses import NO_GLOSSES, UNKNOWN, GlossVocabulary, split_glosses
from signloom.features.targets import build_glosses, read_glosses, read_targets, write_targets
from signloom.features.tokenizer import FIRST_BYTE
from tests import glosses

CLIPS = glosses.clips()
TRAIN = ["REGEN MORGEN", "MORGEN  WIND\u00a0STARK"]


def test_each_gloss_of_train_has_an_id_and_others_share_one() -> None:
    vocabulary = GlossVocabulary.build(TRAIN, "glosses")
    assert vocabulary.names == ("morgen", "regen", "stark", "wind")
    assert vocabulary.size == 2 + 4
    encoded = vocabulary.encode("WIND schnee REGEN eis")
    assert encoded.ids.tolist() == [5, UNKNOWN, 3, UNKNOWN]
    assert encoded.unknown == ("schnee", "eis")


def test_subwords_spell_what_train_lacks_and_name_it() -> None:
    vocabulary = GlossVocabulary.build(TRAIN, "subwords")
    in_train, outside = vocabulary.encode("REGEN WIND"), vocabulary.encode("SCHNEE")
    assert in_train.unknown == ()
    assert outside.unknown == ("schnee",)
    assert in_train.ids.min() >= FIRST_BYTE + 256  # pieces that train uses
    assert (outside.ids >= FIRST_BYTE).all()
    assert max(in_train.ids.max(), outside.ids.max()) < vocabulary.size
    # A gloss has the same ids wherever it stands.
    joined = [*vocabulary.encode("REGEN").ids, *vocabulary.encode("WIND").ids]
    assert in_train.ids.tolist() == joined


@pytest.mark.parametrize("kind", ["glosses", "subwords"])
def test_case_and_composition_do_not_matter(kind: str) -> None:
    vocabulary = GlossVocabulary.build(["GRÜN STRASSE"], kind)  # type: ignore[arg-type]
    plain, variant = vocabulary.encode("GRÜN STRASSE"), vocabulary.encode("gru\u0308n Strasse")
    assert np.array_equal(plain.ids, variant.ids)
    assert plain.unknown == variant.unknown == ()
    assert split_glosses("  A\tb ") == ("a", "b")


@pytest.mark.parametrize("kind", ["none", "glosses", "subwords"])
def test_the_vocabulary_lies_beside_the_targets(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "targets.parquet"
    vocabulary = build_glosses(CLIPS, kind)  # type: ignore[arg-type]
    write_targets(path, [], vocabulary)
    assert read_glosses(path) == vocabulary
    assert read_targets(path) == []
    changed = [c if c.split == "train" else dataclasses.replace(c, gloss="ANDERS") for c in CLIPS]
    assert build_glosses(changed, kind) == vocabulary  # type: ignore[arg-type]  # of train alone


def test_only_a_pruned_vocabulary_can_be_shared() -> None:
    assert glosses.tokenize_options("shared").source == "shared"
    with pytest.raises(ValueError, match="found shared with vocabulary full and language false"):
        dataclasses.replace(glosses.tokenize_options("shared"), vocabulary="full")


def test_clips_without_glosses_are_named() -> None:
    video = Path("a.mp4")
    torn: list[Clip] = [
        dataclasses.replace(clip, video=video, gloss=None if clip.split == "dev" else clip.gloss)
        for clip in CLIPS
    ]
    assert build_glosses(torn, "none") == NO_GLOSSES
    with pytest.raises(UserError) as caught:
        build_glosses(torn, "glosses")
    assert "4 of 20 clips have no gloss" in str(caught.value)
    assert "dev12, dev13, dev14, dev15" in str(caught.value)
    assert "tokenize_targets.source: none" in str(caught.value)
