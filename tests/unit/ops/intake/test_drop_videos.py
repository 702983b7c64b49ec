"""A corpus goes on without its videos: the same landmarks, and no moment in which it is broken."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.landmark_folder import take_imported, write_landmarks
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest, write_manifest
from signloom.corpus.rejects import reject_clip
from signloom.corpus.shards import shards_metadata
from signloom.errors import Problem, UserError
from signloom.features.targets import TokenizeOptions, build_targets
from signloom_ops.intake.drop_videos import Dropped, drop_videos
from signloom_ops.intake.staging import staging_folder
from signloom_tools.cli.main import main
from tests import tiny
from tests.extraction import contents

LANDMARKS = Path("data/landmarks")
LIMITS = {"frames_per_shard": 50, "max_rejected_share": 0.2}
CLIPS = 8


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusOptions:
    """A corpus whose landmarks are found: two clips a video, and a video that cannot be read."""
    monkeypatch.chdir(tmp_path)
    options = CorpusOptions(folder=Path("data/raw/weekly"), manifest="manifest.tsv",
                            signer_disjoint=True)  # fmt: skip
    clips, sequences = [], {}
    for number in range(CLIPS):
        video = options.folder / "videos" / f"{number // 2}.mp4"
        video.parent.mkdir(parents=True, exist_ok=True)
        video.write_bytes(b"likeness %d" % (number // 2))
        name = f"clip {number}"
        sequences[name] = tiny.halve(tiny.sequence(number, frames=9))  # as found
        clips.append(Clip(
            clip_id=name, video=video, text=f"sentence {number}", gloss="A B",
            signer="ada" if number < 5 else "bo", split="train" if number < 5 else "dev",
            start_s=float(number % 2), end_s=number % 2 + 1.0,
        ))  # fmt: skip
    (options.folder / "LICENSE.txt").write_text("ours")
    write_manifest(options.path, clips)
    frames = {clip.clip_id: 9 for clip in clips[:-1]}
    rejects = [reject_clip(clips[-1], Problem("the file cannot be opened", "restore it"))]
    write_landmarks(
        LANDMARKS, frames, rejects, sequences.__getitem__,
        layout=HANDS_POSE, extractor='{"detector": "holistic"}', frames_per_shard=50,
    )  # fmt: skip
    return options


def drop(corpus: CorpusOptions, **changes: object) -> Dropped | None:
    return drop_videos(corpus, LANDMARKS, **{**LIMITS, "check": lambda: None, **changes})


def tokens(corpus: CorpusOptions) -> object:
    options = TokenizeOptions(vocabulary="pruned", max_tokens=64, ctc="glosses", source="none")
    return build_targets(read_manifest(corpus.path), options)[1:]


def assert_dropped(corpus: CorpusOptions, before: list[Clip]) -> None:
    """No trace of a video; clips, texts and what `extract` gives are as before."""
    assert not list(corpus.folder.parent.rglob("*.mp4"))
    assert not [
        path
        for path in Path("data").rglob("*")
        if path.is_file() and b"likeness" in path.read_bytes()
    ]
    assert sorted(path.name for path in corpus.folder.iterdir()) == [
        "LICENSE.txt", "landmarks", "manifest.tsv",
    ]  # fmt: skip
    clips = read_manifest(corpus.path)
    assert clips == [replace(clip, video=None, start_s=None, end_s=None) for clip in before]
    take_imported(clips, corpus.imported_shards, Path("again"), **LIMITS)
    again, found = contents(Path("again")), contents(LANDMARKS)
    assert again.pop("rejects.tsv") != found.pop("rejects.tsv")  # another reason
    assert again == found
    kept = corpus.imported_shards.parent / "rejects.tsv"
    assert "clip 7\tdata/raw/weekly/videos/3.mp4\tthe file cannot be opened" in kept.read_text()


def test_extraction_and_tokens_are_the_same_without_the_videos(corpus: CorpusOptions) -> None:
    before, texts = read_manifest(corpus.path), tokens(corpus)
    found = drop(corpus)
    assert found
    assert (found.clips, found.without_landmarks, len(found.videos)) == (8, 1, 4)
    assert found.size_bytes == 4 * len(b"likeness 0")
    assert_dropped(corpus, before)
    assert tokens(corpus) == texts
    # A model goes on to read videos: its landmarks are the same detector's.
    assert shards_metadata(corpus.imported_shards).extractor == '{"detector": "holistic"}'
    with pytest.raises(UserError, match="nothing to drop"):
        drop(corpus)


def test_landmarks_that_are_not_of_these_videos_keep_them(corpus: CorpusOptions) -> None:
    def refuse() -> None:
        raise UserError("DVC says no")

    before = contents(corpus.folder)
    with pytest.raises(UserError, match="DVC says no"):
        drop(corpus, check=refuse)
    with pytest.raises(UserError, match="would not give what data/landmarks has"):
        drop(corpus, frames_per_shard=1000)
    clips = read_manifest(corpus.path)
    write_manifest(corpus.path, clips[:-2])
    with pytest.raises(UserError, match=r"only one of them has 'clip 6' .and 1 more"):
        drop(corpus)
    write_manifest(corpus.path, clips)
    assert contents(corpus.folder) == before
    assert not list(staging_folder(corpus).rglob("*.parquet"))
    rejects = (LANDMARKS / "rejects.tsv").read_bytes()
    (LANDMARKS / "rejects.tsv").write_bytes(b"\xb4")
    with pytest.raises(UserError, match=r"rejects.tsv is damaged"):
        drop(corpus)
    (LANDMARKS / "rejects.tsv").write_bytes(rejects)
    shard = min((LANDMARKS / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-40] + bytes(40))
    with pytest.raises(UserError, match="damaged shard"):
        drop(corpus)
    assert contents(corpus.folder) == before


def test_a_drawn_corpus_keeps_its_videos(corpus: CorpusOptions) -> None:
    Path("dvc.yaml").write_text(
        "stages:\n  draw:\n    cmd: draw\n    outs:\n      - data/raw/weekly: {cache: false}\n"
    )
    with pytest.raises(UserError, match="stage `draw`"):
        drop(corpus)


def test_the_command_asks_and_says_what_it_would_do(
    corpus: CorpusOptions, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = (tiny.ROOT / "params.yaml").read_text().replace("data/demo/corpus", "data/raw/weekly")
    Path("params.yaml").write_text(params)
    before = contents(corpus.folder)
    main(["drop-videos", "--dry-run"])
    said = capsys.readouterr().out
    assert said == (
        "would delete 4 videos, 0.0 MB, of 8 clips, also those of 1 clips without landmarks\n"
    )
    with pytest.raises(SystemExit, match="give --yes"):
        main(["drop-videos"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    with pytest.raises(SystemExit, match="nothing was removed"):
        main(["drop-videos"])
    with pytest.raises(SystemExit, match="`dvc status extract` cannot tell"):
        main(["drop-videos", "--yes"])  # no DVC repository
    assert contents(corpus.folder) == before
