"""The kept versions of a model, and which of them is in use.

Versions are made by nights (the package signloom_ops), and only read here.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from signloom.config import (
    check_shape,
    check_version,
    checked_dataclass,
    parse_options,
    parse_record,
    read_json,
    shape,
)
from signloom.errors import UserError
from signloom.evaluation import schemas
from signloom.files import hash_folder
from signloom.paths import CHECKPOINT, EVALUATION, MODELS, SCORES_NAME
from signloom.translation.options import DecodingOptions
from signloom_tools.dvc import stages_at_work

if TYPE_CHECKING:
    from signloom.translation.precision import Precision

FORMAT_VERSION = 2  # of champion.json; in version 1 its last three fields were other files
CHECKPOINT_NAME, EVALUATION_NAME = "checkpoint", "evaluation"  # in a version's folder
POINTER, VERSION = "champion.json", "version.json"  # the latter in a version's folder
HINT = f"bring it back with `dvc checkout {MODELS}.dvc` or `dvc pull`"

_KEPT = shape(checkpoint_hash=(str, ""))  # of version.json

Action = Literal["promote", "rollback"]
Verdict = Literal["promote", "refuse"]


@checked_dataclass
class Change:
    """A change of champion."""

    version: int  # champion since then
    action: Action
    former: int | None
    time: str  # UTC, ISO 8601
    by: str  # who or what decided


@checked_dataclass
class Pointer:
    """The content of champion.json: all that is known of the versions and may change."""

    format_version: int = FORMAT_VERSION
    champion: int | None
    challenger: int | None  # the newest version that was added and did not become champion
    history: tuple[Change, ...]
    frozen_test: tuple[str, ...] | None = None  # clips on which champions are compared
    # By name of a version's folder: what the gate decided (why is in decision.json), and notes.
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    marks: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def line(self) -> list[int]:
        """Champions in order; a rollback returns to the one before the last."""
        line: list[int] = []
        for change in self.history:
            if change.action == "rollback":
                line.pop()
            else:
                line.append(change.version)
        return line

    def move(self, version: int, action: Action, by: str) -> "Pointer":
        """Return the pointer with another champion, now."""
        change = Change(
            version=version,
            action=action,
            former=self.champion,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            by=by,
        )
        challenger = None if self.challenger == version else self.challenger
        history = (*self.history, change)
        return replace(self, champion=version, challenger=challenger, history=history)

    def challenge(self, version: int) -> "Pointer":
        """Return the pointer with a challenger; a champion stays what it is."""
        return self if version == self.champion else replace(self, challenger=version)


def folder_name(version: int) -> str:
    """Return the name of a version's folder."""
    return f"{version:04}"


