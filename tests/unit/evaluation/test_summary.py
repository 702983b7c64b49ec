import random
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from signloom.errors import UserError
from signloom.evaluation.compare import compare_runs, read_run
from signloom.evaluation.evaluate import evaluate, seed_name
from signloom.evaluation.metric_names import Metric, System
from signloom.evaluation.metrics import measure, score_corpus, seed_interval
from signloom.evaluation.results import hypothesis_rows, write_evaluation
from signloom.evaluation.summary import KINDS, SeenInTrain, check_input
from signloom.translation.confidence import plain_score, seed_folders
from tests.tiny import TRAIN
from tests.unit.evaluation.world import (
    DECODING,
    OPTIONS,
    SCORE,
    TEST,
    Changed,
    Knowing,
    corpus,
    history,
    targets,
    untrained,
)

CLIPS = {t.clip_id: t for t in targets()}
TEXT_WORDS = ["je", "tu", "vais", "va", "à", "la", "maison", "gare", "demain", "mange", "pomme"]


def test_breakdowns_cover_every_clip_once(knowing: Knowing) -> None:
    mixed = [replace(t, language="de" if t.clip_id == "test1" else "fr") for t in targets()]
    test = evaluate(knowing, mixed, corpus(), OPTIONS).splits["test"].to_map()
    languages = {row["group"]: row["clips"] for row in test["breakdowns"].pop("language")}
    assert languages == {"de": 1, "fr": len(TEST) - 1}
    assert tuple(test["breakdowns"]) == KINDS[:-2]  # all but those of several corpora
    for rows in test["breakdowns"].values():
        assert sum(row["clips"] for row in rows) == len(TEST)
    groups = {kind: [row["group"] for row in rows] for kind, rows in test["breakdowns"].items()}
    assert groups["words"] == ["01-03", "04-06"]
    assert groups["signer"] == ["test_s0", "test_s1"]
    assert groups["sentence"] == ["seen in train", "unseen"]
    assert groups["new_signer"] == ["unseen"]


def test_train_decides_what_is_new_in_a_clip(knowing: Knowing) -> None:
    train, test = (next(t for t in targets() if t.split == split) for split in ("train", "test"))
    sentences = ["one small tea", "one large tea", "one small coffee"]
    in_train = SeenInTrain([replace(train, text=text, signer="anna") for text in sentences])
    target = replace(test, text="one large coffee", signer="anna")
    assert in_train.groups(target) == {
        "sentence": "unseen",
        "novelty": "old words in old frames",
        "new_signer": "seen in train",
    }
    other_target = replace(test, text="one small milk", signer="ben")
    assert in_train.groups(other_target)["novelty"] == "new words in old frames"
    assert in_train.groups(other_target)["new_signer"] == "unseen"
    assert in_train.groups(replace(test, text=sentences[0]))["novelty"] == "known sentences"
    evaluation = evaluate(knowing, targets(), corpus(), OPTIONS)
    (signers,) = evaluation.splits["test"].breakdowns["new_signer"]
    assert (signers.group, signers.clips) == ("unseen", len(TEST))


def test_a_breakdown_scores_each_group_by_itself(knowing: Knowing) -> None:
    clips = corpus()
    sentences = {len(clip.points): CLIPS[clip_id].text for clip_id, clip in clips.items()}
    sentences[len(clips["test1"].points)] = "elle mange"
    test = evaluate(Knowing(knowing, sentences), targets(), clips, OPTIONS).splits["test"]
    wrong = CLIPS["test1"].signer
    pairs = [
        (sentences[len(clips[t.clip_id].points)], t.text)
        for t in targets()
        if (t.split, t.signer) == ("test", wrong)
    ]
    alone = score_corpus(*map(list, zip(*pairs, strict=True)), SCORE)
    rows = {row["group"]: row for row in test.to_map()["breakdowns"]["signer"]}
    assert rows[wrong]["wer"] == round(alone["wer"].value, 4) > 0
    assert rows[wrong]["bleu4_high"] == round(alone["bleu4"].high, 4)
    assert [row["wer"] for name, row in rows.items() if name != wrong] == [0]


def test_lengths_are_counted_in_the_words_of_the_metrics(knowing: Knowing) -> None:
    score = replace(SCORE, tokenizer="char")
    test_result = evaluate(knowing, targets(), corpus(), replace(OPTIONS, score=score)).splits[
        "test"
    ]
    assert [row.group for row in test_result.breakdowns["words"]] == ["10-14", "15-20"]


