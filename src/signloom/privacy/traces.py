"""Traces of a person in files, model versions and places out of reach.

Everything here may be done twice. What DVC has kept of a file goes before the file itself does, so
that a second call after a kill still knows what to look for.
"""

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.corpus.manifest import SPLITS, CorpusOptions, read_manifest
from signloom.dvc import DvcCache, ask_dvc
from signloom.errors import UserError
from signloom.files import hash_file, write_file
from signloom.intake.deliveries import SIGNER_FILE
from signloom.nightly.card import CARD, write_card
from signloom.nightly.store import FORGOTTEN, FROZEN, ModelStore
from signloom.paths import CHECKPOINT, FORGET_JOURNAL, MODELS, REPORTS, SPOOL
from signloom.privacy.names import (
    BLANK,
    Person,
    blank,
    blank_columns,
    is_word,
    naming_pattern,
    scrub_table,
    scrub_value,
)


def erase(path: Path, cache: DvcCache) -> None:
    """Remove a file, or a folder with all in it, and what DVC keeps of its present content."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        cache.drop(file)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def scrub(path: Path, person: Person, cache: DvcCache, *, columns: Sequence[str] = ()) -> bool:
    """Take a person out of a file of ours: rows and values that are theirs go, names are blanked.

    Args:
        path: A table, JSON, Markdown or Parquet; anything else stays as it is.
        person: Who.
        cache: Loses what it has of the file as it was.
        columns: Of a .tsv whose rows stay: in which columns names are blanked.

    Returns:
        Whether the file has changed.
    """
    if path.suffix == ".parquet":
        return _scrub_parquet(path, person, cache)
    if path.suffix not in (".json", ".jsonl", ".csv", ".tsv", ".md", ".txt", ".log"):
        return False
    before = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        after = _dump_like(before, scrub_value(json.loads(before), person))
    elif columns:
        after = blank_columns(before, person, columns)
    elif path.suffix in (".csv", ".tsv"):
        after = scrub_table(path.name, before, person)
    elif path.name == SIGNER_FILE and before.strip() == person.signer:
        after = f"{BLANK}\n"
    else:
        after = blank(before, person)
    if after == before:
        return False
    cache.drop(path)
    write_file(path, after)
    return True


def videos_like(folder: Path, person: Person) -> Iterator[Path]:
    """Yield the files below a folder that are the person's videos, by their bytes."""
    wanted = set(person.videos)
    for path in sorted(folder.rglob("*")) if wanted else ():
        if path.is_file() and hash_file(path) in wanted:
            yield path


def files_naming(
    folders: Sequence[Path], person: Person, patterns: Sequence[str] = ("*",)
) -> list[Path]:
    """Return the files below some folders whose bytes have the person's name or a clip's id."""
    pattern = re.compile(naming_pattern(person).encode())
    found = {path for folder in folders for one in patterns for path in folder.rglob(one)}
    return [p for p in sorted(found) if p.is_file() and pattern.search(p.read_bytes())]


