"""The store of models: numbered versions that never change, and which one is the champion.

A version is written in one step. Later only its decision and card may be added. Every change of the
store is one transaction in which the file that names the champion is written last. If a process is
killed at any time, either the old champion remains, or the next change finishes the interrupted
one.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from signloom.config import check_shape, read_json
from signloom.errors import UserError
from signloom.files import copy_folder, hash_folder, to_text
from signloom.paths import MODELS, SEEDS_NAME, WEIGHTS_NAME
from signloom_ops.nightly import schemas
from signloom_ops.transaction import Transaction, open_transaction
from signloom_tools.versions import (
    CHECKPOINT_NAME,
    EVALUATION_NAME,
    FORMAT_VERSION,
    HINT,
    POINTER,
    Action,
    Versions,
)

VERSION, DECISION = "version.json", "decision.json"  # in a version's folder
WEIGHTS, SEEDS = WEIGHTS_NAME, SEEDS_NAME  # of a checkpoint; its module loads torch
TRANSLATIONS = "translations"  # in a version's folder, by hash of the landmarks
FROZEN, MARKS = "frozen_test.json", "marks.json"
FORGOTTEN = "forgotten"  # a mark: a map for each request, with its number of clips


class ModelStore(Versions):
    """The versions of a project's model, in a folder, and every change of them."""

    def __init__(self, root: Path = MODELS) -> None:
        """Use a folder; it is made when the first version is added."""
        super().__init__(root)
        self._staging = root.resolve().with_name(f".{root.name}.change")  # not for DVC to track

    def add(self, checkpoint: Path, evaluation: Path, facts: Mapping[str, Any]) -> int:
        """Keep a trained model as the next version and name it the challenger.

        The same checkpoint keeps its number, so a run that was killed after this step can be
        repeated.

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
        with self._change() as change:
            made_of = hash_folder(checkpoint)
            same = [v for v in self.versions() if self.facts(v).get("checkpoint_hash") == made_of]
            version = same[0] if same else self._next()
            if not same:
                folder = change.stage(self.folder(version))
                folder.mkdir()
                copy_folder(checkpoint, folder / CHECKPOINT_NAME)
                copy_folder(evaluation, folder / EVALUATION_NAME)
                metrics = evaluation.with_name("metrics.json")
                if metrics.is_file():
                    shutil.copy2(metrics, folder / EVALUATION_NAME)
                content = {"format_version": FORMAT_VERSION, **facts, "checkpoint_hash": made_of}
                (folder / VERSION).write_text(to_text(content), encoding="utf-8")
            elif not (self.checkpoint(version) / WEIGHTS).is_file():  # tidied away, trained again
                for source in (checkpoint / WEIGHTS, checkpoint / SEEDS):
                    target = self.checkpoint(version) / source.name
                    if source.is_dir():
                        copy_folder(source, change.stage(target))
                    elif source.is_file():
                        shutil.copy2(source, change.stage(target))
            self._write(change, POINTER, asdict(self.pointer().challenge(version)))
        return version

    def promote(self, version: int, *, by: str) -> None:
        """Make a version the champion; nothing changes if it is already.

        Args:
            version: Its number.
            by: Who or what decided, for the history.

        Raises:
            UserError: If there is no such version, or its files have changed.
        """
        with self._change() as change:
            self._promote(change, version, self.decision(version), by)

    def apply_decision(self, decision: Mapping[str, Any], *, by: str) -> None:
        """Write the gate's decision and, if it says so, promote the version.

        Args:
            decision: The map of a `gate.Decision`.
            by: Who or what decided, for the history.
        """
        version = decision["version"]
        self.check_known(version)
        with self._change() as change:
            change.write(self.folder(version) / DECISION, to_text(decision))
            if decision["promote"]:
                self._promote(change, version, decision, by)

    def rollback(self, *, by: str) -> int:
        """Make the former champion the champion again; called again, the one before it.

        Returns:
            Its number.

        Raises:
            UserError: If there was none, or its files have changed.
        """
        with self._change() as change:
            line = self.pointer().line
            if len(line) < 2:
                raise UserError(
                    "there is no former champion to go back to; `signloom champion list` names "
                    "the versions, `signloom champion promote N --force` takes any of them"
                )
            self._point(change, line[-2], "rollback", by)
            return line[-2]

    def heavy(self, version: int) -> list[Path]:
        """Return what of a version only translating needs: weights, kept translations."""
        folder = self.checkpoint(version)
        found = (folder / WEIGHTS, folder / SEEDS, self.folder(version) / TRANSLATIONS)
        return [path for path in found if path.exists()]

    def drop_weights(self, versions: Sequence[int]) -> None:
        """Remove the weights of versions, of all or none; what is known of them stays."""
        with self._change() as change:
            for version in versions:
                for path in self.heavy(version):
                    change.remove(path)

    def facts(self, version: int) -> dict[str, Any]:
        """Return version.json: the facts given, `format_version` and `checkpoint_hash`."""
        path = self.folder(version) / VERSION
        return dict(check_shape(self.read(path), schemas.VERSION, where=path, hint=HINT))

    def decision(self, version: int) -> dict[str, Any] | None:
        """Return what the gate decided about a version; None if it was not asked."""
        path = self.folder(version) / DECISION
        if not path.is_file():
            return None
        return dict(
            check_shape(read_json(path, hint=HINT), schemas.DECISION, where=path, hint=HINT)
        )

    def refused_before(self, version: int | None, days: int) -> int:
        """Return how many other versions the gate refused, of those made in so many days.

        Args:
            version: The days before this one was made, and since; None: the days before today.
            days: One that does not say when it was made counts, too.
        """
        made = self.facts(version).get("created", "") if version is not None else ""
        day = date.fromisoformat(made) if made else datetime.now().astimezone().date()
        first = (day - timedelta(days=days)).isoformat()
        count = 0
        for other in self.versions():
            decision = self.decision(other) if other != version else None
            if decision is not None and not decision["promote"]:
                count += self.facts(other).get("created", first) >= first
        return count

    def keep_decision(self, version: int, decision: Mapping[str, Any]) -> None:
        """Write the gate's decision into a version's folder; promotes nothing."""
        self.check_known(version)
        with self._change() as change:
            change.write(self.folder(version) / DECISION, to_text(decision))

    def frozen_test(self) -> list[str] | None:
        """Return the ids of the clips on which champions are compared; None before the first."""
        path = self.root / FROZEN
        return list(self.read(path, clips=list[str])["clips"]) if path.is_file() else None

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
        with self._change() as change:
            return self._freeze(change, clips)

    def marks(self, version: int) -> dict[str, Any]:
        """Return what was noted about a version after it was made."""
        return dict(self._all_marks().get(f"{version:04}", {}))

    def mark(self, version: int, key: str, value: Any) -> None:
        """Note something about a version, such as that it learnt from a signer now forgotten."""
        self.check_known(version)
        with self._change() as change:
            marks = self._all_marks()
            marks.setdefault(f"{version:04}", {})[key] = value
            self._write(change, MARKS, {"marks": marks})

    def _all_marks(self) -> dict[str, dict[str, Any]]:
        path = self.root / MARKS
        return dict(self.read(path, marks=schemas.MARKS)["marks"]) if path.is_file() else {}

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

    def has_unfinished_change(self) -> bool:
        """Return whether a change was interrupted and waits to be finished."""
        return Transaction(self._staging).journal.is_file()

    def recover(self) -> None:
        """Finish an interrupted change, if there is one; every later change does so first, too."""
        if self.has_unfinished_change():
            with self._change():
                pass

    def _promote(
        self, change: Transaction, version: int, decision: Mapping[str, Any] | None, by: str
    ) -> None:
        if self.pointer().champion != version:
            if decision is not None:
                self._freeze(change, decision["test"])  # those of the first champion stay
            self._point(change, version, "promote", by)

    def _point(self, change: Transaction, version: int, action: Action, by: str) -> None:
        self.check_known(version)
        if hash_folder(self.checkpoint(version)) != self.facts(version).get("checkpoint_hash"):
            raise UserError(
                f"{self.checkpoint(version)} is not what it was when it was kept: a file is torn "
                f"or was changed, or its weights were tidied away; {HINT}"
            )
        self._write(change, POINTER, asdict(self.pointer().move(version, action, by)))

    def _freeze(self, change: Transaction, clips: Sequence[str]) -> list[str]:
        if (found := self.frozen_test()) is None:
            found = sorted(clips)
            self._write(change, FROZEN, {"clips": found})
        return found

    def _next(self) -> int:
        """Return an unused version number.

        A reused number would inherit the marks and registry entry of the old version.
        """
        pointer = self.pointer()
        past = [change.version for change in pointer.history]
        return 1 + max([pointer.challenger or 0, *self.versions(), *past])

    def _write(self, change: Transaction, name: str, content: Mapping[str, Any]) -> None:
        change.write(self.root / name, to_text({"format_version": FORMAT_VERSION, **content}))

    @contextlib.contextmanager
    def _change(self) -> Iterator[Transaction]:
        """Open a change of the store, which is done when the block is left without an error.

        First, finish the change that a killed process left. Skip it if champion.json was replaced
        since, for example by `dvc pull`.
        """
        with open_transaction(self._staging) as change:
            change.recover(_done)
            yield change
            if change.operations:
                pointer = self.root / POINTER
                is_moved = pointer in [target for _, target in change.operations]
                change.commit({}, _done, unless_changed=pointer if is_moved else None)


def _done(_note: Mapping[str, Any]) -> bool:
    """Callback after commit; a store change has no extra step."""
    return True