def test_a_model_that_ignores_its_input_is_named(knowing: Knowing) -> None:
    clips, all_targets = corpus(), targets()
    for target in targets():  # of 3 clips nothing is significant
        again = replace(target, clip_id=f"{target.clip_id}-2")
        clips[again.clip_id] = clips[target.clip_id]
        all_targets += [again] * (target.split == "test")
    looking, blind = (
        evaluate(model, all_targets, clips, OPTIONS)
        for model in (knowing, Changed(knowing, lambda *_: "tu vas à la maison"))
    )
    input_check = looking.splits["test"].to_map()["input_check"]
    assert input_check["model"] == 100
    assert input_check["fall"] == pytest.approx(100 - input_check["swapped"])
    assert input_check["low"] > 0
    assert input_check["uses_input"]
    assert input_check["text"].endswith("the model looks at its input.")
    assert looking.splits["dev"].to_map()["input_check"] is None  # two clips
    input_check = blind.splits["test"].to_map()["input_check"]
    assert (
        input_check["fall"],
        input_check["low"],
        input_check["high"],
        input_check["p_value"],
    ) == (0, 0, 0, 1)
    assert not input_check["uses_input"]
    assert "a fall of 0.0 [0.0, 0.0]: this model ignores its input" in input_check["text"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "writes nothing for each of the 3 clips"),
        ("je vais", "writes one and the same sentence, “je vais”, for each of the 3 clips"),
    ],
)
def test_a_model_that_writes_nothing_or_one_sentence_is_named(
    knowing: Knowing, caplog: pytest.LogCaptureFixture, said: str, words: str
) -> None:
    stuck = Knowing(knowing, dict.fromkeys(knowing._said, said))
    evaluation = evaluate(stuck, targets(), corpus(), OPTIONS)
    assert f"test: This model {words}: it has not learnt to translate" in caplog.text
    assert evaluation.splits["dev"].to_map()["only_sentence"] == said
    single = evaluate(knowing, targets(), corpus(), OPTIONS).splits["test"]
    assert "only_sentence" not in single.to_map()
    assert "next_step" not in single.to_map()
    assert (
        "train, which has 4 clips of 2 signers, as many again of 2 new signers; with 3 signers "
        "`signloom outlook` says"
    ) in evaluation.splits["test"].to_map()["next_step"]


def test_different_sentences_that_have_nothing_to_do_with_the_video_are_named_too() -> None:
    rng = random.Random(4)
    refs = [" ".join(rng.choices(TEXT_WORDS, k=6)) for _ in range(200)]
    hypotheses = rng.sample(refs, 200)
    half = [
        ref if i % 2 else text for i, (ref, text) in enumerate(zip(refs, hypotheses, strict=True))
    ]
    glosses: Any = SimpleNamespace(has_frames=False, name="glosses")
    for texts, source, uses_input in (
        (hypotheses, untrained().source, False),
        (half, glosses, True),
    ):
        counts = {
            System.MODEL: measure(texts, refs, SCORE),
            System.SWAPPED: measure(texts[1:] + texts[:1], refs, SCORE),
        }
        input_check = check_input(counts, SCORE, source)
        assert input_check is not None
        assert input_check.uses_input == uses_input
    assert input_check.to_map()["text"].startswith(
        "Shown the glosses of another clip, chrF goes from"
    )


def test_several_seeds_have_mean_and_spread(knowing: Knowing, tmp_path: Path) -> None:
    second, third = (
        Changed(knowing, lambda text, _, word=word: text.replace("maison", word))
        for word in ("gare", "ville maintenant")
    )
    named_seeds = [("5", second), ("6", third)]
    evaluation = evaluate(knowing, targets(), corpus(), OPTIONS, seed_translators=named_seeds)
    assert evaluation.seeds == ["first", "5", "6"]
    seeds = evaluation.splits["dev"].seeds
    assert seeds is not None
    wer = seeds.spread(Metric.WER)
    # 8 words: none wrong, one wrong, one wrong and one too many.
    assert wer["values"] == [0, 12.5, 25]
    assert (wer["mean"], wer["std"], wer["n"]) == (12.5, 12.5, 3)  # std with n - 1
    # Of three seeds that differ so, the interval is wider than that of clips alone.
    assert wer["low"] <= 0 < 25 <= wer["high"]
    assert seeds.together[Metric.WER].value == 0  # here the first's
    assert evaluation.metrics["dev"]["wer"] == 12.5  # the mean
    bleu4 = [evaluation.metrics["dev"][f"bleu4{end}"] for end in ("_low", "_high")]
    assert bleu4 == pytest.approx(seeds.intervals[Metric.BLEU4], abs=1e-3)
    single = evaluate(knowing, targets(), corpus(), OPTIONS)
    assert single.seeds == []
    assert single.metrics["dev"]["wer"] == 0
    every, alone = (of.splits["dev"].to_map() for of in (evaluation, single))
    assert every["systems"].pop("model")["wer"]["value"] == 12.5
    assert alone["systems"].pop("model")["wer"]["value"] == 0
    assert every == alone  # all else is of the first seed
    # `signloom compare` compares the same number.
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    run = read_run(str(tmp_path))
    assert run.title == f"{tmp_path} (mean of 3 seeds)"
    assert compare_runs(run, run, "dev").differences["wer"].a == 12.5


