"""What a challenger must show, on what, and what is decided about it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from signloom.corpus.targets import Target

FORMAT_VERSION = 1  # of decision.json
FLOORS = {"constant": "the best constant sentence", "retrieval": "the nearest training clip"}

Result = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What a challenger must show; the section `retrain.gate` of params.yaml."""

    seeds: int  # models of the challenger, of different seeds, at least; >= 1
    metric: Literal["chrf", "bleu4"]  # that every rule is about
    level: float  # of significance: 0.05 for intervals of 95 %; 0.002 to 0.5
    equal_margin: float  # "equal": surely less than this worse, points; >= 0
    saving: float  # an equal one must save this share of parameters or of CPU time; 0 to 1
    slice_min_clips: int  # smaller groups of clips are shown and not judged; >= 2
    slice_tolerance: float  # surely worse by more than this on a group: refused, points; >= 0

    def __post_init__(self) -> None:
        ranges = {
            "seeds": (1, 1000), "level": (0.002, 0.5), "equal_margin": (0, 100), "saving": (0, 1),
            "slice_min_clips": (2, 10**9), "slice_tolerance": (0, 100),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected {low} to {high:,}")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Said:
    """What the models of a version said.

    Attributes:
        version: Its number.
        texts: Clip id to the sentence of each seed, the served model's first.
        decoding: How they searched, for the record.
        parameters: Of one model.
    """

    version: int
    texts: Mapping[str, Sequence[str]]
    decoding: Mapping[str, Any]
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClips:
    """On what the two are compared.

    Attributes:
        test: The frozen test clips that are still there.
        missing: Ids of those that are not.
        newest: Dev and test clips of the newest batches.
        floors: A key of `FLOORS` to its sentence for each test clip; for a first champion.
    """

    test: Sequence[Target]
    missing: Sequence[str]
    newest: Sequence[Target]
    floors: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule and what became of it."""

    name: str
    result: Result
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether the challenger becomes champion, and why."""

    version: int
    champion: int | None
    promote: bool
    rules: tuple[Rule, ...]
    figures: Mapping[str, Any]

    @property
    def reasons(self) -> list[str]:
        """A line a rule."""
        return [f"{rule.name} {rule.result}: {rule.text}" for rule in self.rules]

    @property
    def verdict(self) -> str:
        """The decision in a sentence."""
        if self.promote:
            over = f"takes the place of version {self.champion}"
            return f"version {self.version} {over if self.champion else 'is the first champion'}"
        failed = ", ".join(rule.name for rule in self.rules if rule.result == "failed")
        stays = f"version {self.champion} stays champion" if self.champion else "there is none yet"
        return f"version {self.version} does not become champion ({failed}); {stays}"

    def to_map(self) -> dict[str, Any]:
        """Return everything as plain maps for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "version": self.version,
            "champion": self.champion,
            "promote": self.promote,
            "verdict": self.verdict,
            "reasons": self.reasons,
            "rules": [asdict(rule) for rule in self.rules],
            **self.figures,
        }
