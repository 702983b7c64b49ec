"""The section `evaluate` of params.yaml."""

from dataclasses import dataclass

from signloom.decoding import DecodingOptions
from signloom.metrics import METRICS, ScoreOptions
from signloom.models.precision import Precision

# Columns of hypotheses.tsv and entries of metrics.json, in whose place no command may write.
TAKEN = {
    *METRICS, "clip_id", "split", "signer", "seen_in_train", "reference", "hypothesis", "greedy",
    "blind", "swapped", "retrieval", "bleu", "hands", "fps", "seconds", "log_prob", "score",
    "tokens", "clips", "missing", "seeds", "seen", "unseen", "ignores_input", "signature",
    "gloss", "unknown_glosses",
}  # fmt: skip
TAKEN_PREFIXES = ("greedy_", "blind_", "swapped_", "floor_", "retrieval_", "random_", "copy_")
TAKEN_SUFFIXES = ("_low", "_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """Searches tried on dev; the best by BLEU-4 is used everywhere. Empty: `decoding` as it is."""

    beam_sizes: tuple[int, ...]  # tried with each length penalty, >= 1
    length_penalties: tuple[float, ...]  # >= 0

    def __post_init__(self) -> None:
        if bool(self.beam_sizes) != bool(self.length_penalties):
            raise ValueError("grid: give both beam_sizes and length_penalties, or leave both empty")
        if any(size < 1 for size in self.beam_sizes):
            raise ValueError(f"beam_sizes: found {self.beam_sizes}, expected 1 or more each")
        if any(penalty < 0 for penalty in self.length_penalties):
            raise ValueError(f"length_penalties: found {self.length_penalties}, expected 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """How the model searches and how what it finds is scored."""

    precision: Precision  # of the weights while they translate
    decoding: DecodingOptions
    grid: GridOptions
    score: ScoreOptions
    # Further metrics: name to a command that reads JSON lines (clip_id, source, hypothesis,
    # reference) and prints a number for each. Empty: none.
    commands: dict[str, str]

    def __post_init__(self) -> None:
        for name, command in self.commands.items():
            is_taken = name.startswith(TAKEN_PREFIXES) or name.endswith(TAKEN_SUFFIXES)
            if name in TAKEN or is_taken or not name.isidentifier():
                raise ValueError(
                    f"commands: {name!r} cannot name a metric; use letters, digits and _, and no "
                    "name that metrics.json or hypotheses.tsv has already, such as comet"
                )
            if not command.strip():
                raise ValueError(f"commands.{name}: the command is empty")
