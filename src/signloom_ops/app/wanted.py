"""What to record next, with reasons: rare and confused words, unsure sentences, few signers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.features.targets import Target, read_targets
from signloom.paths import EVALUATION, HYPOTHESES_NAME, PARAMS, TARGETS
from signloom.report.stage_files import read_table
from signloom_ops.intake.changes import read_rejects

RARE = 3  # a word in fewer train clips than this is rare
FEW = 3  # a sentence signed by fewer people than this
UNSURE = 0.5  # a dev clip whose translation is right with less than this probability


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a sentence is wanted, in figures that a page can put into words."""

    kind: str  # rare, confused, unsure or signers
    word: str = ""  # of rare and confused
    other: str = ""  # what a confused word was taken for
    count: float = 0.0  # clips of a rare word, confusions, probability, signers


@dataclass(frozen=True, slots=True)
class Wanted:
    """A sentence that would teach the model something."""

    text: str
    reasons: list[Reason]


def list_wanted(
    *, targets: Path = TARGETS, evaluation: Path = EVALUATION, most: int = 50
) -> list[Wanted]:
    """Return sentences of train and dev worth recording, the most urgent first.

    Sentences of test are not proposed: who records them spoils the score.

    Args:
        targets: What `tokenize_targets` wrote.
        evaluation: What `evaluate` wrote; without it only the corpus itself is looked at.
        most: How many, at most.

    Raises:
        UserError: If there are no targets, or a file is damaged.
    """
    known = read_targets(targets)
    test = {one.text for one in known if one.split == "test"}
    train = [one for one in known if one.split == "train"]
    clips_of = Counter(word for one in train for word in set(_words(one.text)))
    confused = _read_confused(evaluation / "confusions.csv")
    unsure = _read_unsure(evaluation / HYPOTHESES_NAME)
    signers = Counter(text for text, _ in {(one.text, one.signer) for one in train})

    def reasons_of(text: str) -> Iterator[Reason]:
        words = dict.fromkeys(_words(text))
        for word in words:
            if clips_of[word] < RARE:
                yield Reason("rare", word=word, count=clips_of[word])
        for word in words:
            for other, count in confused.get(word, ()):
                yield Reason("confused", word=word, other=other, count=count)
        if text in unsure:
            yield Reason("unsure", count=unsure[text])
        if 0 < signers[text] < FEW:
            yield Reason("signers", count=signers[text])

    texts = dict.fromkeys(one.text for one in known if one.text not in test)
    found = [Wanted(text, reasons) for text in texts if (reasons := [*reasons_of(text)])]
    return _say_once(sorted(found, key=lambda one: (-_urgency(one), one.text)))[:most]


def find_wanted() -> dict[str, Any]:
    """Return what to record next, for JSON.

    Raises:
        UserError: As `list_wanted`.
    """
    return {
        "sentences": [asdict(one) for one in list_wanted()],
        "signers": count_signers(read_targets(TARGETS)),
        "again": list_refused(),
    }


def list_refused() -> list[dict[str, str]]:
    """Return what was left out of the corpus and could be recorded again."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    return [
        {"clip": one.where, "reason": one.reason, "hint": one.hint} for one in read_rejects(corpus)
    ]


def count_signers(known: Sequence[Target]) -> dict[str, int]:
    """Return how many clips of train each person signed, the fewest first."""
    found = Counter(one.signer for one in known if one.split == "train")
    return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))


def _say_once(found: Iterable[Wanted]) -> list[Wanted]:
    """Return sentences with the reasons that none before them has: a recording cures each once."""
    kept, said = list[Wanted](), set[tuple[str, str]]()
    for one in found:
        new = [why for why in one.reasons if (why.kind, why.word or one.text) not in said]
        said |= {(why.kind, why.word or one.text) for why in new}
        if {why.kind for why in new} - ({"signers"} if len(one.reasons) > 1 else set()):
            kept.append(Wanted(one.text, new))
    return kept


def _urgency(one: Wanted) -> float:
    """Return how much a sentence would teach: each reason counts, the worst cases more."""
    weights = {"rare": 2.0, "confused": 1.0, "unsure": 1.0, "signers": 0.5}
    return sum(
        weights[reason.kind] * (reason.count if reason.kind == "confused" else 1.0)
        for reason in one.reasons
    )


def _words(text: str) -> list[str]:
    return text.casefold().split()


def _read_confused(path: Path) -> dict[str, list[tuple[str, int]]]:
    """Return what dev's words were taken for, and how often."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in _read(path):
        if row["split"] == "dev" and row["kind"] == "substitute":
            found[row["reference"].casefold()].append((row["hypothesis"], int(row["count"])))
    return found


def _read_unsure(path: Path) -> dict[str, float]:
    """Return dev's sentences that the model is unsure of, with the least probability of each."""
    found: dict[str, float] = {}
    for row in _read(path):
        if row["split"] == "dev" and row.get("confidence"):
            sure = float(row["confidence"])
            if sure < UNSURE:
                found[row["reference"]] = min(sure, found.get(row["reference"], 1.0))
    return found


def _read(path: Path) -> list[dict[str, str]]:
    return read_table(path, stage="evaluate") if path.is_file() else []
