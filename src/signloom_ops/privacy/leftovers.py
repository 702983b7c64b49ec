"""The leftovers of a removal: what this program cannot reach, or must not touch."""

import subprocess
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from signloom.corpus.manifest import CorpusOptions
from signloom.paths import CHECKPOINT, MODELS, REPORTS, SPOOL, WEIGHTS_NAME
from signloom_ops.intake.changes import changes_folder
from signloom_ops.privacy.names import OLD_SUFFIXES, Person, files_naming, is_word
from signloom_tools.dvc import DvcCache, ask_dvc
from signloom_tools.importing.captions import READ_SUFFIXES

# MLflow's own files, and what waits to be sent there.
MLFLOW = (Path("mlruns"), Path("mlartifacts"), SPOOL)
_TEXTS = (".json", ".jsonl", ".tsv", ".csv", ".md", ".txt", ".html", *OLD_SUFFIXES, *READ_SUFFIXES)
_READABLE = [f"*{suffix}" for suffix in _TEXTS]
_MOST_NAMED = 5


def tell_left(
    person: Person, corpus: CorpusOptions, deliveries: Sequence[Path] = ()
) -> Iterator[str]:
    """Yield what this program cannot remove, or must not, each with what to do.

    Args:
        deliveries: Folders with sentences of others, which may mention the person.
    """
    if (CHECKPOINT / WEIGHTS_NAME).is_file():
        yield (
            f"{CHECKPOINT} may have been trained on them: `dvc repro` trains without them, and "
            "writes landmarks, tokens, scores and report again"
        )
    if person.shared:
        yield (
            f"videos that show others, too, were kept ({_some(person.shared)}): cut the person "
            "out, or remove the others' clips"
        )
    if person.shared_copies:
        yield (
            "films and captions of deliveries that show others, too, stay "
            f"({_some(person.shared_copies)}): cut the person out, or remove them"
        )
    yield from _dvc()
    yield from _mlflow(person)
    if Path(".git").exists():
        if tracked := _tracked_files_naming(person):
            yield f"files in Git name them ({_some(tracked)}): edit and commit them"
        yield "Git's history keeps what former commits named: `git filter-repo`, in every clone"
    elsewhere = _readable_files_naming(person, corpus, deliveries)
    if elsewhere:
        yield (
            f"files still have a name of theirs ({_some(elsewhere)}): read them; sentences and "
            "texts that people wrote are never changed"
        )
    if not is_word(person.signer):
        yield (
            f"{person.signer} may occur in texts and in tables without a column of signers, where "
            "it cannot be distinguished from other numbers: look at those that people wrote"
        )
    yield (
        "landmarks cached under former settings of `extract`, which contain no names: "
        "`signloom cache prune --days 0` removes all of them"
    )
    yield "backups, other clones and machines, exported models, pages and subtitles made elsewhere"


def _mlflow(person: Person) -> Iterator[str]:
    if files := files_naming([folder for folder in MLFLOW if folder.is_dir()], person):
        yield (
            f"MLflow: {len(files)} files name them ({_some(files)}); delete the runs, then "
            "`mlflow gc`"
        )
    yield (
        "MLflow keeps the checkpoints of every training among the artifacts of its runs, here or "
        "on its server: delete those of the versions above (`mlflow runs delete --run-id ID`, then "
        "`mlflow gc`)"
    )


def _readable_files_naming(
    person: Person, corpus: CorpusOptions, deliveries: Sequence[Path]
) -> list[Path]:
    """Return the readable files of the project that still name a person, except the note of it."""
    places = dict.fromkeys([*deliveries, Path("data"), REPORTS, Path("build")])
    folders = [folder for folder in places if folder.is_dir()]
    return [
        path
        for path in files_naming(folders, person, _READABLE)
        if not set(MLFLOW) & set(path.parents)
        and changes_folder(corpus) not in path.resolve().parents
    ]


def _dvc() -> Iterator[str]:
    """Yield how the versions that DVC keeps go away; nothing without DVC."""
    if not Path(".dvc").is_dir():
        return
    yield (
        "older versions of the corpus, landmarks and tokens in DVC's cache: what was there today "
        "is removed, of earlier ones nobody can tell what shows whom. After `dvc repro`, and "
        f"`dvc add {MODELS}` if DVC keeps them, commit; then `dvc gc --workspace` removes "
        "everything that the present state does not use, on every machine"
    )
    if folder := DvcCache().outside:
        yield (
            f"DVC's cache is outside of this project ({folder}), and other clones may use it: what "
            "was removed is missing there, too, and tables that name the person may stay. Pull the "
            "commit in each (`git pull`, `dvc checkout`, `dvc repro`); then `dvc gc --projects`"
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


def _tracked_files_naming(person: Person) -> list[str]:
    """Return the files of the Git repository that name the person; none outside of one.

    None for a name that is a number, which would be found in all of them.
    """
    if not is_word(person.signer):
        return []
    decomposed = unicodedata.normalize("NFD", person.signer)
    names = ["-e", person.signer, "-e", decomposed]
    command = ["git", "grep", "--cached", "-l", "-w", "-F", *names]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout.splitlines() if process.returncode == 0 else []
