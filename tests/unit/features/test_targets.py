import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.corpus.manifest import Clip
from signloom.errors import UserError
from signloom.features.targets import (
    CtcLabels,
    TokenizeOptions,
    build_targets,
    read_targets,
    write_targets,
)
from signloom.features.tokenizer import Tokenizer

OPTIONS = TokenizeOptions(vocabulary="pruned", max_tokens=30, ctc="glosses", source="none")
CLIPS = [
    Clip(
        clip_id=f"{signer}{number}",
        video=Path("a.mp4"),
        text=text,
        signer=signer,
        split=split,
        gloss=gloss,
    )
    for number, (signer, split, text, gloss) in enumerate(
        [
            ("a", "train", "  je  vais à la maison", "MAISON MOI ALLER"),
            ("a", "train", "bonjour", "BONJOUR"),
            ("b", "dev", "zyzzyva", "NOUVEAU BONJOUR"),
            ("c", "test", "je vais", None),
        ]
    )
]


def test_targets_carry_the_text_between_bos_and_eos() -> None:
    tokenizer, _, targets = build_targets(CLIPS, OPTIONS)
    assert [t.clip_id for t in targets] == ["a0", "a1", "b2", "c3"]
    for target in targets:
        assert (target.ids[0], target.ids[-1]) == (tokenizer.bos, tokenizer.eos)
        assert tokenizer.decode(target.ids) == target.text
    assert targets[0].text == "je vais à la maison"


SPOKEN = [
    dataclasses.replace(clip, language=language)
    for clip, language in zip(CLIPS, ("fr", "de", "de", "fr"), strict=True)
]


def test_the_language_is_the_first_token_where_it_is_asked_for(tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS, language=True)
    tokenizer, _, targets = build_targets(SPOKEN, options)
    assert tokenizer.languages == ("de", "fr")
    plain = build_targets(SPOKEN, OPTIONS)[2]
    for target, clip, without in zip(targets, SPOKEN, plain, strict=True):
        bos, *ids = without.ids
        assert target.ids == [bos, tokenizer.language_id(clip.language), *ids]
        assert tokenizer.decode(target.ids) == target.text
        assert target.language == without.language == clip.language
    assert len(tokenizer.row_names) == tokenizer.vocab_size
    write_targets(tmp_path / "targets.parquet", targets)
    assert read_targets(tmp_path / "targets.parquet") == targets
    splits = read_targets(tmp_path / "targets.parquet", ("clip_id", "split"))
    assert [(t.clip_id, t.split) for t in splits] == [(t.clip_id, t.split) for t in targets]
    assert all(t.text == "" and t.ids == [] for t in splits)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer


def test_a_clip_without_a_language_that_train_has_is_named() -> None:
    options = dataclasses.replace(OPTIONS, language=True)
    clips = [*SPOKEN[:2], CLIPS[2], dataclasses.replace(CLIPS[3], language="nl")]
    with pytest.raises(
        UserError, match=r"2 of 4 clips have no language .*: b2 \(none\), c3 \(nl\)"
    ):
        build_targets(clips, options)


def test_the_vocabulary_and_the_labels_come_from_train_alone() -> None:
    _, labels, targets = build_targets(CLIPS, OPTIONS)
    assert labels == CtcLabels(kind="glosses", names=("ALLER", "BONJOUR", "MAISON", "MOI"))
    assert targets[0].labels == [3, 4, 1]  # 0 is the blank
    assert targets[2].labels == []
    with_other_dev = [
        dataclasses.replace(c, text="autre") if c.split == "dev" else c for c in CLIPS
    ]
    assert build_targets(with_other_dev, OPTIONS)[0] == build_targets(CLIPS, OPTIONS)[0]


def test_labels_may_be_the_characters_of_the_normalised_text() -> None:
    spelt = dataclasses.replace(OPTIONS, ctc="characters")
    _, labels, targets = build_targets(CLIPS, spelt)
    assert labels.kind == "characters"
    assert list(labels.names) == sorted(set("je vais à la maisonbonjour"))
    assert "".join(labels.names[label - 1] for label in targets[0].labels) == "je vais à la maison"
    assert targets[2].labels == []  # dev has letters that train does not


def test_a_whole_text_may_be_one_label_since_a_sign_spells_no_letters() -> None:
    _, labels, targets = build_targets(CLIPS, dataclasses.replace(OPTIONS, ctc="texts"))
    assert labels.names == ("bonjour", "je vais à la maison")
    assert [target.labels for target in targets] == [[2], [1], [], []]


def test_labels_of_arabic_are_letters_and_marks() -> None:
    clips = [dataclasses.replace(CLIPS[0], text="أَهْلًا بِكَ", gloss=None)]
    _, labels, (target,) = build_targets(clips, dataclasses.replace(OPTIONS, ctc="characters"))
    assert "".join(labels.names[label - 1] for label in target.labels) == target.text
    assert {"أ", "\u064e", "\u0652", " "} <= set(labels.names)  # alef, fatha, sukun


def test_long_sentences_are_all_named() -> None:
    short = dataclasses.replace(OPTIONS, max_tokens=4)
    with pytest.raises(UserError, match="clip a0: ") as caught:
        build_targets(CLIPS, short)
    assert "clip b2: " in str(caught.value)
    assert "tokenize_targets.max_tokens" in str(caught.value)


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "targets.parquet"
    pq.write_table(pa.table({"clip_id": ["a"]}), path)
    with pytest.raises(UserError, match="found format version none, this Signloom reads 2"):
        read_targets(path)
    with pytest.raises(UserError, match="does not exist; run `dvc repro tokenize_targets`"):
        read_targets(tmp_path / "absent.parquet")
