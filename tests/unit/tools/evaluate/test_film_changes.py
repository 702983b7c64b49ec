"""Films that are darker, smaller, elsewhere: written again, and the clip stays a clip."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_shards
from signloom.detection.video import Video
from signloom.errors import UserError
from signloom.evaluation.metrics import ScoreOptions
from signloom.evaluation.stress import Tried, has_no_warning, stress_row
from signloom.evaluation.systems import Setup
from signloom.extraction.extract import extract_corpus
from signloom.features.targets import Target
from signloom.translation.translator import Translator
from signloom_tools.evaluate.film_changes import AS_IT_IS, FILM_CHANGES, write_changed
from signloom_tools.evaluate.stress_films import try_films
from tests import tiny
from tests.extraction import OPTIONS, draw_two_clips, frames_of


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Clip]:
    return draw_two_clips(tmp_path_factory.mktemp("drawn") / "corpus")


@pytest.mark.parametrize("name", FILM_CHANGES)
def test_a_changed_film_can_be_read_and_is_the_same_each_time(
    clips: list[Clip], tmp_path: Path, name: str
) -> None:
    assert clips[0].video
    was = np.stack(frames_of(clips[0])).astype(float)
    landmarks = tiny.sequence(1, frames=len(was))
    for copy in ("a", "b"):
        write_changed(tmp_path / f"{copy}.mp4", clips[0].video, (None, None), name, landmarks, [1])
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    found = np.stack(frames_of(replace(clips[0], video=tmp_path / "a.mp4"))).astype(float)
    with Video(tmp_path / "a.mp4") as video:
        fps = video.fps
    height, width = was.shape[1:3]
    if name == AS_IT_IS:
        assert np.abs(found - was).mean() < 6
    elif name == "film: dark":
        assert found.mean() < 0.35 * was.mean()
    elif name == "film: half as large":
        assert found.shape[1:3] == (height // 2, width // 2)
    elif name == "film: cropped":
        assert found.shape[1] < height
    elif name == "film: mirrored":
        assert np.abs(found[..., ::-1, :] - was).mean() < 6
    elif name == "film: 1.5 s of the first picture in front":
        assert len(found) == len(was) + round(1.5 * fps)
        assert np.abs(found[:20] - was[0]).mean() < 6
    elif name == "film: 10 frames a second":
        assert fps == 10
        assert len(found) == pytest.approx(len(was) * 10 / 15, abs=1)
    else:
        assert found.shape == was.shape
        assert np.abs(found - was).mean() > 1


@pytest.mark.slow
@pytest.mark.mediapipe
def test_films_are_changed_extracted_again_and_scored(clips: list[Clip], tmp_path: Path) -> None:
    """Quick twin: the test above."""
    extract_corpus(clips, OPTIONS, tmp_path)
    sequences = {**read_shards(tmp_path / "shards")}
    translator = Translator.load(tiny.write_checkpoint(tmp_path / "checkpoint"))
    targets = [
        Target(clip_id=clip.clip_id, signer=clip.signer, split="test", text=clip.text,
               ids=[1, 2], gloss="", labels=[])
        for clip in clips
    ]  # fmt: skip
    films = {clip.clip_id: clip for clip in clips}
    score = ScoreOptions(tokenizer="13a", resamples=100, seed=1)

    setup = Setup(
        translator=translator, targets=targets, sequences=sequences, decoding=tiny.decoding(),
        score=score,
    )  # fmt: skip

    def tried(most: int) -> list[Tried]:
        return try_films(setup, targets, films, OPTIONS, most=most)

    found = tried(2)
    assert [one.change for one in found] == list(FILM_CHANGES)
    rows = [stress_row(one, has_no_warning(one, translator, None)) for one in found]
    assert all((row.clips, row.told) == (2, 100) for row in rows)
    # Written again a film shows the same; its first picture held, more of it.
    same = found[0].clips[0].points - sequences[clips[0].clip_id].points
    assert np.nanmedian(np.abs(same)) < 0.01
    longer = found[FILM_CHANGES.index("film: 1.5 s of the first picture in front")]
    assert len(longer.clips[0].points) == len(found[0].clips[0].points) + 22
    assert len(tried(1)[0].clips) == 1
    films = {name: replace(clip, video=None) for name, clip in films.items()}
    with pytest.raises(UserError, match="no clip of the split has a film"):
        tried(1)