class Versions:
    """The versions of a project's model, in a folder; this class reads them only."""

    def __init__(self, root: Path = MODELS) -> None:
        """Use a folder, which may be missing: then there is no version."""
        self.root = root

    def champion(self) -> int | None:
        """Return the version in use.

        Raises:
            UserError: If its folder is missing.
        """
        version = self.pointer().champion
        if version is not None:
            self.check_known(version)
        return version

    def challenger(self) -> int | None:
        """Return the newest version that was added, unless it became champion or was removed."""
        version = self.pointer().challenger
        return version if version in self.versions() else None

    def pointer(self) -> Pointer:
        """Return the content of champion.json; without the file there is no champion.

        Raises:
            UserError: If it is damaged or of another format version.
        """
        path = self.root / POINTER
        if not path.is_file():
            return Pointer(champion=None, challenger=None, history=())
        content = read_json(path, hint=HINT)
        if not isinstance(content, dict) or content.get("format_version") != 1:
            check_version(path, content, FORMAT_VERSION, hint="use the Signloom that wrote it")
        return parse_record(content, Pointer, where=str(path), hint=HINT)

    def versions(self) -> list[int]:
        """Return the numbers of all versions, the oldest first."""
        names = (path.name for path in self.root.glob("[0-9]*") if path.is_dir())
        return sorted(int(name) for name in names if name.isdigit())

    def folder(self, version: int) -> Path:
        """Return where a version lies or would lie."""
        return self.root / folder_name(version)

    def checkpoint(self, version: int) -> Path:
        """Return the checkpoint of a version, its further seeds in it."""
        return self.folder(version) / CHECKPOINT_NAME

    def evaluation(self, version: int) -> Path:
        """Return what `evaluate` found for a version, metrics.json among it."""
        return self.folder(version) / EVALUATION_NAME

    def check_known(self, version: int) -> None:
        """Refuse a version that is not there.

        Raises:
            UserError: With the numbers of those that are.
        """
        if not self.checkpoint(version).is_dir():
            versions = ", ".join(map(str, self.versions())) or "none"
            raise UserError(
                f"{self.root} has no version {version} (there: {versions}); if it should be there, "
                f"{HINT}"
            )

    def resolve(self, name: str) -> int:
        """Turn `champion`, `challenger` or a number into the number of a version.

        Raises:
            UserError: If there is no such version.
        """
        if name.isascii() and name.isdigit():
            self.check_known(int(name))
            return int(name)
        if name not in ("champion", "challenger"):
            raise UserError(f"model {name!r}: expected champion, challenger or a version's number")
        version = self.champion() if name == "champion" else self.challenger()
        if version is None:
            raise UserError(
                f"{self.root} has no {name} yet; `signloom retrain` makes one, `signloom champion "
                "list` names the versions"
            )
        return version

    def search_options(self, version: int) -> dict[str, Any]:
        """Return how a version searches: `decoding`, chosen by its evaluation, and `precision`.

        Raises:
            UserError: If its evaluation is missing or damaged.
        """
        path = self.evaluation(version) / SCORES_NAME
        content = read_json(path, hint=HINT)
        check_shape(content, schemas.SEARCHED, where=path, hint=HINT)
        decoding = parse_options(content["decoding"], DecodingOptions, where=f"{path}: decoding")
        return {"decoding": decoding, "precision": content["options"]["precision"]}


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that a person names, and how it is to search: as it did when it was judged."""

    checkpoint: Path
    decoding: DecodingOptions | None = None  # None: as `evaluate` chose
    precision: "Precision" = "float32"

    def __post_init__(self) -> None:
        """Refuse the project's checkpoint while DVC, which has removed it, trains another."""
        if self.checkpoint.resolve().is_relative_to(CHECKPOINT.resolve()):
            check_made(self.checkpoint)


def check_made(path: Path) -> None:
    """Refuse what a stage writes while DVC, which removes it first, is at work.

    Raises:
        UserError: If it is not there, and a stage is.
    """
    if not path.exists() and (working := stages_at_work()):
        raise UserError(
            f"{path} is being made: {', '.join(working)}. DVC removed the last one when that "
            "began; wait until it ends, or take a version that was kept (`signloom champion list`)"
        )


def check_kept(checkpoint: Path) -> None:
    """Compare the files of a version's checkpoint with the hash in the version.json next to it.

    Args:
        checkpoint: One that is of no version has no such file, and is let pass.

    Raises:
        UserError: If they differ, or version.json is damaged.
    """
    path = checkpoint.resolve().parent / VERSION  # "." has no name
    if not path.is_file():
        return
    record = check_shape(read_json(path, hint=HINT), _KEPT, where=path, hint=HINT)
    digest, expected = hash_folder(checkpoint), record.get("checkpoint_hash", "none")
    if digest != expected:
        raise UserError(
            f"{checkpoint} is not what it was when it was kept (found SHA-256 {digest[:16]}, "
            f"expected {expected[:16]}): a file is torn or was changed, or its weights were "
            f"removed as those of an old version; {HINT}"
        )


def find_version(name: str) -> NamedModel:
    """Return a version by its name, `champion`, `challenger` or a number.

    Raises:
        UserError: If there is no such version, or its files are missing or damaged.
    """
    versions = Versions()
    version = versions.resolve(name)
    check_kept(versions.checkpoint(version))
    return NamedModel(versions.checkpoint(version), **versions.search_options(version))


@dataclass(frozen=True, slots=True)
class CurrentModel:
    """The model in use and its evaluation."""

    checkpoint: Path
    evaluation: Path
    name: str


def find_current() -> CurrentModel:
    """Return the app's model: the champion, or before the first one what was trained last.

    It may be missing. Commands take `ModelChoice` of cli/model_choice.py.
    """
    versions = Versions()
    if (version := versions.champion()) is None:
        return CurrentModel(CHECKPOINT, EVALUATION, CHECKPOINT.as_posix())
    return CurrentModel(
        versions.checkpoint(version), versions.evaluation(version), f"champion {version}"
    )
