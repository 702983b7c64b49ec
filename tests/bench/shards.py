"""What the shards cost beside the usual ways to store landmarks, on the same clips.

Usage: python -m tests.bench.shards [--landmarks SHARDS] [--rounds N] [--write-clips N] [--out DIR]

"Load" is the time until the files' content is in memory as their library gives it (an Arrow table,
arrays), "sequences" until it is what training takes, checked `LandmarkSequence`s in float32. Shards
hold them; the others hold the points alone, so which groups are present is read off their NaN, and
layout, rate and size are given to them. Times are CPU times of one thread, medians of rounds in
which the formats take turns.
"""

import argparse
import dataclasses
import json
import os
import pickle
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import (
    find_shards,
    read_clip_frames,
    read_shards,
    shard_bound,
    shards_metadata,
    write_shards,
)

FRAMES_PER_SHARD = 25_000
MIB = 2**20

Clips = Mapping[str, LandmarkSequence]
Points = dict[str, np.ndarray]


class Format(ABC):
    """A way to store clips in a folder."""

    name: str

    @abstractmethod
    def write(self, folder: Path, clips: Clips) -> None: ...

    @abstractmethod
    def read(self, folder: Path) -> Points: ...

    @abstractmethod
    def read_one(self, folder: Path, clip_id: str) -> np.ndarray: ...

    def load(self, folder: Path) -> object:
        return self.read(folder)

    def sequences(self, folder: Path, like: LandmarkSequence) -> dict[str, LandmarkSequence]:
        return to_sequences(self.read(folder), like)


class Shards(Format):
    name = "Signloom shards"

    def write(self, folder: Path, clips: Clips) -> None:
        layout = next(iter(clips.values())).layout
        frames = {clip_id: len(clip.points) for clip_id, clip in clips.items()}
        write_shards(folder, frames, clips.__getitem__, layout=layout, extractor="{}",
                     frames_per_shard=FRAMES_PER_SHARD)  # fmt: skip

    def read(self, folder: Path) -> Points:
        return {clip_id: clip.points for clip_id, clip in read_shards(folder).items()}

    def read_one(self, folder: Path, clip_id: str) -> np.ndarray:
        return read_shards(folder, [clip_id])[clip_id].points

    def load(self, folder: Path) -> object:
        return [pq.ParquetFile(path).read(use_threads=False) for path in folder.iterdir()]

    def sequences(self, folder: Path, like: LandmarkSequence) -> dict[str, LandmarkSequence]:
        return read_shards(folder)


class NumpyFiles(Format):
    name = ".npy, float32, a file a clip"

    def write(self, folder: Path, clips: Clips) -> None:
        for clip_id, clip in clips.items():
            np.save(folder / f"{clip_id}.npy", clip.points)

    def read(self, folder: Path) -> Points:
        return {path.stem: np.load(path) for path in folder.iterdir()}

    def read_one(self, folder: Path, clip_id: str) -> np.ndarray:
        return np.load(folder / f"{clip_id}.npy")


class Pickle(Format):
    name = "pickle of float32 arrays, one file"

    def write(self, folder: Path, clips: Clips) -> None:
        points = {clip_id: clip.points for clip_id, clip in clips.items()}
        (folder / "all.pkl").write_bytes(pickle.dumps(points, protocol=5))

    def read(self, folder: Path) -> Points:
        return pickle.loads((folder / "all.pkl").read_bytes())

    def read_one(self, folder: Path, clip_id: str) -> np.ndarray:
        return self.read(folder)[clip_id]


class ArrowDefaults(Format):
    name = "pyarrow's defaults, list of float32"

    def write(self, folder: Path, clips: Clips) -> None:
        ends = np.cumsum([0, *(clip.points.size for clip in clips.values())])
        numbers = np.concatenate([clip.points.ravel() for clip in clips.values()])
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(numbers))
        shapes = [len(clip.points) for clip in clips.values()]
        table = pa.table({"clip_id": list(clips), "frames": shapes, "points": lists})
        pq.write_table(table, folder / "all.parquet")

    def load(self, folder: Path) -> object:
        return pq.ParquetFile(folder / "all.parquet").read(use_threads=False)

    def read(self, folder: Path) -> Points:
        return self._arrays(pq.read_table(folder / "all.parquet"))

    def read_one(self, folder: Path, clip_id: str) -> np.ndarray:
        chosen = pq.read_table(folder / "all.parquet", filters=[("clip_id", "==", clip_id)])
        return self._arrays(chosen)[clip_id]

    def _arrays(self, table: pa.Table) -> Points:
        lists = table["points"].combine_chunks()
        numbers, ends = lists.values.to_numpy(), lists.offsets.to_numpy()
        frames = table["frames"].to_numpy()
        return {
            clip_id: numbers[ends[row] : ends[row + 1]].reshape(frames[row], -1, 3)
            for row, clip_id in enumerate(table["clip_id"].to_pylist())
        }


