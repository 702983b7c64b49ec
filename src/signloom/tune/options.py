"""The section `tune` of params.yaml comes in, a checked description of a search goes out."""

from dataclasses import dataclass
from typing import Any, Literal

from signloom.decoding import DecodingOptions
from signloom.tune.space import parse_first, parse_space

Objective = Literal["dev_loss", "bleu4", "wer", "latency_ms", "parameters"]
HIGHER_IS_BETTER = ("bleu4",)
DECODED = ("bleu4", "wer", "latency_ms")  # need the sentences of dev
MAX_SEED = 2**32 - 1  # of NumPy's generator, which Optuna seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a trial may cost at most; null sets no limit. A trial beyond one cannot win."""

    parameters: int | None  # of the model, known before it trains
    memory_mb: int | None  # peak of the process (CPU) or of its tensors (GPU)
    seconds: int | None  # of training

    def __post_init__(self) -> None:
        for name in ("parameters", "memory_mb", "seconds"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name}: found {limit}, expected at least 1, or null")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmOptions:
    """How the best trials are trained again with other seeds, so that no lucky seed wins."""

    top: int  # trials confirmed beside the current parameters; 0: none
    seeds: int  # trainings of each, >= 1

    def __post_init__(self) -> None:
        for name, least in (("top", 0), ("seeds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected {least} or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The section `tune` of params.yaml."""

    seed: int  # of the search; each trial trains with the first of train.seeds
    trials: int  # finished trials, >= 1
    epochs: int  # of a trial, at most, >= 1
    objectives: tuple[Objective, ...]  # one, or several for a Pareto front; the first decides
    pruner: Literal["none", "median", "hyperband"]  # what stops a trial by its dev loss
    storage: str  # sqlite:///FILE, or postgresql://USER@HOST/DATABASE
    workers: int  # processes on this machine, >= 1
    heartbeat_s: int  # seconds between a trial's signs of life; dead after three missing ones
    limits: Limits
    confirm: ConfirmOptions
    decoding: DecodingOptions  # of dev, where an objective needs its sentences
    # Of bleu4, see evaluate.score.
    tokenizer: Literal["13a", "intl", "char", "zh", "none", "phoenix_legacy"]
    first: list[dict[str, Any]]  # tried after the current parameters, from `section.key` to value
    space: dict[str, Any]  # from `section.key` to {choices: [...]} or {low, high, log}

    def __post_init__(self) -> None:
        if not 0 <= self.seed < MAX_SEED:
            raise ValueError(f"seed: found {self.seed}, expected 0 to {MAX_SEED - 1}")
        for name in ("trials", "epochs", "workers", "heartbeat_s"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise ValueError(f"objectives: found {self.objectives}, expected one or more, once")
        if len(self.objectives) > 1 and self.pruner != "none":
            raise ValueError(
                "pruner: a trial with several objectives cannot be judged by its dev loss; "
                "set `pruner: none`"
            )
        if not self.storage.startswith(("sqlite:///", "postgresql")):
            raise ValueError(
                f"storage: found {self.storage!r}, expected sqlite:///FILE or "
                "postgresql://USER@HOST/DATABASE"
            )
        parse_first(self.first, parse_space(self.space))

    @property
    def directions(self) -> list[str]:
        """How each objective is better, in Optuna's words."""
        return ["maximize" if o in HIGHER_IS_BETTER else "minimize" for o in self.objectives]
