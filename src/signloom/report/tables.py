"""Tables of the report: the corpus, confused words, the grid of searches, what made the numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from signloom.config import flatten
from signloom.corpus.manifest import SPLITS
from signloom.evaluation.metrics import ScoreOptions, split_words
from signloom.grouping import group_pairs
from signloom.report.stage_files import Row, Sources
from signloom.tables import read_columns

MAX_CONFUSIONS = 20


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
    seconds = {row.clip_id: row.seconds for row in sources.quality}
    clips = group_pairs(
        (split, (clip_id, signer, text))
        for split, clip_id, signer, text in read_columns(
            sources.targets, "split", "clip_id", "signer", "text"
        )
    )
    train_texts = {text for _, _, text in clips.get("train", ())}
    train_words = {
        word for words in _split(clips.get("train", ()), sources.scoring) for word in words
    }
    rows = []
    for split in SPLITS:
        if split not in clips:
            continue
        clip_ids, signers, texts = zip(*clips[split], strict=True)
        words = [word for words in _split(clips[split], sources.scoring) for word in words]
        rows.append(
            CorpusRow(
                split=split,
                clips=len(texts),
                signers=len({*signers}),
                minutes=sum(seconds.get(clip_id, 0.0) for clip_id in clip_ids) / 60,
                words=len(words),
                distinct_words=len(set(words)),
                words_per_sentence=len(words) / len(texts),
                distinct_sentences=len({*texts}),
                seen=sum(text in train_texts for text in texts) / len(texts),
                new_words=sum(word not in train_words for word in words) / len(words),
            )
        )
    return rows


def _split(clips: Sequence[tuple[str, str, str]], options: ScoreOptions) -> list[list[str]]:
    return split_words([text for _, _, text in clips], options, keep_case=True)


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
