"""The store of models: numbered versions that never change, and one file that may.

A change first writes what is new under names that nothing uses yet: a version's folder gets its
name when it is whole, and a decision lies in it before it counts. Then it replaces champion.json.
Every change begins with `settle`, which removes what a killed process left.
"""

import contextlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from signloom.config import check_shape, check_version, read_json, shape
from signloom.errors import UserError
from signloom.files import (
    copy_folder,
    half_written,
    hash_folder,
    to_sealed,
    whole_folder,
    write_file,
)
from signloom.paths import MODELS, SEEDS_NAME, WEIGHTS_NAME
from signloom_ops.lock import hold_lock
from signloom_ops.nightly import schemas
from signloom_tools.versions import (
    CHECKPOINT_NAME,
    EVALUATION_NAME,
    HINT,
    POINTER,
    VERSION,
    Action,
    Pointer,
    Verdict,
    Versions,
    check_kept,
    folder_name,
)
from signloom_tools.versions import FORMAT_VERSION as POINTER_FORMAT

FORMAT_VERSION = 1  # of version.json
DECISION = "decision.json"  # in a version's folder
TRANSLATIONS = "translations"  # in a version's folder, by hash of the landmarks
FROZEN, MARKS = "frozen_test.json", "marks.json"  # next to a champion.json of format 1
FORGOTTEN = "forgotten"  # a mark: a map for each request, with its number of clips
KEPT_WEIGHTS = 10  # newest versions that keep their weights though they were refused
_WAIT_S = 600.0  # for another process that changes the store


