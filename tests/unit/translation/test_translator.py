"""What a translator makes of a checkpoint and of the options of the search."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from signloom.checkpoint import (
    WEIGHTS,
    Checkpoint,
    build_from_spec,
    save_checkpoint,
)
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.words import locate_words
from signloom.errors import UserError
from signloom.features.targets import NO_LABELS, CtcLabels
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file
from signloom.translation import translator as encoding
from signloom.translation.confidence import (
    CONFIDENCE,
    Confidence,
    fit_levels,
    hash_seeds,
    write_confidence,
)
from signloom.translation.familiarity import Range, TrainClips
from signloom.translation.labels import search_signs, weigh_labels
from signloom.translation.options import SignSearch
from signloom.translation.precision import Precision
from signloom.translation.recognised_signs import read_signs
from signloom.translation.translator import Translator, encode_in_parts
from signloom.translation.word_signs import SignCoverage, fit_sign_coverage
from tests import tiny
from tests.contract.variants import DOCUMENT_003, build
from tests.damage import keep_hashes

CPU, EOS = torch.device("cpu"), 2
LETTERS = CtcLabels(kind="characters", names=tuple(sorted(set("".join(tiny.SENTENCES)))))
CLIPS = [tiny.sequence(seed, frames=8 + seed) for seed in range(3)]


def checkpoint(ctc: CtcLabels = LETTERS) -> Checkpoint:
    return tiny.checkpoint(ctc=ctc)


def test_numbers_that_overflow_name_the_checkpoint(tmp_path: Path) -> None:
    base = checkpoint()
    weights = base.model.state_dict()
    for name in ("decoder.output.weight", "ctc.weight"):
        weights[name].fill_(3e38)
    save_checkpoint(tmp_path / "one", base)
    translator = Translator.load(tmp_path / "one", CPU)
    with pytest.raises(UserError, match=r"one: .* not finite"):
        translator.translate(CLIPS, tiny.decoding())
    with pytest.raises(UserError, match=r"one: .* not finite"):
        translator.label_log_probs(CLIPS)


def test_a_language_that_is_asked_for_comes_first() -> None:
    base = checkpoint(NO_LABELS)
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned", languages=("de", "fr"))
    model = build_from_spec(base.spec, tokenizer).eval()
    translator = Translator(dataclasses.replace(base, model=model, tokenizer=tokenizer), CPU)
    for language in ("de", "fr"):
        options = tiny.decoding(beam_size=3, language=language)
        for translation in translator.translate(CLIPS, options, n_best=3):
            for alternative in (translation, *translation.alternatives):
                assert alternative.hypothesis.tokens[0] == tokenizer.language_id(language)
                assert language not in alternative.text
    with pytest.raises(UserError, match="language: found 'nl', expected de, fr"):
        translator.translate(CLIPS, tiny.decoding(language="nl"))
    with pytest.raises(UserError, match="expected none: the model was trained without"):
        Translator(base, CPU).translate(CLIPS, tiny.decoding(language="de"))


def test_a_sign_is_read_at_the_pace_of_the_training_clips_however_slow_its_film() -> None:
    clip = tiny.sequence(0, frames=30, fps=30.0)  # a second
    train_clips = TrainClips(
        figures={"seconds": Range(low=0.9, high=1.0)},
        centre=(),
        directions=(),
        deviations=(),
        rest=1.0,
        limit=1.0,
    )
    checked = Confidence(weights="", unsure_below=0.5, levels=(), train=train_clips)
    signs = CtcLabels(kind="texts", names=("tea", "bread"))
    for labels, paces in ((signs, (1, 1.581, 3.162, 5, 0.422)), (LETTERS, (1, 1, 1, 1, 1))):
        translator = Translator(checkpoint(labels), CPU, confidence=checked)
        slowed = [dataclasses.replace(clip, fps=30 / times) for times in (1, 1.5, 3, 20, 0.4)]
        paced = [translator._paced(clip) for clip in slowed]
        for before, after, pace in zip(slowed, paced, paces, strict=True):
            assert after.fps == pytest.approx(before.fps * pace, rel=0.01)


def test_a_rest_around_a_sign_takes_none_of_the_time_that_train_gives_it() -> None:
    train, times = {"seconds": Range(low=0.5, high=0.5)}, np.arange(60) / 20
    clip = tiny.sequence(0, frames=60, fps=20.0)  # a second of rest, one of a sign, one of rest
    hands = clip.points[:1, :42] + np.zeros_like(clip.points[:, :42])
    hands[..., 0] += 0.24 * np.clip(times - 1, 0, 1)[:, None]
    clip.points[:, :42] = hands
    train_clips = TrainClips(
        figures=train, centre=(), directions=(), deviations=(), rest=1.0, limit=1.0
    )
    signs = CtcLabels(kind="texts", names=("tea", "bread"))
    features = dataclasses.replace(tiny.FEATURES, rest_s=0.2)
    checked = Confidence(weights="", unsure_below=0.5, levels=(), train=train_clips)
    model = tiny.checkpoint(ctc=signs, features=features)
    paced = Translator(model, CPU, confidence=checked)._paced(clip)
    assert isinstance(paced, LandmarkSequence)
    assert 20 <= len(paced.points) <= 30
    assert paced.seconds == pytest.approx(0.5)


def test_alternatives_are_the_next_best_and_change_nothing_about_the_best() -> None:
    translator = Translator(checkpoint(), CPU)
    options = tiny.decoding(beam_size=4)
    alone = translator.translate(CLIPS, options)
    translations = translator.translate(CLIPS, options, n_best=3)
    # With the whole list wanted the search may go on longer, but only for more of them.
    assert [t.hypothesis.tokens[-1] == 2 for t in alone] == [
        t.hypothesis.tokens[-1] == 2 for t in translations
    ]
    for single, translation in zip(alone, translations, strict=True):
        assert translation.hypothesis.score >= single.hypothesis.score - 1e-6
        assert single.alternatives == ()
        tokens = [t.hypothesis.tokens for t in (translation, *translation.alternatives)]
        assert len(set(tokens)) == 3
        assert all(t.alternatives == () for t in translation.alternatives)


def test_the_beam_that_says_the_signs_is_the_best_where_they_weigh_enough(tmp_path: Path) -> None:
    names = ("A", "B", "C")
    save_checkpoint(tmp_path, checkpoint(CtcLabels(kind="glosses", names=names)))
    translator = Translator.load(tmp_path, CPU)
    beams = tiny.decoding(beam_size=6)
    held = dataclasses.replace(beams, sign_weight=100.0)
    plain = translator.translate(CLIPS, beams, n_best=6)
    # Nothing is known of words and signs yet.
    assert translator.translate(CLIPS, held, n_best=6) == plain
    every = [[translation, *translation.alternatives] for translation in plain]
    words = {
        word
        for beam in every
        for translation in beam
        for word, _, _ in locate_words(translation.text)
    }
    coverage = SignCoverage(sign_of=dict.fromkeys(sorted(words), "A"), costs={"A": 1.0, "B": 1.0})
    translator.sign_costs = coverage
    read = [[sign.gloss for sign in signs] for signs in read_signs(translator, CLIPS)]
    assert all(read)
    weighted = translator.translate(CLIPS, held, n_best=6)
    assert [t.hypothesis.tokens for t in weighted] != [t.hypothesis.tokens for t in plain]
    for before, best, line in zip(every, weighted, read, strict=True):
        after = [best, *best.alternatives]
        scores = {t.hypothesis.tokens: t.hypothesis.score for t in before}
        assert {t.hypothesis.tokens for t in after} == set(scores)
        # What did not end comes last.
        assert [t.hypothesis.tokens[-1] == EOS for t in after] == sorted(
            (t.hypothesis.tokens[-1] == EOS for t in before), reverse=True
        )
        for translation in after:
            score = scores[translation.hypothesis.tokens] - 100 * coverage.cost(
                translation.text, line
            )
            assert translation.hypothesis.score == pytest.approx(score, abs=1e-4)
            assert translation.hypothesis.sign_cost == coverage.cost(translation.text, line)
        ended = [t.hypothesis.score for t in after if t.hypothesis.tokens[-1] == EOS]
        assert ended == sorted(ended, reverse=True)
    alone = translator.translate(CLIPS, held)
    assert [t.hypothesis for t in alone] == [t.hypothesis for t in weighted]
    greedy = dataclasses.replace(held, beam_size=1)
    assert [t.text for t in translator.translate(CLIPS, greedy)] == [
        t.text for t in translator.translate(CLIPS, tiny.decoding())
    ]
    # Who does not look reads no signs.
    assert translator.translate(CLIPS, held, blind=True) == translator.translate(
        CLIPS, beams, blind=True
    )


@pytest.mark.parametrize("family", ["transformer", "convolution"])
def test_without_a_decoder_the_text_is_what_ctc_reads(family: Any) -> None:
    model = dataclasses.replace(tiny.MODEL, family=family, decoder_layers=0)

    def translator(kind: Any, names: tuple[str, ...]) -> Translator:
        checkpoint = tiny.checkpoint(ctc=CtcLabels(kind=kind, names=names), model=model)
        return Translator(checkpoint, CPU)

    reader = translator("texts", tiny.SENTENCES)
    translations = reader.translate(CLIPS, tiny.decoding(), n_best=4)
    for translation, log_probs in zip(translations, reader.label_log_probs(CLIPS), strict=True):
        costs = dict(zip(tiny.SENTENCES, weigh_labels(log_probs), strict=True))
        every = [translation, *translation.alternatives]
        assert [alternative.text for alternative in every] == sorted(costs, key=costs.__getitem__)
        assert [alternative.hypothesis.log_prob for alternative in every] == [
            -costs[x.text] for x in every
        ]
        assert translation.hypothesis.tokens[-1] == EOS
    search = SignSearch(weight=0.8, bonus=2.0, ngrams=((0, 1, 9),))
    signs = translator("glosses", ("A", "B", "C")).with_signs(search)
    read = [" ".join(sign.gloss for sign in clip_signs) for clip_signs in read_signs(signs, CLIPS)]
    assert read == [translation.text for translation in signs.translate(CLIPS, tiny.decoding())]
    letters = translator("characters", LETTERS.names)
    (translation,) = letters.translate(CLIPS[:1], tiny.decoding())
    spelt = search_signs(letters.label_log_probs(CLIPS[:1])[0], SignSearch())
    assert translation.text == "".join(LETTERS.names[n - 1] for n in spelt)
    with pytest.raises(ValueError, match="no decoder"):
        letters.align(CLIPS[:1], [translation])


def test_further_seeds_hold_sentences_against_signs_as_the_first_does(tmp_path: Path) -> None:
    first = tmp_path / "checkpoint"
    for folder in (first, first / "seeds" / "2"):
        save_checkpoint(folder, checkpoint())
    assert not Translator.load(first / "seeds" / "2", CPU).sign_costs.costs
    coverage = fit_sign_coverage(["a b", "b"], [["A", "B"], ["B"]])
    measured = Confidence(
        weights=hash_file(first / WEIGHTS),
        unsure_below=0.5,
        levels=(),
        train=None,
        signs_said=coverage,
        signs=SignSearch(weight=0.4),
    )
    write_confidence(first / CONFIDENCE, measured)
    # The further seed's weights are others, so that nothing is measured of them.
    path = first / "seeds" / "2" / WEIGHTS
    weights = load_file(path)
    save_file({name: value + 1 for name, value in weights.items()}, path)
    keep_hashes(path.parent)
    for folder in (first, first / "seeds" / "2"):
        translator = Translator.load(folder, CPU)
        assert (translator.sign_costs, translator.sign_search.weight) == (coverage, 0.4)
    assert translator.confidence is None
    (first / WEIGHTS).unlink()
    assert not Translator.load(first / "seeds" / "2", CPU).sign_costs.costs


def write_seeds(first: Path, ctc: CtcLabels = LETTERS) -> None:
    """Write three seeds of a model, and a confidence that was measured of them as one."""
    for number, folder in enumerate((first, first / "seeds/2", first / "seeds/10")):
        seed_checkpoint = checkpoint(ctc)
        with torch.no_grad():
            for weights in seed_checkpoint.model.parameters():
                weights += 0.2 * number * torch.randn(weights.shape)
        save_checkpoint(folder, seed_checkpoint)
    measured = Confidence(
        weights=hash_file(first / WEIGHTS),
        unsure_below=0.5,
        levels=fit_levels([-1.0], [True]),
        train=None,
        seeds=hash_seeds(first),
    )
    write_confidence(first / CONFIDENCE, measured)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_seeds_that_were_measured_as_one_are_loaded_as_one(
    tmp_path: Path, precision: Precision
) -> None:
    write_seeds(tmp_path)
    joint = Translator.load(tmp_path, CPU, precision=precision)
    assert joint.is_joint
    assert list(joint.confidence.seeds if joint.confidence else ()) == ["2", "10"]
    further = [
        Translator.load(tmp_path / "seeds" / name, CPU, precision=precision) for name in ("2", "10")
    ]
    options = tiny.decoding(beam_size=3)
    translations = joint.translate(CLIPS, options, n_best=2, skip_unsure=True)
    expected = joint.first_seed.with_seeds(further).translate(CLIPS, options, n_best=2)
    assert [translation.hypothesis for translation in translations] == [
        translation.hypothesis for translation in expected
    ]
    assert all(translation.check.confidence is not None for translation in translations)
    alone = joint.first_seed.translate(CLIPS, options, n_best=2)
    assert [translation.hypothesis.log_prob for translation in translations] != [
        translation.hypothesis.log_prob for translation in alone
    ]
    assert all(translation.check.confidence is None for translation in alone)
    with pytest.raises(UserError, match="which translations are unsure is not known"):
        joint.first_seed.translate(CLIPS, options, skip_unsure=True)
    assert len(joint.align(CLIPS, translations)) == len(CLIPS)


@pytest.mark.parametrize("change", ["removed", "torn", "changed", "added"])
def test_what_was_measured_of_all_seeds_holds_for_no_others(tmp_path: Path, change: str) -> None:
    write_seeds(tmp_path)
    second_seed = tmp_path / "seeds/2"
    if change == "removed":
        shutil.rmtree(second_seed)
    elif change == "torn":
        (second_seed / WEIGHTS).unlink()
    elif change == "changed":
        shutil.copy(tmp_path / WEIGHTS, second_seed)
    else:
        shutil.copytree(second_seed, second_seed.with_name("3"))
    translator = Translator.load(tmp_path, CPU)
    assert (translator.is_joint, translator.confidence) == (False, None)


def test_seeds_as_one_read_signs_by_the_mean_of_their_probabilities(tmp_path: Path) -> None:
    write_seeds(tmp_path, CtcLabels(kind="glosses", names=("A", "B", "C")))
    joint = Translator.load(tmp_path, CPU)
    seed_log_probs = [
        Translator.load(tmp_path / name, CPU).first_seed.label_log_probs(CLIPS)
        for name in ("", "seeds/2", "seeds/10")
    ]
    for pooled, *alone in zip(joint.label_log_probs(CLIPS), *seed_log_probs, strict=True):
        np.testing.assert_allclose(np.exp(pooled), np.exp(alone).mean(axis=0), atol=1e-5)
    costs = SignCoverage(sign_of={}, costs={"A": 1.0, "B": 1.0, "C": 1.0})
    joint.sign_costs = costs
    lines = [[sign.gloss for sign in signs] for signs in read_signs(joint, CLIPS)]
    translations = joint.translate(CLIPS, tiny.decoding())
    assert [t.hypothesis.sign_cost for t in translations] == [
        costs.cost(t.text, line) for t, line in zip(translations, lines, strict=True)
    ]


@pytest.mark.parametrize(
    ("family", "parts"),
    [
        ({}, [2, 2, 1]),
        (DOCUMENT_003, [2, 2, 1]),
        ({"subsampling": 4}, [2, 2, 1]),
        ({"family": "lstm"}, [5]),
    ],
)
def test_clips_are_encoded_in_parts_and_come_out_the_same(
    family: dict[str, object], parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = build(**family)
    src, valid = subject.source([9, 5, 12, 1, 7])
    expected, encode, sizes = subject.model.encode(src, valid), subject.model.encode, list[int]()
    monkeypatch.setattr(
        subject.model, "encode", lambda src, valid: sizes.append(len(src)) or encode(src, valid)
    )
    monkeypatch.setattr(encoding, "PART_FRAMES", 2 * 12 + 1)
    with torch.inference_mode():
        memory = encode_in_parts(subject.model, src, valid)
    assert sizes == parts
    assert torch.equal(memory.valid, expected.valid)
    torch.testing.assert_close(memory.states, expected.states, rtol=1e-4, atol=1e-5)


def test_convolutions_read_signs_by_the_mean_over_paces(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dataclasses.replace(tiny.MODEL, family="convolution", subsampling=2)
    translator = Translator(tiny.checkpoint(ctc=LETTERS, model=model), CPU)
    every = translator.label_log_probs(CLIPS)
    lengths = [len(translator.rows(clip)) for clip in CLIPS]
    for clip, length in zip(every, lengths, strict=True):
        assert len(clip) == (length + 1) // 2
        np.testing.assert_allclose(np.exp(clip).sum(axis=1), 1, rtol=1e-5)
    apart = []
    for pace in (1.0, *encoding.OTHER_PACES):
        monkeypatch.setattr(encoding, "OTHER_PACES", (pace,))
        apart.append(translator.label_log_probs(CLIPS))
    for pooled, *alone in zip(every, *apart, strict=True):
        chances = np.exp(alone)  # each the mean of one pace and of the clip as it is, the first
        np.testing.assert_allclose(np.exp(pooled), 2 * chances.mean(0) - chances[0], atol=1e-5)
        assert np.abs(alone[0] - alone[1]).max() > 1e-3
