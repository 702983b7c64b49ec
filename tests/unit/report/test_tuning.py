from typing import Any

from signloom.report.tuning import search_note


def search(objectives: dict[str, str], **changes: Any) -> dict[str, Any]:
    trials = [
        {
            "number": number,
            "state": "PRUNED" if number == 3 else "COMPLETE",
            "value": None if number == 3 else 10.0 + number,
            "values": {name: 10.0 + number for name in objectives} if number != 3 else {},
            "parameters": 1000.0 * number if number != 3 else None,
            "params": {"model.norm": ("pre", "post")[number % 2], "train.learning_rate": 0.01,
                       "model.d_model": 8 * (number + 1), "train.warmup_steps": 10**number},
        }
        for number in range(5)
    ]  # fmt: skip
    return {
        "objective": next(iter(objectives)), "objectives": objectives, "trials": trials,
        "best": {**trials[4], "confirmed": []}, **changes,
    }  # fmt: skip


def test_a_score_is_better_when_it_is_higher() -> None:
    note = search_note(search({"bleu4": "maximize"}))
    assert "5 trials, of which 4 ran to their end and 1 were stopped early" in note
    assert "The highest bleu4 is 14.0000, of trial 4." in note


def test_the_confirmation_is_told() -> None:
    result = search({"dev_loss": "minimize"})
    rows = [{"number": 4, "mean": 1.5, "values": [1.4, 1.6]},
            {"number": 0, "mean": 2.0, "values": [2.0, 2.0]}]  # fmt: skip
    result["best"]["confirmed"] = rows
    note = search_note(result)
    assert "trained again with 2 other seeds each" in note
    assert "trial 4 1.5000 (1.4000 to 1.6000), trial 0 2.0000 (2.0000 to 2.0000)" in note
    assert "The winner is trial 4." in note
