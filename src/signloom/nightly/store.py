"""Versions of the model: numbered folders that never change, and which one is the champion.

A version is a folder that appears whole, by one rename, and is never written again but for files
that are added beside its weights (its decision, its card). Which version is the champion stands in
one small file that is replaced last, so whatever dies, whenever, leaves the old champion in place.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from signloom.config import check_version, parse_options, read_json
from signloom.errors import UserError
from signloom.files import hash_folder, rename_durably, to_text, write_file
from signloom.paths import MODELS

POINTER_VERSION = 1

Action = Literal["promote", "rollback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of champion."""

    version: int  # champion since then
    action: Action
    former: int | None
    time: str  # UTC, ISO 8601
    by: str  # who or what decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The content of champion.json."""

    champion: int | None
    challenger: int | None  # the newest version that was added and did not become champion
    history: tuple[Change, ...]

    @property
    def line(self) -> list[int]:
        """The champions that rollbacks lead through, the present one last."""
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
        return Pointer(champion=version, challenger=challenger, history=(*self.history, change))

    def challenge(self, version: int) -> "Pointer":
        """Return the pointer with a challenger; a champion stays what it is."""
        return self if version == self.champion else replace(self, challenger=version)


def read_pointer(path: Path, *, hint: str) -> Pointer:
    """Read the file; without one there is no champion yet.

    Raises:
        UserError: If it is damaged or of another format version.
    """
    if not path.is_file():
        return Pointer(champion=None, challenger=None, history=())
    content = read_json(path, hint=hint)
    check_version(path, content, POINTER_VERSION, hint="use the Signloom that wrote it")
    values = {name: value for name, value in content.items() if name != "format_version"}
    try:
        return parse_options(values, Pointer, where=str(path))
    except UserError as error:
        raise UserError(f"{error}\n{hint}") from None


def write_pointer(path: Path, pointer: Pointer) -> None:
    """Replace the file."""
    write_file(path, to_text({"format_version": POINTER_VERSION, **asdict(pointer)}))


CHECKPOINT, EVALUATION, VERSION = "checkpoint", "evaluation", "version.json"