def tracked_files_naming(person: Person) -> list[str]:
    """Return the files of the Git repository that name the person; none outside of one.

    Nor for a name that is a number, which stands in all of them.
    """
    if not is_word(person.signer):
        return []
    command = ["git", "grep", "--cached", "-l", "-w", "-F", "-e", person.signer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _dump_like(before: str, value: Any) -> str:
    """Return JSON indented as it was."""
    second = before.split("\n", 2)[1] if "\n" in before.strip() else ""
    indent = len(second) - len(second.lstrip()) or None
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


def _scrub_parquet(path: Path, person: Person, cache: DvcCache) -> bool:
    table = pq.read_table(path)
    if "clip_id" not in table.column_names:
        return False
    theirs = pc.is_in(table["clip_id"], pa.array(person.clip_ids, pa.string()))
    kept = table.filter(pc.invert(theirs))
    if len(kept) == len(table):
        return False
    cache.drop(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(kept, temporary, compression="zstd")
    temporary.replace(path)
    return True


_DECIDING = {"train", "dev"}  # dev chooses the epoch and the search


@dataclass(frozen=True, slots=True)
class Trained:
    """A version with clips of a person, or with weights that began as one's."""

    version: int
    clips: int  # of theirs; 0 where the traces came with the weights it started from
    splits: tuple[str, ...]  # that these clips were in
    through: int | None  # version whose weights it started from, if that one has traces

    @property
    def has_traces(self) -> bool:
        """Whether the person had a part in its weights, and not in its scores alone."""
        return self.through is not None or bool(_DECIDING & set(self.splits))


def versions_of(store: ModelStore) -> dict[str, list[int]]:
    """Return the signers of all versions, and which versions know each."""
    found: dict[str, list[int]] = defaultdict(list)
    for version in store.versions():
        signers = store.facts(version).get("signers", {})
        for name in {name for split in SPLITS for name in signers.get(split, {})}:
            found[name].append(version)
    return dict(found)


def trained_on(person: Person, store: ModelStore) -> list[Trained]:
    """Return the versions that a person's clips, or weights made with them, went into.

    What an earlier call has blanked it has marked, so it is found by its mark.
    """
    found: dict[int, Trained] = {}
    for version in store.versions():
        facts = store.facts(version)
        clips = {s: set(facts.get("clips", {}).get(s, ())) for s in SPLITS}
        theirs = {s: len(ids & set(person.clip_ids)) for s, ids in clips.items()}
        for split in SPLITS:  # clips that have left the corpus long ago are known by number
            count = facts.get("signers", {}).get(split, {}).get(person.signer, 0)
            theirs[split] = max(theirs[split], count)
        parent = facts.get("parent")
        through = parent if parent in found and found[parent].has_traces else None
        splits = tuple(split for split in SPLITS if theirs[split])
        if marked := _mark_of(person, store, version):
            found[version] = marked
        elif splits or through is not None:
            found[version] = Trained(version, sum(theirs.values()), splits, through)
    return list(found.values())


def blank_versions(person: Person, store: ModelStore, corpus: Path, dvc: DvcCache) -> None:
    """Mark the versions that a person had a part in, then take their names out of all versions.

    The weights stay as they are: what they carry cannot be taken out of them.
    """
    for found in trained_on(person, store):
        marks = store.marks(found.version).get(FORGOTTEN, [])
        if all(mark["request"] != person.request for mark in marks):
            mark = {
                "request": person.request, "clips": found.clips, "splits": list(found.splits),
                "through": found.through,
            }  # fmt: skip
            store.mark(found.version, FORGOTTEN, [*marks, mark])
    for version in store.versions():
        folder = store.folder(version)
        if (said := folder / "translations").is_dir():  # kept so as not to search twice
            erase(said, dvc)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        # Names before facts: while the facts name them, they are found again.
        files.sort(key=lambda path: path.name == "version.json")
        for path in files:
            if store.checkpoint(version) not in path.parents:
                scrub(path, person, dvc)
        if (folder / CARD).is_file():
            dvc.drop(folder / CARD)
            write_card(folder, corpus, store.marks(version))
    frozen = store.root / FROZEN
    if frozen.is_file():
        scrub(frozen, person, dvc)
        if not store.frozen_test():
            erase(frozen, dvc)  # the next champion's test clips are frozen instead


def _mark_of(person: Person, store: ModelStore, version: int) -> Trained | None:
    for mark in store.marks(version).get(FORGOTTEN, []):
        if mark["request"] == person.request:
            return Trained(version, mark["clips"], tuple(mark["splits"]), mark["through"])
    return None


def tell_models(person: Person, store: ModelStore) -> list[str]:
    """Say in sentences which versions the person had a part in, and what to do about it."""
    found = trained_on(person, store)
    if not found:
        return ["no model version was trained or tested on them"]
    champion = _champion(store)
    lines = []
    for one in found:
        name = f"version {one.version}{', the champion,' if one.version == champion else ''}"
        if one.splits:
            lines.append(f"{name} was made with {one.clips} clips of theirs ({_list(one.splits)})")
        else:
            lines.append(f"{name} started from the weights of version {one.through}")
    tainted = [one.version for one in found if one.has_traces]
    if tainted:
        lines.append(
            "weights carry traces of what they were trained on; nothing takes them out. These "
            f"versions are marked, in the registry with the next sync: {_list(tainted)}"
        )
    if champion in tainted:
        lines.append(
            "the champion is one of them: train another from scratch (`signloom retrain --start "
            "scratch`), then remove the folders of the marked versions"
        )
    return lines


def _champion(store: ModelStore) -> int | None:
    try:
        return store.champion()
    except UserError:  # its folder is missing
        return None


def _list(items: tuple[str, ...] | list[int]) -> str:
    return ", ".join(map(str, items))


# MLflow's own files, and what waits to be sent there.
MLFLOW = (Path("mlruns"), Path("mlartifacts"), SPOOL)
_READABLE = ("*.json", "*.jsonl", "*.tsv", "*.csv", "*.md", "*.txt", "*.log", "*.html", "*.vtt")
_MOST_NAMED = 5


def tell_left(person: Person, corpus: CorpusOptions) -> Iterator[str]:
    """Yield what this program cannot remove, or must not, each with what to do."""
    if CHECKPOINT.is_dir():
        yield (
            f"{CHECKPOINT} may have been trained on them: `dvc repro` trains without them, and "
            "writes landmarks, tokens, scores and report anew"
        )
    yield from _shared_videos(person, corpus)
    yield from _dvc()
    if found := files_naming([folder for folder in MLFLOW if folder.is_dir()], person):
        yield (
            f"MLflow: {len(found)} files name them ({_some(found)}); delete the runs, then "
            "`mlflow gc`"
        )
    yield (
        "MLflow keeps the checkpoints of every training among the artifacts of its runs, here or "
        "on its server: delete those of the versions above (`mlflow runs delete --run-id ID`, then "
        "`mlflow gc`)"
    )
    if Path(".git").exists():
        if tracked := tracked_files_naming(person):
            yield f"files in Git name them ({_some(tracked)}): edit and commit them"
        yield "Git's history keeps what former commits named: `git filter-repo`, in every clone"
    elsewhere = files_naming_under([Path("data"), REPORTS, Path("build")], person)
    if elsewhere:
        yield f"files still name them ({_some(elsewhere)}): look at them"
    if not is_word(person.signer):
        yield (
            f"{person.signer} may stand in texts and in tables without a column of signers, where "
            "it cannot be told from other numbers: look at those that people wrote"
        )
    yield (
        "landmarks cached under former settings of `extract`, in which nobody's name stands: "
        "`signloom cache prune --days 0` removes all of them"
    )
    yield "backups, other clones and machines, exported models, pages and subtitles made elsewhere"


def files_naming_under(folders: Sequence[Path], person: Person) -> list[Path]:
    """Return the readable files below some folders that still name a person."""
    return [
        path
        for path in files_naming([one for one in folders if one.is_dir()], person, _READABLE)
        if path != FORGET_JOURNAL and not set(MLFLOW) & set(path.parents)
    ]


def _shared_videos(person: Person, corpus: CorpusOptions) -> Iterator[str]:
    """Say which videos of the corpus were kept because other clips lie in them."""
    if person.shared:
        there = {clip.video for clip in read_manifest(corpus.path, corpus.signer_disjoint)}
        kept = [name for name in person.shared if corpus.folder / name in there]
        if kept:
            yield (
                f"videos that show others, too, were kept ({_some(kept)}): cut the person out, or "
                "remove the others' clips"
            )


def _dvc() -> Iterator[str]:
    """Say how the versions that DVC keeps go away; nothing without DVC."""
    if not Path(".dvc").is_dir():
        return
    yield (
        "older versions of the corpus, landmarks and tokens in DVC's cache: what was there today "
        "is removed, of earlier ones nobody can tell what shows whom. After `dvc repro`, and "
        f"`dvc add {MODELS}` if DVC keeps them, commit; then `dvc gc --workspace` removes "
        "everything that the present state does not use, on every machine"
    )
    for line in ask_dvc("remote", "list").splitlines():
        name = line.split()[0]
        yield (
            f"the remote {name}: `dvc gc --workspace --cloud --remote {name}`, after the commit; "
            "`dvc push` alone removes nothing there"
        )


def _some(items: Sequence[object]) -> str:
    more = ", ..." if len(items) > _MOST_NAMED else ""
    return ", ".join(map(str, items[:_MOST_NAMED])) + more
