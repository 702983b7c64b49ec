"""What a long film costs beside the inference of its cues.

    python -m tests.bench.long_film [CUES [WIDTH HEIGHT]]

Joins clips of the demo corpus with pauses of 0.5 to 3 s into one H.264 film (320x240 if not said,
15 frames/s, a key frame every 250 frames), and prints the CPU seconds of this process for:
inference alone (frames already decoded), the same cues as clips that were cut out before, each a
file, the segments of the film in parts as `extract` works them off, and each segment on its own,
opened and sought anew. The percentages are over the first and over the second.
"""

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.extraction.extract import (
    _SEGMENTS_PER_JOB,
    ExtractOptions,
    Segment,
    _detect,
    _split_films,
    extract_entry,
    extract_part,
)
from signloom.extraction.video import Frame, Video, thin_frames
from signloom.paths import PARAMS

Pictures = list[npt.NDArray[np.uint8]]


def write_film(path: Path, parts: Iterable[Pictures], width: int, height: int) -> None:
    """Encode pictures."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=15, options={"preset": "fast"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for rgb in itertools.chain.from_iterable(parts):
            picture = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            out.mux(stream.encode(picture.reformat(width, height, "yuv420p")))
        out.mux(stream.encode(None))


def join_clips(folder: Path, cues: int, width: int = 320, height: int = 240) -> list[Segment]:
    """Write a film of so many clips, and each as a file; return where they are in the film."""
    clips = read_manifest(load_section(PARAMS, "corpus", CorpusOptions).path)[:cues]
    order, path = random.Random(0), folder / "film.mp4"
    segments: list[Segment] = []

    def parts() -> Iterator[Pictures]:
        frames = 0
        for number, clip in enumerate(clips):
            assert clip.video
            with Video(clip.video) as video:
                pictures = [frame.rgb for frame in video.frames()]
            write_film(folder / f"{number}.mp4", [pictures], width, height)
            pause = round(order.uniform(0.5, 3.0) * 15)
            yield [pictures[0]] * pause
            yield pictures
            start_s, frames = (frames + pause) / 15, frames + pause + len(pictures)
            segments.append(Segment(video=path, start_s=start_s, end_s=frames / 15))

    write_film(path, parts(), width, height)
    minutes = (segments[-1].end_s or 0.0) / 60
    print(f"{cues} cues, {minutes:.1f} minutes, {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return segments


def decode(part: list[Segment]) -> list[list[Frame]]:
    """Return the frames of segments."""
    with Video(part[0].video) as video:
        return [list(video.frames(one.start_s, one.end_s)) for one in part]


def main(*film: int) -> None:
    options = load_section(PARAMS, "extract", ExtractOptions).detector_options
    with tempfile.TemporaryDirectory() as folder:
        segments = join_clips(Path(folder), *film)
        parts = _split_films(segments, _SEGMENTS_PER_JOB)
        extract_entry(segments[0], options)  # the networks are loaded
        spent = {"inference alone": 0.0, "cut out before": 0.0, "in parts": 0.0, "one by one": 0.0}
        for part in parts:  # taking turns, so that a busy machine is busy for all
            frames = decode(part)
            with Video(part[0].video) as video:
                begun = time.process_time()
                for found in frames:
                    _detect(video, thin_frames(iter(found), options.fps), options)
                spent["inference alone"] += time.process_time() - begun
            begun = time.process_time()
            for segment in part:
                cut = Path(folder) / f"{segments.index(segment)}.mp4"
                extract_entry(Segment(video=cut, start_s=None, end_s=None), options)
            spent["cut out before"] += time.process_time() - begun
            begun = time.process_time()
            entries = extract_part(part, options)
            spent["in parts"] += time.process_time() - begun
            begun = time.process_time()
            alone = [extract_entry(segment, options) for segment in part]
            spent["one by one"] += time.process_time() - begun
            assert entries == alone, "a segment depends on those before it"
    for what, seconds in spent.items():
        more = [seconds / spent[base] - 1 for base in ("inference alone", "cut out before")]
        print(f"{what:<16} {seconds:8.1f} s CPU  {more[0]:+7.1%} {more[1]:+7.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["120"]))