class Kaggle(Format):
    name = "Kaggle's layout, a row a landmark, a file a clip"

    def write(self, folder: Path, clips: Clips) -> None:
        for clip_id, clip in clips.items():
            frames, marks, _ = clip.points.shape
            groups = [
                (g.name, mark) for g in clip.layout.groups for mark in range(len(g.landmarks))
            ]
            table = {
                "frame": np.repeat(np.arange(frames), marks),
                "type": [name for name, _ in groups] * frames,
                "landmark_index": np.tile([mark for _, mark in groups], frames),
                **dict(zip("xyz", clip.points.reshape(-1, 3).T, strict=True)),
            }
            pq.write_table(pa.table(table), folder / f"{clip_id}.parquet")

    def load(self, folder: Path) -> object:
        columns = ["frame", "x", "y", "z"]
        paths = folder.iterdir()
        return [pq.ParquetFile(path).read(columns=columns, use_threads=False) for path in paths]

    def read(self, folder: Path) -> Points:
        return {path.stem: self.read_one(folder, path.stem) for path in folder.iterdir()}

    def read_one(self, folder: Path, clip_id: str) -> np.ndarray:
        table = pq.read_table(folder / f"{clip_id}.parquet", columns=["frame", "x", "y", "z"])
        frames = table["frame"][-1].as_py() + 1  # rows lie frame by frame, in the layout's order
        return np.stack([table[axis].to_numpy() for axis in "xyz"], axis=1).reshape(frames, -1, 3)


def add_digits(clip: LandmarkSequence) -> LandmarkSequence:
    """Return the clip with random digits beyond half precision, as MediaPipe's float32 has them.

    Shards round them off. Without them the other formats would store numbers easier than real.
    """
    generator = np.random.default_rng(len(clip.points))
    steps = np.spacing(np.abs(np.nan_to_num(clip.points)).astype(np.float16)).astype(np.float32)
    shares = generator.uniform(-0.49, 0.49, clip.points.shape)
    points = (clip.points + shares * steps).astype(np.float32)
    return dataclasses.replace(clip, points=points)


def to_sequences(points: Points, like: LandmarkSequence) -> dict[str, LandmarkSequence]:
    """Return sequences of bare points, each with the rate and size of the same clip."""
    first = [like.layout.slice(name).start for name in like.layout.group_names]
    return {
        clip_id: dataclasses.replace(like, points=found, present=~np.isnan(found[:, first, 0]))
        for clip_id, found in points.items()
    }