def write_version(
    folder: Path, checkpoint: Path, evaluation: Path, content: Mapping[str, Any]
) -> None:
    """Copy a model with its evaluation; the folder appears by one rename, after all is on the disk.

    Args:
        folder: Of the version; nothing may be there.
        checkpoint: Copied with the further seeds in it.
        evaluation: Copied with the metrics.json beside it, if there is one.
        content: Of version.json.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that died
    try:
        shutil.copytree(checkpoint, partial / CHECKPOINT)
        shutil.copytree(evaluation, partial / EVALUATION)
        metrics = evaluation.with_name("metrics.json")
        if metrics.is_file():
            shutil.copy2(metrics, partial / EVALUATION)
        (partial / VERSION).write_text(to_text(content), encoding="utf-8")
        rename_durably(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


FORMAT_VERSION = 1  # of version.json, frozen_test.json and marks.json
DECISION = "decision.json"
FORGOTTEN = "forgotten"  # a mark: a map for each request, with its number of clips
POINTER, FROZEN, MARKS = "champion.json", "frozen_test.json", "marks.json"

_HINT = f"bring it back with `dvc checkout {MODELS}.dvc` or `dvc pull`"


class ModelStore:
    """The versions of a project's model, in a folder."""

    def __init__(self, root: Path = MODELS) -> None:
        """Take the folder; nothing is made before something is added."""
        self.root = root

    def add(self, checkpoint: Path, evaluation: Path, facts: Mapping[str, Any]) -> int:
        """Keep a trained model as the next version and name it the challenger.

        The same checkpoint gets the number that it has: a run that died after this step may be
        run again.

        Args:
            checkpoint: Copied with the further seeds in it.
            evaluation: What `evaluate` wrote, copied with the metrics.json beside it.
            facts: What made the model, for version.json.

        Returns:
            The version's number, from 1.

        Raises:
            UserError: If either folder is missing.
        """
        for folder, stage in ((checkpoint, "train"), (evaluation, "evaluate")):
            if not folder.is_dir():
                raise UserError(f"{folder} does not exist; run `dvc repro {stage}` first")
        with self._locked():
            made_of = hash_folder(checkpoint)
            same = [v for v in self.versions() if self.facts(v).get("checkpoint_hash") == made_of]
            version = same[0] if same else self._next()
            if not same:
                content = {"format_version": FORMAT_VERSION, **facts, "checkpoint_hash": made_of}
                write_version(self.folder(version), checkpoint, evaluation, content)
            write_pointer(self.root / POINTER, self.pointer().challenge(version))
        return version

    def promote(self, version: int, *, by: str) -> None:
        """Make a version the champion; nothing changes if it is already.

        Args:
            version: Its number.
            by: Who or what decided, for the history.

        Raises:
            UserError: If there is no such version, or its files have changed.
        """
        with self._locked():
            if self.pointer().champion != version:
                if decision := self.decision(version):
                    self._freeze(decision["test"])  # those of the first champion stay
                self._point(version, "promote", by)

    def rollback(self, *, by: str) -> int:
        """Make the former champion the champion again; called again, the one before it.

        Returns:
            Its number.

        Raises:
            UserError: If there was none, or its files have changed.
        """
        with self._locked():
            line = self.pointer().line
            if len(line) < 2:
                raise UserError(
                    "there is no former champion to go back to; `signloom champion list` names "
                    "the versions, `signloom champion promote N --force` takes any of them"
                )
            self._point(line[-2], "rollback", by)
            return line[-2]

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
        """Return champion, challenger and the history of champions."""
        return read_pointer(self.root / POINTER, hint=_HINT)

    def versions(self) -> list[int]:
        """Return the numbers of all versions, the oldest first."""
        names = (path.name for path in self.root.glob("[0-9]*") if path.is_dir())
        return sorted(int(name) for name in names if name.isdigit())

    def folder(self, version: int) -> Path:
        """Return where a version lies or would lie."""
        return self.root / f"{version:04}"

    def checkpoint(self, version: int) -> Path:
        """Return the checkpoint of a version, its further seeds in it."""
        return self.folder(version) / CHECKPOINT

    def evaluation(self, version: int) -> Path:
        """Return what `evaluate` found for a version, metrics.json among it."""
        return self.folder(version) / EVALUATION

    def check_known(self, version: int) -> None:
        """Refuse a version that is not there.

        Raises:
            UserError: With the numbers of those that are.
        """
        if not self.checkpoint(version).is_dir():
            known = ", ".join(map(str, self.versions())) or "none"
            raise UserError(
                f"{self.root} has no version {version} (there: {known}); if it should be there, "
                f"{_HINT}"
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

    def facts(self, version: int) -> dict[str, Any]:
        """Return version.json: the facts given, `format_version` and `checkpoint_hash`."""
        return self._read(self.folder(version) / VERSION)

    def search(self, version: int) -> dict[str, Any]:
        """Return how a version searches: `decoding`, chosen by its evaluation, and `precision`.

        Raises:
            UserError: If its evaluation is missing or damaged.
        """
        path = self.evaluation(version) / "scores.json"
        content = read_json(path, hint=_HINT)
        try:
            return {"decoding": content["decoding"], "precision": content["options"]["precision"]}
        except (KeyError, TypeError):
            raise UserError(f"{path} does not say how was searched; {_HINT}") from None

    def decision(self, version: int) -> dict[str, Any] | None:
        """Return what the gate decided about a version; None if it was not asked."""
        path = self.folder(version) / DECISION
        if not path.is_file():
            return None
        content: dict[str, Any] = read_json(path, hint=_HINT)
        return content

    def keep_decision(self, version: int, decision: Mapping[str, Any]) -> None:
        """Write the gate's decision into a version's folder."""
        self.check_known(version)
        write_file(self.folder(version) / DECISION, to_text(decision))

    def frozen_test(self) -> list[str] | None:
        """Return the ids of the clips on which champions are compared; None before the first."""
        path = self.root / FROZEN
        return list(self._read(path)["clips"]) if path.is_file() else None

    def freeze_test(self, clips: Sequence[str]) -> list[str]:
        """Fix the test clips once and for all; later calls change nothing.

        Returns:
            The ids that are fixed.
        """
        if not clips:
            raise UserError(
                "no test clip has landmarks, so models cannot be compared; give some signers the "
                "split test"
            )
        with self._locked():
            return self._freeze(clips)

    def marks(self, version: int) -> dict[str, Any]:
        """Return what was noted about a version after it was made."""
        path = self.root / MARKS
        found: dict[str, Any] = self._read(path)["marks"] if path.is_file() else {}
        return dict(found.get(f"{version:04}", {}))

    def mark(self, version: int, key: str, value: Any) -> None:
        """Note something about a version, such as that it learnt from a signer now forgotten."""
        self.check_known(version)
        with self._locked():
            path = self.root / MARKS
            marks = self._read(path)["marks"] if path.is_file() else {}
            marks.setdefault(f"{version:04}", {})[key] = value
            self._write(MARKS, {"marks": marks})

    def settle(self, decision: Mapping[str, Any], *, by: str) -> None:
        """Keep the map of a `Decision` and, if it says so, promote; `by` is for the history."""
        self.keep_decision(decision["version"], decision)
        if decision["promote"]:
            self.promote(decision["version"], by=by)

    def forgotten(self, version: int) -> int:
        """Return how many clips of people who were forgotten since a version learnt from."""
        return sum(one["clips"] for one in self.marks(version).get(FORGOTTEN, []))

    def refusal(self, version: int) -> str | None:
        """Say why the gate does not support a promotion now; None if it does."""
        decision = self.decision(version)
        if decision is None:
            return f"the gate has not judged version {version}"
        if not decision["promote"]:
            failed = [reason for reason in decision["reasons"] if " failed: " in reason]
            return f"the gate refused version {version}: {'; '.join(failed)}"
        champion = self.pointer().champion
        if champion not in (decision["champion"], version):
            was = decision["champion"] or "none"
            return f"version {version} was judged when the champion was {was}, now it is {champion}"
        return None

    def awaits_promotion(self, version: int) -> bool:
        """Return whether the gate promoted a version and the champion was never changed to it."""
        past = {change.version for change in self.pointer().history}
        return version not in past and self.refusal(version) is None

    def _point(self, version: int, action: Action, by: str) -> None:
        self.check_known(version)
        if hash_folder(self.checkpoint(version)) != self.facts(version)["checkpoint_hash"]:
            raise UserError(
                f"{self.checkpoint(version)} is not what it was when it was kept: a file is torn "
                f"or was changed; {_HINT}"
            )
        write_pointer(self.root / POINTER, self.pointer().move(version, action, by))

    def _freeze(self, clips: Sequence[str]) -> list[str]:
        if (found := self.frozen_test()) is None:
            found = sorted(clips)
            self._write(FROZEN, {"clips": found})
        return found

    def _next(self) -> int:
        """Return a number that no version ever had: marks and the registry would take it for it."""
        pointer = self.pointer()
        past = [change.version for change in pointer.history]
        return 1 + max([pointer.challenger or 0, *self.versions(), *past])

    def _read(self, path: Path) -> dict[str, Any]:
        content: dict[str, Any] = read_json(path, hint=_HINT)
        check_version(path, content, FORMAT_VERSION, hint="use the Signloom that wrote it")
        return content

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        text = to_text({"format_version": FORMAT_VERSION, **content})
        write_file(self.root / name, text)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the store; the lock dies with the process."""
        self.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.root, os.O_RDONLY)  # the folder itself: no file for DVC to track
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            for left in self.root.glob(".*.tmp"):  # by a process that was killed
                left.unlink()
            yield
        finally:
            os.close(handle)
