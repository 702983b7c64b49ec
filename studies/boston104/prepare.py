"""Turn BOSTON-104's tracked hands and words into what `signloom import` and `init` read.

The data are those of github.com/udacity/AIND-Recognizer: `hands_condensed.csv` with both hands and
the nose in every frame (30 a second), `train_words.csv` and `test_words.csv`. A frame gets both
hands as seen from the nose, and how they changed since the frame before, 8 numbers, standardised
over the clips of its signer.

Usage: python -m studies.boston104.prepare DATA OUT
"""

import sys
from pathlib import Path

import pandas as pd

FPS = 30
DEV_EVERY = 40  # videos of train: 5 of 161 are dev, which the pipeline needs and nothing hangs on
HANDS = ("left-x", "left-y", "right-x", "right-y")


def read_features(data: Path) -> pd.DataFrame:
    """Return a row a frame: clip_id and 8 numbers."""
    frames = pd.read_csv(data / "hands_condensed.csv").sort_values(["video", "frame"])
    frames = frames.merge(pd.read_csv(data / "speaker.csv"), on="video")
    features = pd.DataFrame({"clip_id": frames["video"].map("{:03}".format)})
    for name in HANDS:
        place = frames[name] - frames[f"nose-{name[-1]}"]
        change = place.groupby(frames["video"]).diff().fillna(0)
        for column, values in ((name, place), (f"{name} change", change)):
            of_signer = values.groupby(frames["speaker"])
            features[column] = (values - of_signer.transform("mean")) / of_signer.transform("std")
    return features


def read_table(data: Path) -> pd.DataFrame:
    """Return a row a clip: clip_id, gloss, signer, split."""
    parts = []
    for split in ("train", "test"):
        words = pd.read_csv(data / f"{split}_words.csv", keep_default_na=False)
        words = words.sort_values(["video", "startframe"], kind="stable")
        clips = words.groupby("video").agg(signer=("speaker", "first"), gloss=("word", " ".join))
        parts.append(clips.reset_index().assign(split=split))
    parts[0].loc[parts[0].index % DEV_EVERY == 0, "split"] = "dev"
    table = pd.concat(parts)
    table["clip_id"] = table["video"].map("{:03}".format)
    return table[["clip_id", "gloss", "signer", "split"]]


def main() -> None:
    """Write features.parquet and table.tsv."""
    data, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    read_features(data).to_parquet(out / "features.parquet")
    read_table(data).to_csv(out / "table.tsv", sep="\t", index=False)


if __name__ == "__main__":
    main()
