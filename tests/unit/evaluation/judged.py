"""Systems and judges that say what a test wants."""

import dataclasses
from pathlib import Path
from typing import Any

from signloom.evaluation.compare import PastRun, ScoredSentence
from signloom.evaluation.judgements import (
    BlindAnswer,
    JudgementResult,
    Judgements,
    JudgeTask,
    prepare_task,
    show_blind,
)
from tests.unit.evaluation.texts import options

CLIPS = 30


def run(name: str, clips: int = CLIPS, **changes: Any) -> PastRun:
    """A system that says its name and, of every third clip, what all say."""
    sentences = {
        f"clip{n}": ScoredSentence(
            reference=f"reference {n}", hypothesis="same" if n % 3 == 0 else f"{name} {n}"
        )
        for n in range(clips)
    }
    plain = PastRun(
        name=f"runs/{name}",
        options=options(),
        splits={"test": sentences},
        weights=f"weights of {name}",
    )
    return dataclasses.replace(plain, **changes)


def task(**changes: Any) -> JudgeTask:
    settings = {"clips": 20, "seed": 4, "differing": False, **changes}
    return prepare_task(run("old"), run("new"), "test", **settings)


def say(judgements: Judgements, judge: str, clip: int, preferred: str, new: int, old: int) -> None:
    """Answer as somebody who knows what each system says."""
    (shown,) = (
        pair
        for pair in show_blind(judgements.read("t"), judgements.sheet("t", judge))
        if pair["clip_id"] == judgements.read("t").pairs[clip].clip_id
    )
    is_first = shown["sentences"][0].startswith("new")
    names = {"new": "first" if is_first else "second", "old": "second" if is_first else "first"}
    points = (new, old) if is_first else (old, new)
    choice: Any = names.get(preferred, "equal")
    answer = BlindAnswer(judge=judge, clip_id=shown["clip_id"], preferred=choice, scores=points)
    judgements.answer("t", answer)


def judge(folder: Path, preferred: str, **changes: str) -> JudgementResult:
    """Let two judges prefer one system in 15 of 20 clips; `changes` names the weights of each."""
    judgements, prepared = Judgements(folder), task(differing=True)
    for system, weights in changes.items():
        judged_system = dataclasses.replace(getattr(prepared, system), weights=weights)
        prepared = dataclasses.replace(prepared, **{system: judged_system})
    judgements.add("t", prepared)
    for name in ("anna", "ben"):
        for clip in range(20):
            say(judgements, name, clip, preferred if clip < 15 else "equal", 50, 50)
    return judgements.results()[0]
