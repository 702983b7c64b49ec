"""Whatever bytes or kind of file somebody delivers, the good clips beside it come in.

What is bad is named, in bounded time and memory.
"""

import contextlib
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from signloom.corpus.manifest import VIDEO_SUFFIXES, CorpusOptions
from signloom_ops.intake import checks
from signloom_ops.intake.checks import probe
from signloom_ops.intake.deliveries import SIGNER_FILE
from signloom_tools.importing.captions import READ_SUFFIXES
from tests import videos
from tests.attack import inputs
from tests.intake import deliver, found_corpus, take

MOST_S, MOST_BYTES = 60, 3 * 2**28  # of an ingest of some clips in this process
_TABLE = b"video\ttext\tsigner\tstart_s\nfilm.mp4\tbonjour maman\tzoe\t0.0\n"
_OURS = b"# signloom-manifest 1\nclip_id\t" + _TABLE.replace(b"\nfilm", b"\na\tfilm")
# Every file that `ingest` reads, by the name under which it lies there.
GOOD: dict[str, bytes] = {
    **{f"film{suffix}": content for suffix, content in inputs.GOOD_TEXTS.items()},
    # Corrects what is there.
    **{f"alone{suffix}": inputs.GOOD_TEXTS[suffix] for suffix in READ_SUFFIXES},
    **{f"film{suffix}": b"" for suffix in VIDEO_SUFFIXES},
    "table.tsv": _TABLE,
    "manifest.tsv": _OURS,
    "any.csv": _TABLE.replace(b"\t", b","),
    SIGNER_FILE: b"zoe\n",
}


class Bad(NamedTuple):
    """Something that somebody delivers; made outside of the strategies."""

    file: str
    """Under which name it is read."""
    name: str
    make: Callable[[Path], object]

    def __repr__(self) -> str:
        return f"{self.file}: {self.name}"


@st.composite
def written(draw: st.DrawFn) -> Bad:
    """Draw any bytes, or a good file with some bytes changed, cut or put in, as any file."""
    file = draw(st.sampled_from(sorted(GOOD)))
    if draw(st.booleans()):
        content = draw(st.binary(max_size=400))
        return Bad(file, repr(content), inputs.bytes_of(content))
    changes = draw(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(inputs.NASTY)), max_size=4))
    end, coding = draw(st.floats(0.2, 1)), draw(st.sampled_from(["", "utf-16", "utf-32"]))

    def make(path: Path) -> None:
        content = GOOD[file] or _good_film()
        for place, nasty in changes:
            at = int(place * len(content))
            content = content[:at] + nasty + content[at + 1 :]
        content = content[: int(end * len(content))]
        path.write_bytes(content.decode("latin-1").encode(coding) if coding else content)

    return Bad(file, f"{changes} to {end} {coding}", make)


def _good_film() -> bytes:
    """Return a good film."""
    with tempfile.TemporaryDirectory() as folder:
        return videos.write_video(Path(folder, "good.mp4"), frames=21).read_bytes()


damaged = st.sampled_from(
    [Bad(f"film{Path(name).suffix}", name, make) for name, make in inputs.CAPTIONS.items()]
    + [
        Bad(file, name, make)
        for name, make in inputs.KINDS.items()
        for file in ("film.mp4", "film.txt", "table.tsv", SIGNER_FILE)
    ]
)
bads = st.lists(st.one_of(damaged, written()), min_size=1, max_size=5)


def put(bad: Bad, folder: Path, name: str) -> str:
    """Deliver it with what belongs to it; return what of the rejects names it."""
    suffix = Path(bad.file).suffix
    if bad.file in ("table.tsv", "manifest.tsv", "any.csv"):  # whose folder has no other sentences
        folder = folder / name
        folder.mkdir()
        videos.write_video(folder / "film.mp4", frames=23)
        bad.make(folder / bad.file)
    elif bad.file == SIGNER_FILE:
        deliver(folder / name, name, frames=22)
        bad.make(folder / name / SIGNER_FILE)
    elif suffix in READ_SUFFIXES or suffix == ".txt":
        if bad.file.startswith("film"):
            videos.write_video(folder / f"{name}.mp4", frames=24)
        bad.make(folder / f"{name}{suffix}")
    else:
        (folder / f"{name}.txt").write_text("demain elle boit de l'eau")
        bad.make(folder / f"{name}{suffix}")
    return name


@contextlib.contextmanager
def bounds() -> Iterator[None]:
    """End what takes more time or memory; a reader in a process of its own is held by its guard."""

    def end(*_: object) -> None:
        raise TimeoutError(f"an ingest took more than {MOST_S} s")

    before, limit = signal.signal(signal.SIGALRM, end), resource.getrlimit(resource.RLIMIT_DATA)
    most = psutil.Process().memory_full_info().data + MOST_BYTES
    signal.alarm(MOST_S)
    resource.setrlimit(resource.RLIMIT_DATA, (most, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limit)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(bad: list[Bad], corpus: CorpusOptions) -> None:
    inbox = Path("in/zoe")
    deliver(inbox, "good", frames=20)
    named = [put(fault, inbox, f"bad{number}") for number, fault in enumerate(bad)]
    with bounds():
        result = take(corpus, "in")
    clip_ids = [clip.clip_id for clip in result.clips]
    assert "good" in clip_ids
    refusals = [f"{reject.delivery}/{reject.where} {reject.reason}" for reject in result.rejects]
    for name, fault in zip(named, bad, strict=True):
        # What is changed may be good still, or hold other cues or rows that are.
        assert any(name in text for text in [*refusals, *clip_ids]), (fault, refusals, clip_ids)


@pytest.fixture
def in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Bad]], None]:
    """Return what checks an example in a project of its own."""
    found_corpus(tmp_path / "first")

    def run(bad: list[Bad]) -> None:
        shutil.rmtree(tmp_path / "now", ignore_errors=True)
        shutil.copytree(tmp_path / "first", tmp_path / "now")
        monkeypatch.chdir(tmp_path / "now")
        folder = tmp_path / "now/data/raw/weekly"
        check(bad, CorpusOptions(folder=folder, manifest="manifest.tsv", signer_disjoint=True))

    return run


_SETTINGS = {
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@settings(max_examples=1, phases=[Phase.generate], **_SETTINGS)  # type: ignore[arg-type]
@given(bad=bads)
def test_a_few_bad_files_keep_no_clip_out(
    in_project: Callable[[list[Bad]], None], monkeypatch: pytest.MonkeyPatch, bad: list[Bad]
) -> None:
    # This process decodes: others take a second each.
    monkeypatch.setattr(
        checks, "probe_all", lambda segments: [probe(segment) for segment in segments]
    )
    in_project(bad)


@pytest.mark.slow
@settings(max_examples=25, **_SETTINGS)  # type: ignore[arg-type]
@given(bad=bads)
def test_many_bad_files_keep_no_clip_out(
    in_project: Callable[[list[Bad]], None], bad: list[Bad]
) -> None:
    in_project(bad)
