"""The section `retrain` of params.yaml, and what else of that file a night reads."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from signloom.config import UserError, load_params, load_section, parse_value
from signloom.corpus.drift.options import DriftOptions
from signloom.corpus.intake import IngestOptions
from signloom.corpus.manifest import CorpusOptions
from signloom.retraining.gate import GateOptions
from signloom.tracking.run import TrackingOptions

Start = Literal["champion", "scratch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrainOptions:
    """What a night does."""

    inbox: Path
    """Where new deliveries lie, from the project's root; it may be missing."""
    start: Start
    """The weights that training starts from: the champion's, or none."""
    remote: str
    """DVC remote to pull from first and push to at the end; empty: none."""
    commit: bool
    """Commit what the night wrote to git."""
    hook: str
    """Command run at the end, the path of night.json behind it; no shell; empty: none."""
    ingest: IngestOptions
    drift: DriftOptions
    gate: GateOptions

    def __post_init__(self) -> None:
        """Refuse a hook that cannot be taken apart."""
        try:
            shlex.split(self.hook)
        except ValueError as error:
            raise ValueError(f"hook: found {self.hook!r}: {error}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The parameters file as a night sees it."""

    params: Path
    corpus: CorpusOptions
    tracking: TrackingOptions
    retrain: RetrainOptions


def read_settings(params: Path) -> Settings:
    """Read and check what a night needs, before it spends hours.

    Raises:
        UserError: What is wrong with the file; a model of glosses; or fewer seeds than the gate
            asks for.
    """
    retrain = load_section(params, "retrain", RetrainOptions)
    # The sections as a whole are for `train` to read: their options would load torch here.
    content = load_params(params)
    if (content.get("model") or {}).get("source") == "tokens":
        raise UserError(
            f"{params}: model.source is tokens, and a night is for models of landmarks; set "
            "model.source: landmarks"
        )
    train = content.get("train") or {}
    seeds = parse_value(train.get("seeds"), list[int], where=f"{params}: train.seeds")
    assert isinstance(seeds, list)
    if len(seeds) < retrain.gate.seeds:
        raise UserError(
            f"{params}: train.seeds has {len(seeds)} seeds, and a challenger is judged by "
            f"{retrain.gate.seeds} (retrain.gate.seeds); set train.seeds: "
            f"{list(range(1, retrain.gate.seeds + 1))}"
        )
    return Settings(
        params=params,
        corpus=load_section(params, "corpus", CorpusOptions),
        tracking=load_section(params, "tracking", TrackingOptions),
        retrain=retrain,
    )
