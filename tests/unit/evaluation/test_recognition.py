"""Recognition: gloss error rates of the model, its seeds together, its controls and its floors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from signloom.errors import UserError
from signloom.evaluation.recognition import (
    HeldOutLabels,
    Recognition,
    choose_search,
    choose_searches,
    recognise,
)
from signloom.features.targets import CtcLabels, Target
from signloom.translation.ngram import count_ngrams
from signloom.translation.options import USUAL_NGRAM
from signloom.translation.recognised_signs import find_signs
from signloom.translation.translator import Translator
from signloom_tools.importing.recombine import SIGNER
from tests.unit.evaluation.world import CLIPS, NAMES, SignReader, setup, targets, untrained


def recognised(
    translator: Translator,
    seed_translators: Sequence[Translator] = (),
    of: Sequence[Target] | None = None,
) -> dict[str, Recognition]:
    every = list(targets() if of is None else of)
    prepared = setup(translator, targets=every, sequences=CLIPS)
    return recognise(
        prepared, ("dev", "test"), choose_searches(prepared, seed_translators), seed_translators
    )


def values(recognitions: dict[str, Recognition]) -> dict[str, float]:
    """The error rates of all systems on test."""
    return {name: score.value for name, score in recognitions["test"].systems.items()}


@pytest.fixture(scope="module")
def recognitions() -> dict[str, Recognition]:
    """What a reader without errors reads; some seconds."""
    return recognised(SignReader())


def test_what_is_read_is_scored_beside_its_floors(recognitions: dict[str, Recognition]) -> None:
    test, wer = recognitions["test"], values(recognitions)
    # Of 14 signs VAS is in no train clip: it cannot be read.
    assert wer["model"] == pytest.approx(100 / 14, abs=1e-3)
    assert (test.edits["deletions"], test.edits["substitutions"]) == (wer["model"], 0)
    assert wer["blind"] == 100
    assert wer["swapped"] > wer["model"]
    assert wer["floor"] > 50
    # Whole lines of train are its classes, and no clip of test has one of them whole but one.
    assert wer["linear"] > wer["model"]
    assert (test.seen["clips"], test.unseen["clips"]) == (1, 2)
    assert test.seen["gloss_wer"] == 0
    names = [sign.gloss for sign in recognitions["test"].signs[0]]
    assert names == ["DEMAIN", "TU", "VIENS"]
    spans = [(sign.start_s, sign.end_s) for sign in recognitions["test"].signs[0]]
    assert spans == sorted(spans)
    assert "tok:glosses" in recognitions["test"].to_map()["signature"]
    assert [row["clips"] for row in test.signers.values()] == [2, 1]
    # VAS is one of the first signer's nine signs.
    rates = [row["gloss_wer"] for row in test.signers.values()]
    assert rates == pytest.approx([100 / 9, 0])


def test_seeds_read_together(recognitions: dict[str, Recognition]) -> None:
    alone = values(recognised(SignReader(missing=1, sure=0.5)))
    together = recognised(
        SignReader(missing=1, sure=0.5), [SignReader(sure=0.9), SignReader(sure=0.9)]
    )
    joint = values(together)
    assert "together" not in alone
    assert joint["model"] == alone["model"]
    assert joint["together"] < alone["model"]
    other_wer = values(recognitions)["model"]
    assert together["test"].seeds == pytest.approx([alone["model"], other_wer, other_wer], abs=1e-3)
    assert joint["seeds"] == pytest.approx(sum(together["test"].seeds) / 3, abs=1e-3)
    assert recognitions["test"].seeds == []


@pytest.mark.slow
def test_seeds_as_one_are_the_model_that_reads() -> None:
    """The others have the first's part, too: what is read as one is what the joint model reads.

    Quick twin: test_seeds_read_together.
    """

    class Joint(SignReader):
        is_joint = True

        @property
        def first_seed(self) -> Translator:
            return SignReader(missing=1, sure=0.5)

    readers = [SignReader(sure=0.9), SignReader(sure=0.9)]
    apart = recognised(SignReader(missing=1, sure=0.5), readers)["test"]
    joint = recognised(Joint(), readers)["test"]
    assert joint.seeds == apart.seeds
    assert joint.systems["model"] == apart.systems["together"]
    assert [sign.gloss for sign in joint.signs[0]] == ["DEMAIN", "TU", "VIENS"]


def test_all_seeds_choose_the_search_together() -> None:
    """What the few signs of dev ask for, read by one seed, makes the others worse."""
    names = ("GARE", "OUI", "NON")
    model = SignReader()
    model.spec = replace(model.spec, ctc=CtcLabels(kind="glosses", names=names))
    gare, oui, unsure = [0.05, 0.9, 0.04, 0.01], [0.05, 0.04, 0.9, 0.01], [0.6, 0.02, 0.36, 0.02]
    noise = [0.6, 0.02, 0.02, 0.36]  # NON, which nobody signed
    hesitant, confident = (
        [np.log(np.array(rows, dtype=np.float32))] for rows in ([gare, unsure], [gare, oui, noise])
    )
    clip = replace(targets()[0], gloss="GARE OUI")
    seeds = [HeldOutLabels(read, [clip], ()) for read in (hesitant, confident, confident)]
    assert choose_search(model, seeds[:1]).bonus == 1
    assert choose_search(model, seeds).bonus == 0


def test_clips_without_glosses_are_left_out_and_a_model_of_characters_reads_nothing() -> None:
    half = [replace(t, gloss="") if t.clip_id in ("dev0", "test0") else t for t in targets()]
    recognitions = recognised(SignReader(), of=half)
    assert {split: len(recognition.targets) for split, recognition in recognitions.items()} == {
        "dev": 1,
        "test": 2,
    }
    assert recognised(untrained()) == {}


def test_signs_of_a_list_are_found_each_by_itself() -> None:
    clips = [CLIPS["test0"], CLIPS["test1"]]  # DEMAIN TU VIENS; ELLE MANGE À LA GARE
    first, second = find_signs(SignReader(), clips, ["VIENS", "DEMAIN", "GARE"])
    assert [sign.gloss for sign in first] == ["DEMAIN", "VIENS"]  # in the order of time
    assert [sign.gloss for sign in second] == ["GARE"]
    assert all(0 <= s.start_s < s.end_s and s.posterior == pytest.approx(0.9) for s in first)
    with pytest.raises(UserError, match=r"--find DEMAN: no train clip .*such as DEMAIN"):
        find_signs(SignReader(), clips, ["DEMAN"])
    with pytest.raises(UserError, match="reads no signs"):
        find_signs(untrained(), clips, ["DEMAIN"])


def test_the_search_is_chosen_by_the_rules_that_score_it() -> None:
    """A place that these rules do not count must not decide for a length bonus."""
    names = ("GARE", "loc-GARE", "NON")
    model = SignReader()
    model.spec = replace(model.spec, ctc=CtcLabels(kind="glosses", names=names))
    rows = [[0.05, 0.9, 0.04, 0.01], [0.9, 0.04, 0.04, 0.02], [0.65, 0.01, 0.32, 0.02]]
    line = np.log(np.array(rows, dtype=np.float32))
    clip = replace(targets()[0], gloss="GARE loc-GARE")
    read = [HeldOutLabels([line], [clip], ())]
    assert choose_search(model, read).bonus > 0
    assert choose_search(model, read, "phoenix_2014").bonus == 0


def noisy_lines() -> HeldOutLabels:
    """Five clips of two or three signs, each sign at two positions."""
    lines, dice = [[1, 2, 3], [2, 1], [3, 2, 1]], np.random.default_rng(1)
    read, clips = [], []
    for number in range(5):
        line = lines[dice.integers(len(lines))]
        heard = np.repeat([[*line, 0]], 2, axis=0).T.flatten()
        noisy = (
            0.5 * np.eye(len(NAMES) + 1)[heard]
            + dice.dirichlet(np.ones(len(NAMES) + 1), 8)[: len(heard)]
        )
        read.append(np.log(noisy / noisy.sum(axis=1, keepdims=True)).astype(np.float32))
        gloss = " ".join(NAMES[label - 1] for label in line)
        clips.append(replace(targets()[0], clip_id=str(number), gloss=gloss))
    return HeldOutLabels(read, clips, count_ngrams(lines))


def test_few_clips_of_dev_leave_the_usual_search() -> None:
    few = noisy_lines()
    search = choose_search(SignReader(), [few])
    assert (search.weight, search.bonus) == USUAL_NGRAM
    weighted = choose_search(SignReader(), [few], weights=(0.4, 1.0))
    assert (weighted.weight, weighted.bonus, weighted.ngrams) == (0.4, 1.0, few.ngrams)


@pytest.mark.slow
def test_a_search_that_is_clearly_better_on_dev_is_taken() -> None:
    """Quick twin: test_few_clips_of_dev_leave_the_usual_search."""
    few = noisy_lines()
    clips = [
        replace(target, clip_id=str(number)) for number, target in enumerate([*few.targets] * 40)
    ]
    many = choose_search(SignReader(), [HeldOutLabels([*few.log_probs] * 40, clips, few.ngrams)])
    assert many.weight > 0
    assert (many.weight, many.bonus) != USUAL_NGRAM


def test_sentences_made_of_pieces_do_not_decide_which_sign_follows_another() -> None:
    pieced_targets = [
        replace(t, clip_id=f"made-{n}", signer=SIGNER, gloss=" ".join(reversed(t.gloss.split())))
        for n, t in enumerate(targets())
        if t.split == "train"
    ]
    clips = CLIPS | {t.clip_id: CLIPS["train0"] for t in pieced_targets}
    # It hears too little to be right without an n-gram.
    choices = [
        choose_searches(setup(SignReader(sure=0.06), targets=of, sequences=clips))
        for of in (targets(), [*targets(), *pieced_targets])
    ]
    assert choices[0].each.ngrams
    assert choices[0][:2] == choices[1][:2]