def test_no_interval_of_seeds_leaves_what_a_metric_can_be() -> None:
    wer = [np.array([0.0, 1.0] * 50), np.array([8.0, 9.0] * 50), np.array([0.0, 0.0] * 50)]
    low, high = seed_interval(wer, SCORE)
    assert low == 0
    assert 3 < high <= 9
    bleu4 = seed_interval([100 - values for values in wer], SCORE)
    assert bleu4 == pytest.approx((100 - high, 100))


def test_seeds_as_one_are_the_model_where_this_is_asked_for() -> None:
    models = [untrained() for _ in range(3)]
    with torch.no_grad():
        for number, model in enumerate(models):
            for weights in model._model.parameters():
                weights += 0.2 * number * torch.randn(weights.shape)
    first, *more = models
    named_seeds, as_one = [("5", more[0]), ("6", more[1])], replace(OPTIONS, together=True)
    with pytest.raises(UserError, match=r"evaluate\.together is true, but there is one model; tr"):
        evaluate(first, targets(), corpus(), as_one)
    hashes = {"5": "a", "6": "b"}
    evaluation = evaluate(
        first, targets(), corpus(), as_one, seed_translators=named_seeds, seeds=hashes
    )
    apart = evaluate(
        first, targets(), corpus(), OPTIONS, seed_translators=named_seeds, seeds=hashes
    )
    assert (evaluation.confidence.seeds, apart.confidence.seeds) == (hashes, {})
    for split in ("dev", "test"):  # each alone, and all as one
        assert evaluation.splits[split].seeds == apart.splits[split].seeds
    seeds = evaluation.splits["test"].seeds
    assert seeds is not None
    columns = next(hypothesis_rows(evaluation.splits["test"], evaluation))
    assert not any(name.startswith("seed_") for name in columns)
    for name in (Metric.BLEU4, Metric.WER):
        joint, mean = seeds.together[name].value, seeds.spread(name)["mean"]
        assert evaluation.metrics["test"][name] == pytest.approx(joint, abs=1e-3)
        assert apart.metrics["test"][name] == pytest.approx(mean, abs=1e-3)
    result = evaluation.splits["test"].result
    translations = first.with_seeds(more).translate(
        [corpus()[t.clip_id] for t in result.targets], DECODING
    )
    assert [translation.hypothesis for translation in result.translations] == [
        translation.hypothesis for translation in translations
    ]
    dev = evaluation.splits["dev"].result.translations
    lowest = min(plain_score(translation.hypothesis) for translation in dev)
    assert evaluation.confidence.levels[0].score == pytest.approx(lowest, abs=1e-3)


def test_the_first_seed_is_named_by_what_training_wrote_about_itself() -> None:
    params = {"train": asdict(replace(TRAIN, seeds=[7]))}
    assert seed_name({"params": params}) == "7"
    assert seed_name({}) == "first"  # of weights from elsewhere


def test_the_checkpoints_of_further_seeds_are_found_by_number(tmp_path: Path) -> None:
    assert seed_folders(tmp_path) == []
    for name in ("10", "2"):
        (tmp_path / "seeds" / name).mkdir(parents=True)
    (tmp_path / "seeds" / "summary.json").write_text("{}")
    assert [folder.name for folder in seed_folders(tmp_path)] == ["2", "10"]
    (tmp_path / "seeds" / "best").mkdir()
    with pytest.raises(UserError, match="named by their seed, found best"):
        seed_folders(tmp_path)
