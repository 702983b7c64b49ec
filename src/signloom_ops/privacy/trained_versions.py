"""Versions of the model that a person had a part in."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from signloom.corpus.manifest import SPLITS
from signloom.errors import UserError
from signloom_ops.nightly.store import FORGOTTEN, ModelStore
from signloom_ops.privacy.names import Person

_DECIDING = {"train", "dev"}  # dev chooses the epoch and the search


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedVersion:
    """A version with clips of a person, or with weights that started from such a version."""

    version: int
    clips: int  # of theirs; 0 where the traces came with the weights it started from
    splits: tuple[str, ...]  # that these clips were in
    through: int | None  # version whose weights it started from, if that one has traces

    @property
    def has_traces(self) -> bool:
        """Whether the person had a part in its weights, and not in its scores alone."""
        return self.through is not None or bool(_DECIDING & set(self.splits))


def versions_of(store: ModelStore) -> dict[str, list[int]]:
    """Return the signers of all versions, and the versions that contain each."""
    by_signer: dict[str, list[int]] = defaultdict(list)
    for version in store.versions():
        signers = store.facts(version).get("signers", {})
        for name in {name for split in SPLITS for name in signers.get(split, {})}:
            by_signer[name].append(version)
    return dict(by_signer)


def trained_on(person: Person, store: ModelStore) -> list[TrainedVersion]:
    """Return the versions that a person's clips, or weights made with them, went into.

    What was blanked before has a mark of the request, and is found by it.
    """
    trained: dict[int, TrainedVersion] = {}
    for version in store.versions():
        facts = store.facts(version)
        clips = {s: set(facts.get("clips", {}).get(s, ())) for s in SPLITS}
        theirs = {s: len(ids & set(person.clip_ids)) for s, ids in clips.items()}
        for split in SPLITS:  # clips that have left the corpus long ago are known by number
            counts = facts.get("signers", {}).get(split, {})
            count = sum(counts[name] for name in counts if person.signs_as(name))
            theirs[split] = max(theirs[split], count)
        parent = facts.get("parent")
        through = parent if parent in trained and trained[parent].has_traces else None
        splits = tuple(split for split in SPLITS if theirs[split])
        if marked := _mark_of(person, store, version):  # by the version before this one
            trained[version] = marked
        elif splits or through is not None:
            trained[version] = TrainedVersion(
                version=version, clips=sum(theirs.values()), splits=splits, through=through
            )
    return list(trained.values())


def mark_versions(person: Person, trained: Sequence[TrainedVersion], store: ModelStore) -> None:
    """Mark the versions that a person had a part in; marked twice, a version has one mark.

    The weights stay as they are: what they carry cannot be taken out of them.
    """
    for model in trained:
        marks = store.marks(model.version).get(FORGOTTEN, [])
        if all(mark["request"] != person.request for mark in marks):
            mark = {
                "request": person.request,
                "clips": model.clips,
                "splits": list(model.splits),
                "through": model.through,
            }
            store.mark(model.version, FORGOTTEN, [*marks, mark])


def _mark_of(person: Person, store: ModelStore, version: int) -> TrainedVersion | None:
    for mark in store.marks(version).get(FORGOTTEN, []):
        if mark["request"] == person.request:
            return TrainedVersion(
                version=version,
                clips=mark["clips"],
                splits=tuple(mark["splits"]),
                through=mark["through"],
            )
    return None


def tell_models(trained: Sequence[TrainedVersion], store: ModelStore) -> list[str]:
    """Say in sentences which versions the person had a part in, and what to do about it."""
    if not trained:
        return ["no model version was trained or tested on them"]
    champion = _champion(store)
    lines = []
    for model in trained:
        name = f"version {model.version}{', the champion,' if model.version == champion else ''}"
        if model.splits:
            lines.append(
                f"{name} was made with {model.clips} clips of theirs ({_list(model.splits)})"
            )
        else:
            lines.append(f"{name} started from the weights of version {model.through}")
    tainted = [model.version for model in trained if model.has_traces]
    if tainted:
        lines.append(
            "weights carry traces of what they were trained on; nothing takes them out. These "
            f"versions are marked, in the registry with the next sync: {_list(tainted)}"
        )
    if champion in tainted:
        lines.append(
            "the champion is one of them: the next `signloom retrain` trains another from scratch, "
            "without them; once that is champion, remove the folders of the marked versions"
        )
    return lines


def _champion(store: ModelStore) -> int | None:
    try:
        return store.champion()
    except UserError:  # its folder is missing
        return None


def _list(items: tuple[str, ...] | list[int]) -> str:
    return ", ".join(map(str, items))
