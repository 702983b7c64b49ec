import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from signloom.config import load_params, load_section
from signloom.errors import UserError
from signloom.features.targets import CtcLabels
from signloom.models.seq2seq import ModelOptions
from signloom.tracking.run import Run, RunOf, TrackingOptions
from signloom.training.train import count_parameters, train
from signloom.tune.objective import measure_gloss_wer
from signloom.tune.search import plan_search
from signloom.tune.space import (
    ConfirmOptions,
    TrialLimits,
    TuneOptions,
    apply_values,
    check_fit,
    current_values,
    overrides_of,
    parse_first,
    parse_space,
)
from signloom.tune.storage import FINISHED, REASON
from tests import tiny
from tests.unit.evaluation.world import CLIPS, SignReader
from tests.unit.tune.searches import HASHES, OFF, OPTIONS, search_in


def test_the_documents_configuration_is_tried_where_the_space_has_room(tmp_path: Path) -> None:
    """Options that are not searched belong to it, too, in the trial and in what is adopted."""
    configuration = {
        "model.d_model": 8,
        "train.learning_rate": 0.01,
        "model.activation": "relu",
        "model.d_ff": 24,
        "model.decoder_norm": False,
    }
    options = dataclasses.replace(
        OPTIONS, trials=2, first=[configuration], confirm=ConfirmOptions(top=2, seeds=1)
    )
    search = search_in(tmp_path, options)
    search.work()
    summary = search.summary()
    assert summary["notes"] == []
    assert summary["trials"][0]["params"]["model.d_model"] == 16  # first the current parameters
    drawn = search.study.trials[1].user_attrs["drawn"]
    assert configuration.items() <= drawn.items()
    assert summary["trials"][1]["params"].keys() == summary["trials"][0]["params"].keys()
    confirmation = search.confirmation()
    assert confirmation
    trained = confirmation[1][1].model
    assert (trained.d_model, trained.activation, trained.d_ff) == (8, "relu", 24)
    assert not trained.decoder_norm
    # What it weighs is what these options weigh, not those of the file.
    expected = count_parameters(search.plan.data, apply_values(search.plan.base, drawn))
    assert summary["trials"][1]["parameters"] == expected


def test_outside_the_space_what_is_nearest_is_tried_and_said() -> None:
    space = parse_space(OPTIONS.space)
    largest = max(space["model.d_model"].ends)
    (start,) = parse_first([{"model.d_model": 512, "model.activation": "relu"}], space)
    assert start.values == {"model.d_model": largest}
    assert start.others == {}
    assert f"model.d_model {largest} instead of 512; of model.activation the current" in start.note


