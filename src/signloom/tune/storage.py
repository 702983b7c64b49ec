"""The database of a search, and which study in it is ours."""

import hashlib
import json
import logging
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy.exc

from signloom.errors import UserError
from signloom.provenance import code_hash, library_versions, project_folder
from signloom.training.run import RunOptions
from signloom.tune.space import DECODED, TuneOptions

PREFIX = "signloom-"
PARTS = "parts"  # user attribute of a study: the hash of each thing that decides its numbers
DEAD_AFTER = 3  # missing heartbeats
# Folders whose code decides what a trial is worth; the last two where an objective decodes dev.
PACKAGES = ("corpus", "features", "models", "training", "tune")
DECODING_PACKAGES = ("translation", "evaluation")
UNDECIDING = ("cache_mb", "snapshot_s")  # of the section train: they change no number
OUTAGE = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.DBAPIError)
logger = logging.getLogger(__name__)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide Optuna's own notices of experimental parts and of every trial."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def identify(base: RunOptions, options: TuneOptions, data: Mapping[str, str]) -> dict[str, str]:
    """Hash everything that decides a trial's numbers, part by part.

    How many trials there are, how many processes run them and where they are kept is not among it:
    a search may be extended, moved to more workers, and goes on. How dev is decoded is among it
    only where an objective needs its sentences.
    """
    decodes = any(name in DECODED for name in options.objectives)
    scoring: list[str] = [options.tokenizer] if decodes else []
    scoring += [options.gloss_rules] if options.gloss_rules != "none" else []
    others = asdict(base)
    for name in UNDECIDING:
        del others["train"][name]
    parts = {
        "the space": [options.space, options.first],
        "the objective": [
            options.objectives, options.pruner, asdict(options.limits), options.epochs,
            *scoring,
        ],
        "the seed": options.seed,
        "the other parameters": others,
        "the data": dict(data),
        "the code": code_hash(*PACKAGES, *(DECODING_PACKAGES if decodes else ())),
        "the libraries": [library_versions(), optuna.__version__],
    }  # fmt: skip
    return {name: _digest(content) for name, content in parts.items()}


def study_name(parts: Mapping[str, str]) -> str:
    """Return the name of the study with this identity."""
    return PREFIX + _digest(dict(parts))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def open_storage(url: str, heartbeat_s: int) -> optuna.storages.RDBStorage:
    """Open the database, which is made if it is a file that does not exist.

    Raises:
        UserError: If it cannot be reached.
    """
    if url.startswith("sqlite:///"):
        path = project_folder() / url.removeprefix("sqlite:///")
        _prepare_sqlite(path)
        url = f"sqlite:///{path}"
        engine: dict[str, Any] = {"connect_args": {"timeout": 60}}
    else:
        # The driver that we install; its password comes from PGPASSWORD or ~/.pgpass.
        url = "postgresql+psycopg://" + url.split("://", 1)[1]
        engine = {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}
    try:
        return optuna.storages.RDBStorage(
            url,
            engine_kwargs=engine,
            heartbeat_interval=heartbeat_s,
            grace_period=DEAD_AFTER * heartbeat_s,
        )
    except ImportError as error:
        raise UserError(
            f"tune.storage is a PostgreSQL address, but its driver is missing ({error}); "
            'install it with `pip install "signloom[postgres]"`'
        ) from None
    except (sqlalchemy.exc.SQLAlchemyError, RuntimeError) as error:
        shown = url.split("@")[-1]
        raise UserError(
            f"tune.storage: the database {shown} cannot be used: {str(error).splitlines()[0]}; "
            "check the address and that the server runs, or move a damaged file away"
        ) from error


def _prepare_sqlite(path: Path) -> None:
    """Let readers and a writer work side by side; the setting stays in the file."""
    try:
        with closing(sqlite3.connect(path, timeout=60)) as database:
            database.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise UserError(
            f"tune.storage: {path} cannot be used: {error}; move the file away or name another"
        ) from None


def open_study(
    storage: optuna.storages.RDBStorage,
    name: str,
    parts: Mapping[str, str],
    options: TuneOptions,
    *,
    may_create: bool,
) -> optuna.Study:
    """Open the study of exactly this search, and say so when it is not the last one.

    Args:
        storage: The database.
        name: Of the study.
        parts: What decides its numbers, hashed.
        options: Objectives and pruning.
        may_create: Whether to start it; a worker that joins must not.

    Raises:
        UserError: If there is none and it may not be created; says what is different here.
    """
    names = {study.study_name: study for study in optuna.get_all_study_summaries(storage)}
    if name not in names:
        difference = _difference(list(names.values()), parts)
        if not may_create:
            raise UserError(
                f"the storage has no study of these parameters, data and code. {difference}"
                "Bring this machine to the same state, or start the search with `dvc repro tune`"
            )
        if difference:
            logger.info("a new search. %sThe old trials are kept and not mixed in.", difference)
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        directions=options.directions,
        load_if_exists=True,
        pruner=_pruner(options),
    )
    study.set_user_attr(PARTS, dict(parts))
    return study


def _difference(studies: list[Any], parts: Mapping[str, str]) -> str:
    """Say in what the newest search in the storage differs from this one."""
    ours = [study for study in studies if PARTS in study.user_attrs]
    if not ours:
        return ""
    last = max(ours, key=lambda study: study._study_id)
    before = last.user_attrs[PARTS]
    changed = [name for name in parts if before.get(name) != parts[name]]
    return f"Changed since {last.study_name} ({last.n_trials} trials): {', '.join(changed)}. "


def _pruner(options: TuneOptions) -> optuna.pruners.BasePruner:
    if options.pruner == "median":
        return optuna.pruners.MedianPruner(
            n_startup_trials=3, n_warmup_steps=max(1, options.epochs // 3)
        )
    if options.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=options.epochs)
    return optuna.pruners.NopPruner()
