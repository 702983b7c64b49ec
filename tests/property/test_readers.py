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

from signloom.corpus.manifest import CorpusOptions
from signloom_ops.intake import checks
from signloom_ops.intake.checks import probe
from tests import videos
from tests.attack import inputs
from tests.intake import deliver, found_corpus, take

MOST_S, MOST_BYTES = 60, 3 * 2**28  # of an ingest of some clips in this process
_TABLE = b"video\ttext\tsigner\tstart_s\nfilm.mp4\tbonjour maman\tzoe\t0.0\n"


class Bad(NamedTuple):
    """Something that somebody delivers; made outside of the strategies."""

    suffix: str
    """How the file is read; empty: a folder of pictures."""
    name: str
    make: Callable[[Path], object]

    def __repr__(self) -> str:
        return f"{self.name}{self.suffix}"


@st.composite
def written(draw: st.DrawFn) -> Bad:
    """Draw any bytes, or a good file with some bytes changed, cut or put in, as any file."""
    good = {**inputs.GOOD_TEXTS, ".tsv": _TABLE, ".mp4": b"", ".png": b""}
    suffix = draw(st.sampled_from(sorted(good)))
    if draw(st.booleans()):
        content = draw(st.binary(max_size=400))
        return Bad(suffix, repr(content), inputs.bytes_of(content))
    changes = draw(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(inputs.NASTY)), max_size=4))
    end, coding = draw(st.floats(0.2, 1)), draw(st.sampled_from(["", "utf-16", "utf-32"]))

    def make(path: Path) -> None:
        content = good[suffix] or _binary(suffix)
        for place, nasty in changes:
            at = int(place * len(content))
            content = content[:at] + nasty + content[at + 1 :]
        content = content[: int(end * len(content))]
        path.write_bytes(content.decode("latin-1").encode(coding) if coding else content)

    return Bad(suffix, f"{changes} to {end} {coding}", make)


def _binary(suffix: str) -> bytes:
    """Return a good film or picture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"good{suffix}")
        (videos.write_picture(path, "png") if suffix == ".png" else videos.write_video(path, 21))
        return path.read_bytes()


known = st.sampled_from(
    [Bad(Path(name).suffix, Path(name).stem, make) for name, make in inputs.CAPTIONS.items()]
    + [Bad("", name, make) for name, make in inputs.PICTURES.items()]
    + [
        Bad(suffix, name, make)
        for name, make in inputs.KINDS.items()
        for suffix in (".mp4", ".txt", ".tsv")
    ]
)
bads = st.lists(st.one_of(known, written()), min_size=1, max_size=5)


def put(bad: Bad, folder: Path, name: str) -> str:
    """Deliver it with what belongs to it; return what of the rejects names it."""
    if bad.suffix == ".tsv":  # whose folder has no other sentences
        folder = folder / name
        folder.mkdir()
        videos.write_video(folder / "film.mp4", frames=23)
        bad.make(folder / "table.tsv")
        return name
    text = folder / f"{name}.txt"
    if bad.suffix in ("", ".png", ".mp4"):
        text.write_text("demain elle boit de l'eau")
    if bad.suffix == ".png":
        bad.make(videos.write_pictures(folder / name, numbers=range(30, 40)) / "33.png")
    elif bad.suffix:
        bad.make(folder / f"{name}{bad.suffix}")
    else:
        bad.make(folder / name)
    if bad.suffix not in ("", ".png", ".mp4"):
        videos.write_video(folder / f"{name}.mp4", frames=24)
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
    named = [put(one, inbox, f"bad{number}") for number, one in enumerate(bad)]
    with bounds():
        result = take(corpus, "in", fps=25.0)
    came = [clip.clip_id for clip in result.clips]
    assert "good" in came
    said = [f"{one.delivery}/{one.where} {one.reason}" for one in result.rejects]
    for name, one in zip(named, bad, strict=True):
        # What is changed may be good still, or hold other cues or rows that are.
        assert any(name in text for text in [*said, *came]), (one, said, came)


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


@settings(max_examples=3, phases=[Phase.generate], **_SETTINGS)  # type: ignore[arg-type]
@given(bad=bads)
def test_a_file_that_nobody_thought_of_keeps_no_clip_out(
    in_project: Callable[[list[Bad]], None], monkeypatch: pytest.MonkeyPatch, bad: list[Bad]
) -> None:
    # This process decodes: others take a second each.
    monkeypatch.setattr(checks, "probe_all", lambda segments: [probe(one) for one in segments])
    in_project(bad)


@pytest.mark.slow
@settings(max_examples=25, **_SETTINGS)  # type: ignore[arg-type]
@given(bad=bads)
def test_no_file_of_many_keeps_a_clip_out(
    in_project: Callable[[list[Bad]], None], bad: list[Bad]
) -> None:
    in_project(bad)