def measure(action: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begun = time.process_time()
    action()
    return time.process_time() - begun


def compare(clips: Clips, rounds: int, scratch: Path) -> list[dict[str, float | str]]:
    """Measure every format on the same clips; check that it gives them back."""
    formats = [Shards(), NumpyFiles(), Pickle(), ArrowDefaults(), Kaggle()]
    raw = sum(clip.points.nbytes for clip in clips.values())
    like = next(iter(clips.values()))
    times = {form.name: {"write": [], "load": [], "sequences": [], "one": []} for form in formats}
    one = np.random.default_rng(0).choice(sorted(clips), rounds)
    for number in range(rounds):
        for form in formats:
            folder = scratch / type(form).__name__
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            found = times[form.name]
            found["write"].append(measure(lambda form=form, f=folder: form.write(f, clips)))
            found["load"].append(measure(lambda form=form, f=folder: form.load(f)))
            found["sequences"].append(measure(lambda form=form, f=folder: form.sequences(f, like)))
            clip = str(one[number])
            found["one"].append(measure(lambda form=form, f=folder, c=clip: form.read_one(f, c)))
    rows = []
    for form in formats:
        folder = scratch / type(form).__name__
        back = form.read(folder)
        assert back.keys() == clips.keys(), form.name
        for clip_id, clip in clips.items():
            exact = clip.points.astype(np.float16) if form is formats[0] else clip.points
            np.testing.assert_array_equal(back[clip_id], exact)
        size = sum(path.stat().st_size for path in folder.iterdir())
        medians = {key: float(np.median(found)) for key, found in times[form.name].items()}
        rows.append({"format": form.name, "bytes": size, "share": size / raw, **medians})
    return rows


def measure_full_shard(clips: Clips, rounds: int, scratch: Path) -> dict[str, float]:
    """Compare one clip with all clips of a shard that is as full as shards get."""
    copies = dict(clips)
    while sum(len(clip.points) for clip in copies.values()) <= FRAMES_PER_SHARD:
        copies |= {f"{clip_id} {len(copies)}": clip for clip_id, clip in copies.items()}
    folder = scratch / "full"
    Shards().write(folder, copies)
    bounds = sorted(shard_bound(path.name) for path in folder.iterdir())
    by_shard = find_shards(list(read_clip_frames(folder)), bounds)
    fullest = max(by_shard.values(), key=lambda ids: sum(len(copies[i].points) for i in ids))
    ids = sorted(fullest)
    generator = np.random.default_rng(1)
    whole = [measure(lambda: read_shards(folder, ids)) for _ in range(rounds)]
    some = [str(clip_id) for clip_id in generator.choice(ids, 20 * rounds)]
    single = [measure(lambda i=clip_id: read_shards(folder, [i])) for clip_id in some]
    return {
        "clips": len(ids),
        "frames": sum(len(copies[clip_id].points) for clip_id in ids),
        "all_s": float(np.median(whole)),
        "one_s": float(np.mean(single)),  # below the clock's step, a median would be one of two
    }


def measure_writing(clips: Clips, count: int, scratch: Path) -> dict[str, float]:
    """Write a corpus of many clips."""
    sequences = list(clips.values())
    frames = {f"clip {number}": len(sequences[number % len(sequences)].points)
              for number in range(count)}  # fmt: skip
    seconds = measure(
        lambda: write_shards(
            scratch / "many",
            frames,
            lambda clip_id: sequences[int(clip_id.split()[1]) % len(sequences)],
            layout=sequences[0].layout,
            extractor="{}",
            frames_per_shard=FRAMES_PER_SHARD,
        )
    )
    size = sum(path.stat().st_size for path in (scratch / "many").iterdir())
    files = len(list((scratch / "many").iterdir()))
    return {"clips": count, "frames": sum(frames.values()), "files": files, "bytes": size,
            "write_s": seconds}  # fmt: skip


def to_markdown(rows: list[dict], full: dict, many: dict, clips: Clips) -> str:
    """The figures as a table and two sentences."""
    ours = rows[0]
    frames = sum(len(clip.points) for clip in clips.values())
    lines = [
        f"{len(clips)} clips, {frames} frames of {next(iter(clips.values())).layout.name}",
        "",
        "| format | MiB | of float32 | write ms | load ms | times ours | sequences ms "
        "| times ours | one clip ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['format']} | {row['bytes'] / MIB:.2f} | {row['share']:.1%} | "
        f"{1e3 * row['write']:.0f} | {1e3 * row['load']:.1f} | "
        f"{row['load'] / ours['load']:.2f} | {1e3 * row['sequences']:.1f} | "
        f"{row['sequences'] / ours['sequences']:.2f} | "
        f"{1e3 * row['one']:.2f} |"
        for row in rows
    ]
    lines += [
        "",
        f"A shard of {full['clips']} clips, {full['frames']} frames: all clips "
        f"{1e3 * full['all_s']:.1f} ms, one clip {1e3 * full['one_s']:.2f} ms, "
        f"1/{full['all_s'] / full['one_s']:.0f}.",
        f"Writing {many['clips']} clips, {many['frames']} frames: {many['write_s']:.1f} s, "
        f"{many['files']} files, {many['bytes'] / MIB:.0f} MiB.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write shards.md and shards.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landmarks", type=Path, default=Path("data/landmarks/shards"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write-clips", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    parser.add_argument("--name", default="shards", help="of the two files")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    clips = {
        clip_id: add_digits(clip) for clip_id, clip in read_shards(arguments.landmarks).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(clips, arguments.rounds, Path(folder))
        full = measure_full_shard(clips, arguments.rounds, Path(folder))
        many = measure_writing(clips, arguments.write_clips, Path(folder))
    report = to_markdown(rows, full, many, clips)
    print(report)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.name}.md").write_text(report, encoding="utf-8")
    figures = {
        "landmarks": shards_metadata(arguments.landmarks).layout.name,
        "formats": rows,
        "full_shard": full,
        "writing": many,
    }
    text = json.dumps(figures, indent=1) + "\n"
    (arguments.out / f"{arguments.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