def test_the_demo_tries_document_000_as_far_as_its_space_goes() -> None:
    tune = load_section(tiny.ROOT / "params.yaml", "tune", TuneOptions)
    (named,) = tune.first
    preset = load_params(tiny.ROOT / "presets/sign-transformer.yaml")["model"]
    ours = {name.removeprefix("model."): value for name, value in named.items()}
    assert ours.pop("head_width") == preset["d_model"] // preset.pop("heads")
    base = dataclasses.asdict(load_section(tiny.ROOT / "params.yaml", "model", ModelOptions))
    stated = {name: value for name, value in preset.items() if name in ours or value != base[name]}
    assert {name: ours[name] for name in stated} == stated  # all in which it differs from the file
    (start,) = parse_first(tune.first, parse_space(tune.space))
    assert start.values == {
        "model.norm": "post",
        "model.dropout": 0.1,
        "model.d_model": 192,
        "model.head_width": 32,
        "model.encoder_layers": 3,
        "model.decoder_layers": 3,
        "train.learning_rate": 5e-4,
    }
    assert start.others == {}


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ({"model.norm": "both"}, r"first\[0\].model.norm: 'both' lies outside"),
        ({"model.size": 3}, r"first\[0\].model.size is not an option"),
        ({"train.epochs": 3}, r"first\[0\].train.epochs is not an option"),
    ],
)
def test_an_impossible_first_trial_is_refused(first: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(OPTIONS, first=[first])


def test_the_winner_is_the_best_over_seeds_that_did_not_choose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, start = [], Run.start

    def note(options: TrackingOptions, of: RunOf, **more: Any) -> Run:
        names.append(of.name)
        return start(options, of, **more)

    monkeypatch.setattr(Run, "start", staticmethod(note))
    options = dataclasses.replace(OPTIONS, confirm=ConfirmOptions(top=2, seeds=2))
    search = search_in(tmp_path, options)
    search.work(confirms=False)
    confirmation = search.confirmation()
    assert confirmation
    study, candidates = confirmation
    count = 2 * len(candidates)
    assert search.unconfirmed() == count
    search.work()
    assert search.unconfirmed() == 0
    assert len(study.get_trials(states=FINISHED)) == count
    best = search.summary()["best"]
    means = [sum(row["values"]) / 2 for row in best["confirmed"]]
    assert means == sorted(means)
    assert best["number"] == best["confirmed"][0]["number"]
    again = sorted(row["number"] for row in best["confirmed"])
    assert 0 in again  # the current parameters, always
    assert names[:3] == ["trial 00", "trial 01", "trial 02"]
    assert sorted(names[3:]) == [f"confirm trial {n:02}, seed {s}" for n in again for s in (1, 2)]
    by_hand = apply_values(search.plan.base, best["params"])
    by_hand = dataclasses.replace(by_hand, train=dataclasses.replace(by_hand.train, seeds=[3 + 1]))
    _, fit = train(tiny.training_data(), by_hand, provenance={}, log=lambda record: None)
    assert best["confirmed"][0]["values"][0] == fit.dev_loss


def test_a_trial_beyond_its_limit_stops(tmp_path: Path) -> None:
    limits = TrialLimits(parameters=5000)
    search = search_in(tmp_path, dataclasses.replace(OPTIONS, trials=1, limits=limits))
    search.work()
    (trial,) = search.study.get_trials()
    assert trial.state.name == "PRUNED"
    assert re.search("parameters .* of 5000", trial.user_attrs[REASON])
    assert max(trial.constraints.values()) > 0
    with pytest.raises(UserError, match=r"widen tune\.limits"):
        search.summary()


def test_the_width_of_the_feed_forward_follows_its_ratio() -> None:
    base = tiny.run_options()
    assert apply_values(base, {"model.d_ff_ratio": 2.5, "model.d_model": 8}).model.d_ff == 20
    space = parse_space({"model.d_ff_ratio": {"low": 1, "high": 4}})
    assert current_values(base, space) == {"model.d_ff_ratio": 1.5}
    assert overrides_of(base, {"model.d_ff_ratio": 2.0}) == {"model": {"d_ff": 32}}


@pytest.mark.parametrize(
    ("space", "refused"),
    [
        ({"train.ctc_weight": {"low": 0.9, "high": 1.5}}, "train.ctc_weight: 1.5 cannot be"),
        ({"augment.noise": {"low": -1, "high": 0.1}}, "augment.noise: -1.0 cannot be trained"),
        ({"model.decoder_layers": {"choices": [0, 1]}}, "model.decoder_layers: 0 has no dev loss"),
        ({"model.d_model": {"choices": [24, 6]}, "model.head_width": {"choices": [3]}}, ""),
    ],
)
def test_what_no_trial_could_train_with_is_said_before(space: Any, refused: str) -> None:
    is_fit = pytest.raises(UserError, match=refused) if refused else contextlib.nullcontext()
    with is_fit:
        check_fit(tiny.run_options(), parse_space(space), "dev_loss")


def test_what_the_family_does_not_read_is_not_searched(caplog: pytest.LogCaptureFixture) -> None:
    space = {
        name: {"choices": choices}
        for name, choices in {
            "model.head_width": [4, 8],
            "model.attention": ["dot", "none"],
            "model.dropout": [0, 0.1],
            "model.decoder_layers": [1, 2],
        }.items()
    }
    first = [{"model.head_width": 4, "model.dropout": 0}]
    options = dataclasses.replace(OPTIONS, space=space, first=first)
    alone = "model.attention, model.decoder_layers"
    for family, layers, unread in (("transformer", 0, alone), ("lstm", 1, "model.head_width")):
        sizes: Any = {"family": family, "decoder_layers": layers, "heads": 4, "d_ff": 256}
        model = dataclasses.replace(tiny.MODEL, **sizes)
        base = dataclasses.replace(tiny.run_options(), model=model)
        search = plan_search(tiny.training_data(), base, options, OFF, hashes=HASHES)
        assert search.options.space.keys() == space.keys() - {*unread.split(", ")}
        assert ("model.head_width" in search.options.first[0]) == (family == "transformer")
        assert (
            f"{family}{' without a decoder' * (not layers)} does not read it: {unread}"
            in caplog.text
        )


def test_what_decides_no_number_starts_no_new_search() -> None:
    data = tiny.training_data()

    def name(options: TuneOptions = OPTIONS, **changes: object) -> str:
        base = tiny.run_options(**{"seeds": [3], **changes})
        return plan_search(data, base, options, OFF, hashes=HASHES).name

    same: list[dict[str, object]]
    same = [{"seeds": [3, 4]}, {"cache_mb": 1}, {"snapshot_s": 1.0}, {"epochs": 9}]
    assert {name(**changes) for changes in same} == {name()}
    changes: list[dict[str, object]] = [
        {"seeds": [4]},
        {"optimizer": "adam"},
        {"weight_decay": 0.5},
    ]
    space = {key: value for key, value in OPTIONS.space.items() if key != "model.norm"}
    changed = dataclasses.replace(OPTIONS, space=space)
    assert name() not in {name(changed), *(name(**changes) for changes in changes)}
    more = dataclasses.replace(OPTIONS, trials=9, workers=3, heartbeat_s=1, storage="sqlite:///x")
    assert name(more) == name()


def test_signs_can_be_the_objective_of_a_model_that_reads_them() -> None:
    clips = [CLIPS[name] for name in ("test0", "test1", "test2")]
    glosses = [["DEMAIN", "TU", "VIENS"], ["ELLE", "NON", "MANGE"], []]
    # Of "ELLE MANGE À LA GARE" three signs are too many, and NON is missing.
    assert measure_gloss_wer(SignReader(), clips, glosses) == pytest.approx(100 * 4 / 6)


def test_signs_that_cannot_be_scored_are_refused_before_the_first_training(tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS, objectives=("gloss_wer",))
    data, base = tiny.training_data(), tiny.run_options()
    bare = [dataclasses.replace(target, gloss="") for target in data.dev.targets]
    mute = dataclasses.replace(data, dev=dataclasses.replace(data.dev, targets=bare))
    deaf = dataclasses.replace(base, train=dataclasses.replace(base.train, ctc_weight=0.0))
    spells = dataclasses.replace(data, labels=CtcLabels(kind="characters", names=("a", "b")))
    for training_data, run_options, problem in (
        (data, deaf, "ctc_weight is 0"),
        (spells, base, "CTC spells characters"),
        (mute, base, "no dev clip has glosses"),
    ):
        with pytest.raises(UserError, match=f"gloss_wer, but .*{problem}"):
            plan_search(training_data, run_options, options, OFF, hashes=HASHES)
