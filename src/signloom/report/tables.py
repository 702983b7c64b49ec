"""Tables of the report: the corpus, confused words, the grid of searches, what made the numbers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signloom.config import flatten
from signloom.corpus.manifest import SPLITS
from signloom.evaluation.metrics import ScoreOptions, split_words
from signloom.report.stage_files import Row, Sources
from signloom.tables import to_table, to_values

MAX_CONFUSIONS = 20
_AT_ONCE = 10_000  # sentences whose words are counted at one time


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRow:
    """A split of the corpus."""

    split: str
    clips: int
    signers: int
    minutes: float
    words: int
    distinct_words: int
    words_per_sentence: float
    distinct_sentences: int
    seen: float  # share of the sentences that also occur in train
    new_words: float  # share of the running words that train never shows


def corpus_table(sources: Sources) -> list[CorpusRow]:
    """Return one row a split: clips, signers, time, words, and how much of it is in train."""
    clips = to_table(sources.targets, ["split", "clip_id", "signer", "text"], pa.string())
    clip_ids = to_table(sources.quality, ["clip_id"], pa.string())["clip_id"]
    seconds = to_table(sources.quality, ["seconds"], pa.float64())["seconds"]
    clips = clips.append_column("seconds", seconds.take(pc.index_in(clips["clip_id"], clip_ids)))
    # Numbers of sentences instead of copies of them.
    columns = clips.select(["signer", "seconds"])
    columns = columns.append_column("text", pc.rank(clips["text"], tiebreaker="dense"))
    splits = {name: columns.filter(pc.equal(clips["split"], name)) for name in SPLITS}
    counts = {name: _count_words(clips, name, sources.scoring) for name in SPLITS}
    texts = {name: part["text"].to_numpy() for name, part in splits.items()}
    train_words = counts["train"].keys()
    return [
        CorpusRow(
            split=name,
            clips=len(part),
            signers=pc.count_distinct(part["signer"]).as_py(),
            minutes=sum(memoryview(part["seconds"].drop_null().to_numpy())) / 60,
            words=counts[name].total(),
            distinct_words=len(counts[name]),
            words_per_sentence=counts[name].total() / len(part),
            distinct_sentences=len(np.unique(texts[name])),
            seen=float(np.mean(np.isin(texts[name], texts["train"]))),
            new_words=sum(counts[name][word] for word in counts[name].keys() - train_words)
            / counts[name].total(),
        )
        for name, part in splits.items()
        if len(part)
    ]


def _count_words(clips: pa.Table, split: str, options: ScoreOptions) -> Counter[str]:
    counts = Counter[str]()
    for part in clips.select(["split", "text"]).to_batches(max_chunksize=_AT_ONCE):
        texts = to_values(part["text"].filter(pc.equal(part["split"], split)))
        words = split_words(texts, options, keep_case=True)
        counts.update(chain.from_iterable(words))
    return counts


def list_confusions(rows: Iterable[Row], split: str) -> list[Row]:
    """Return the words that the model most often gets wrong on a split, the most frequent first.

    Words that are only once wrong say nothing, unless all are.
    """
    of_split = [row for row in rows if row["split"] == split]
    often = [row for row in of_split if int(row["count"]) > 1]
    return (often or of_split)[:MAX_CONFUSIONS]


def run_details(sources: Sources) -> dict[str, dict[str, str]]:
    """Title to key and value: everything that made the numbers."""
    checkpoint = sources.checkpoint
    provenance = checkpoint.get("provenance", {})
    idle = ("Features", "Augmentation", "Landmark extraction") if sources.reads_glosses else ()
    sections = {
        "Model": checkpoint["model"],
        "Features": checkpoint["features"],
        "Training": provenance.get("params", {}).get("train", {}),
        "Augmentation": provenance.get("params", {}).get("augment", {}),
        "Search of translations": {"precision": sources.options["precision"], **sources.decoding},
        "Scoring": sources.options["score"],
        "Landmark extraction": checkpoint.get("extractor", {}),
        "Data hashes (SHA-256)": provenance.get("data", {}),
        "Environment": {
            **provenance.get("libraries", {}),
            **{key: value for key, value in provenance.items() if key == "threads"},
        },
    }
    return {
        title: {key: str(value) for key, value in flatten(values)}
        for title, values in sections.items()
        if values and title not in idle
    }