class ModelStore(Versions):
    """The versions of a project's model, in a folder, and every change of them."""

    def __init__(self, root: Path = MODELS) -> None:
        """Use a folder; it is made when the first version is added."""
        super().__init__(root)
        place = root.resolve()
        self._lock = place.with_name(f".{root.name}.lock")  # not for DVC to track
        self._older = place.with_name(f".{root.name}.change")

    def add(self, checkpoint: Path, evaluation: Path, facts: Mapping[str, Any]) -> int:
        """Keep a trained model as the next version and name it the challenger.

        The same checkpoint keeps its number, so a run that was killed after this step can be
        repeated.

        Args:
            checkpoint: Copied with the further seeds in it.
            evaluation: What `evaluate` wrote, copied with the metrics.json next to it.
            facts: What made the model, for version.json.

        Returns:
            The version's number, from 1.

        Raises:
            UserError: If either folder is missing, or a file of the checkpoint is damaged.
        """
        for folder, stage in ((checkpoint, "train"), (evaluation, "evaluate")):
            if not folder.is_dir():
                raise UserError(f"{folder} does not exist; run `dvc repro {stage}` first")
        from signloom.checkpoint import check_hashes  # it loads torch

        for spec in sorted(checkpoint.rglob("checkpoint.json")):  # and of the further seeds
            check_hashes(spec.parent)
        with self._change():
            made_of = hash_folder(checkpoint)
            same = [v for v in self.versions() if self.facts(v).get("checkpoint_hash") == made_of]
            version = same[0] if same else self._next()
            if not same:
                content = {"format_version": FORMAT_VERSION, **facts, "checkpoint_hash": made_of}
                self._write_version(version, checkpoint, evaluation, content)
            elif not self.has_weights(version):  # they were removed, and trained again
                with whole_folder(self.checkpoint(version)) as new:
                    new.rmdir()
                    copy_folder(checkpoint, new)
            self._write(self.pointer().challenge(version))
        return version

    def _write_version(
        self, version: int, checkpoint: Path, evaluation: Path, content: Mapping[str, Any]
    ) -> None:
        with whole_folder(self.folder(version)) as new:
            copy_folder(checkpoint, new / CHECKPOINT_NAME)
            copy_folder(evaluation, new / EVALUATION_NAME)
            metrics = evaluation.with_name("metrics.json")
            if metrics.is_file():
                shutil.copy2(metrics, new / EVALUATION_NAME)
            (new / VERSION).write_bytes(to_sealed(content))

    def promote(self, version: int, *, by: str) -> None:
        """Make a version the champion; nothing changes if it is already.

        Args:
            by: Who or what decided, for the history.

        Raises:
            UserError: If there is no such version, or its files have changed.
        """
        with self._change():
            decision = self.decision(version)
            test = decision["test"] if decision else []
            self._write(self._moved(self.pointer(), version, "promote", by, test))

    def apply_decision(self, decision: Mapping[str, Any], *, by: str | None) -> None:
        """Write the gate's decision and promote the version if that is the decision.

        Args:
            decision: The map of a `gate.Decision`.
            by: Who or what decided, for the history; None: a person only asked, so nothing is
                promoted.
        """
        version = decision["version"]
        self.check_known(version)
        with self._change():
            write_file(self.folder(version) / DECISION, to_sealed(decision))
            pointer = self.pointer()
            verdicts = {**pointer.verdicts, folder_name(version): _verdict(decision)}
            pointer = replace(pointer, verdicts=verdicts)
            if by is not None and decision["promote"]:
                pointer = self._moved(pointer, version, "promote", by, decision["test"])
            self._write(pointer)

    def rollback(self, *, by: str) -> int:
        """Make the former champion the champion again; called again, the one before it.

        Raises:
            UserError: If there was none, or its files have changed.
        """
        with self._change():
            pointer = self.pointer()
            line = pointer.line
            if len(line) < 2:
                raise UserError(
                    "there is no former champion to go back to; `signloom champion list` names "
                    "the versions, `signloom champion promote N --force` takes any of them"
                )
            self._write(self._moved(pointer, line[-2], "rollback", by))
        return line[-2]

    def pointer(self) -> Pointer:
        """Return the content of champion.json, and of the files next to it in format 1.

        Raises:
            UserError: If one is damaged or of another format version.
        """
        pointer = super().pointer()
        return self._carried_over(pointer) if pointer.format_version == 1 else pointer

    def _carried_over(self, pointer: Pointer) -> Pointer:
        """Return the content of a champion.json of format 1 with what later went into it."""
        frozen = self._read_old(FROZEN, clips=list[str]).get("clips")
        decisions = {version: self._read_decision(version) for version in self.versions()}
        return replace(
            pointer,
            frozen_test=None if frozen is None else tuple(frozen),
            verdicts={
                folder_name(v): _verdict(decision) for v, decision in decisions.items() if decision
            },
            marks=self._read_old(MARKS, marks=schemas.MARKS).get("marks", {}),
        )

    def _read_old(self, name: str, **fields: Any) -> dict[str, Any]:
        path = self.root / name
        if not path.is_file():
            return {}
        return dict(check_shape(read_json(path, hint=HINT), shape(**fields), where=path, hint=HINT))

    def facts(self, version: int) -> dict[str, Any]:
        """Return version.json: the facts given, `format_version` and `checkpoint_hash`."""
        path = self.folder(version) / VERSION
        content = read_json(path, hint=HINT)
        check_version(path, content, FORMAT_VERSION, hint="use the Signloom that wrote it")
        return dict(check_shape(content, schemas.VERSION, where=path, hint=HINT))

    def decision(self, version: int) -> dict[str, Any] | None:
        """Return what the gate decided about a version; None if it was not asked.

        A decision that was written and did not come into champion.json does not count.
        """
        content = self._read_decision(version)
        counts = content and self.pointer().verdicts.get(folder_name(version)) == _verdict(content)
        return content if counts else None

    def _read_decision(self, version: int) -> dict[str, Any] | None:
        path = self.folder(version) / DECISION
        if not path.is_file():
            return None
        content = read_json(path, hint=HINT)
        return dict(check_shape(content, schemas.DECISION, where=path, hint=HINT))

    def decided(self) -> list[int]:
        """Return the versions that a decision was made about, the oldest first."""
        verdicts = self.pointer().verdicts
        return [version for version in self.versions() if folder_name(version) in verdicts]

    def refused_before(self, version: int | None, days: int) -> int:
        """Return how many other versions the gate refused, of those made within some days.

        Args:
            version: The days before this one was made, and since; None: the days before today.
            days: A version without a date also counts.
        """
        created = self.facts(version).get("created", "") if version is not None else ""
        day = date.fromisoformat(created) if created else datetime.now().astimezone().date()
        first = (day - timedelta(days=days)).isoformat()
        verdicts = self.pointer().verdicts
        return sum(
            self.facts(number).get("created", first) >= first
            for number in self.decided()
            if number != version and verdicts[folder_name(number)] == "refuse"
        )

    def frozen_test(self) -> list[str] | None:
        """Return the ids of the clips on which champions are compared; None before the first."""
        frozen = self.pointer().frozen_test
        return None if frozen is None else list(frozen)

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
        with self._change():
            pointer = _frozen(self.pointer(), clips)
            self._write(pointer)
        return list(pointer.frozen_test or ())

    def without_clips(self, clips: Collection[str]) -> bytes | None:
        """Return champion.json without some test clips; None if it names none of them.

        Where none is left, those of the next champion are frozen.
        """
        pointer = self.pointer()
        remaining = tuple(clip for clip in pointer.frozen_test or () if clip not in clips)
        if pointer.frozen_test is None or remaining == pointer.frozen_test:
            return None
        return _to_bytes(replace(pointer, frozen_test=remaining or None))

    def marks(self, version: int) -> dict[str, Any]:
        """Return what was noted about a version after it was made."""
        path = self.root / POINTER
        marks = self.pointer().marks
        check_shape(marks, schemas.MARKS, where=path, hint=HINT)
        return dict(marks.get(folder_name(version), {}))

    def mark(self, version: int, key: str, value: Any) -> None:
        """Note something about a version, such as that it learnt from a signer now forgotten."""
        self.check_known(version)
        with self._change():
            pointer, name = self.pointer(), folder_name(version)
            noted = {**pointer.marks.get(name, {}), key: value}
            self._write(replace(pointer, marks={**pointer.marks, name: noted}))

    def forgotten(self, version: int) -> int:
        """Return how many clips of people who were forgotten since a version learnt from."""
        return sum(mark["clips"] for mark in self.marks(version).get(FORGOTTEN, []))

    def refusal(self, version: int) -> str | None:
        """Return why the gate does not support a promotion now; None if it does."""
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

    def has_weights(self, version: int) -> bool:
        """Return whether a version can translate."""
        return (self.checkpoint(version) / WEIGHTS_NAME).is_file()

    def settle(self) -> None:
        """Remove what an interrupted change left; every change also does so first."""
        with self._change():
            pass

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """Hold the lock of the store; settle what a killed process left, and what is old."""
        with hold_lock(self._lock, wait_s=_WAIT_S):
            self._settle()
            yield
            self._settle()

    def _settle(self) -> None:
        if (self._older / "journal.json").is_file():
            raise UserError(
                f"a change of {self.root} was interrupted under Signloom 0.2: finish it with that "
                f"version, or remove {self._older} to keep the champion as it is"
            )
        shutil.rmtree(self._older, ignore_errors=True)
        remove_half_written(self.root, "**/.*.tmp")
        pointer = super().pointer()
        if not (self.root / POINTER).is_file() or pointer.format_version == 1:
            return
        for name in (FROZEN, MARKS):
            _remove(self.root / name)
        for version in self._without_use(pointer):
            # The weights go last: with them a version counts as whole.
            _remove(self.folder(version) / TRANSLATIONS)
            _remove(self.checkpoint(version) / SEEDS_NAME)
            _remove(self.checkpoint(version) / WEIGHTS_NAME)

    def _without_use(self, pointer: Pointer) -> list[int]:
        """Return the versions that were refused, are not among the newest and were no champion."""
        past = [number for change in pointer.history for number in (change.version, change.former)]
        needed = {pointer.champion, pointer.challenger, *past}
        return [
            version
            for version in self.versions()[:-KEPT_WEIGHTS]
            if version not in needed and pointer.verdicts.get(folder_name(version)) == "refuse"
        ]

    def _moved(
        self, pointer: Pointer, version: int, action: Action, by: str, test: Sequence[str] = ()
    ) -> Pointer:
        """Return the pointer with another champion; the test clips of the first one stay."""
        if action == "promote" and pointer.champion == version:
            return pointer
        self.check_known(version)
        check_kept(self.checkpoint(version))
        return _frozen(pointer, test).move(version, action, by)

    def _next(self) -> int:
        """Return an unused version number.

        A reused number would inherit the marks and registry entry of the old version.
        """
        pointer = self.pointer()
        past = [change.version for change in pointer.history]
        named = map(int, (*pointer.verdicts, *pointer.marks))
        return 1 + max([pointer.challenger or 0, *self.versions(), *past, *named])

    def _write(self, pointer: Pointer) -> None:
        """Replace champion.json, unless nothing changes: with it a change is done."""
        if pointer != super().pointer():
            write_file(self.root / POINTER, _to_bytes(pointer))


def remove_half_written(folder: Path, pattern: str = ".*.tmp") -> None:
    """Remove the files and folders in a folder whose writers were killed."""
    for path in list(half_written(folder, pattern)):
        _remove(path)


def _verdict(decision: Mapping[str, Any]) -> Verdict:
    return "promote" if decision["promote"] else "refuse"


def _remove(path: Path) -> None:
    """Remove a file or a folder, which may be missing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _frozen(pointer: Pointer, clips: Sequence[str]) -> Pointer:
    if pointer.frozen_test is not None or not clips:
        return pointer
    return replace(pointer, frozen_test=tuple(sorted(clips)))


def _to_bytes(pointer: Pointer) -> bytes:
    return to_sealed(asdict(replace(pointer, format_version=POINTER_FORMAT)))
