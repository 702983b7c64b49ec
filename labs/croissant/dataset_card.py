"""A corpus described for others: Croissant metadata, a table of its clips, a card in Markdown.

Croissant 1.0 is MLCommons' vocabulary of data sets, JSON-LD over schema.org (Akhtar et al. 2024,
Croissant: a metadata format for ML-ready datasets; https://docs.mlcommons.org/croissant/). All is
read from the manifest, the quality table and the terms in the corpus folder; what they do not say
is not made up.

Usage: python -m labs.croissant.dataset_card OUT_DIR [NAME=VALUE ...]
"""

import argparse
import csv
import hashlib
import io
import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from signloom.config import load_section
from signloom.corpus.landmark_folder import QUALITY_NAME
from signloom.corpus.manifest import (
    SPLITS,
    Clip,
    CorpusOptions,
    corpus_name,
    has_ended,
    read_manifest,
)
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.errors import UserError
from signloom.files import check_output, write_file
from signloom.paths import PARAMS, SHARDS
from signloom_ops.nightly.card import NOT_SAID, quote_terms

METADATA, TABLE, CARD = "croissant.json", "clips.csv", "DATASET_CARD.md"
# What nobody but its owner knows of a data set; names of schema.org.
ABOUT = ("creator", "datePublished", "description", "license", "url", "version")
_VIDEO_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime",
                ".mkv": "video/x-matroska", ".avi": "video/x-msvideo"}  # fmt: skip
# Column of the table: its type and what it holds.
_COLUMNS = {
    "clip_id": ("sc:Text", "name of the clip"),
    "video": ("sc:Text", "path of its film; empty: landmarks alone"),
    "text": ("sc:Text", "the sentence that is signed"),
    "signer": ("sc:Text", "who signs: personal data"),
    "split": ("sc:Text", "train, dev or test"),
    "start_s": ("sc:Float", "where it begins in the film, seconds; empty: at its first frame"),
    "end_s": ("sc:Float", "where it ends; empty: at its last frame"),
    "gloss": ("sc:Text", "signs, separated by spaces"),
    "language": ("sc:Text", "of the sentence"),
}
_SPLIT_CLASSES = {"train": "TrainingSplit", "dev": "ValidationSplit", "test": "TestSplit"}
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{
        name: f"cr:{name}"
        for name in (
            "citeAs", "column", "extract", "field", "fileObject", "fileProperty", "fileSet",
            "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path",
            "recordSet", "references", "regex", "repeated", "replace", "separator", "source",
            "subField", "transform",
        )
    },
}  # fmt: skip


def describe_corpus(
    folder: Path, clips: Sequence[Clip], quality: Sequence[ClipQuality], about: Mapping[str, str]
) -> dict[str, str]:
    """Return the files that describe a corpus, by name.

    Args:
        folder: Of the corpus; its licence and consent are quoted.
        clips: What is described.
        quality: How well their landmarks were found; of none, some or all.
        about: What its owner says, see `ABOUT`.
    """
    table = _table(folder, clips)
    there = {clip.clip_id for clip in clips}
    figures = [row for row in quality if row.clip_id in there]
    metadata = _metadata(folder, clips, about, hashlib.sha256(table.encode()).hexdigest())
    return {
        TABLE: table,
        METADATA: json.dumps(metadata, ensure_ascii=False, indent=1) + "\n",
        CARD: "\n".join(_card(folder, clips, figures, about)) + "\n",
    }


def _table(folder: Path, clips: Sequence[Clip]) -> str:
    """Return the manifest without its first line, which other readers of tables do not know."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    for clip in clips:
        row = {name: getattr(clip, name) for name in _COLUMNS}
        row["video"] = _video(folder, clip)
        writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return text.getvalue()


def _video(folder: Path, clip: Clip) -> str:
    return clip.video.relative_to(folder).as_posix() if clip.video else ""


def _metadata(
    folder: Path, clips: Sequence[Clip], about: Mapping[str, str], table_hash: str
) -> dict[str, Any]:
    languages = sorted({clip.language for clip in clips if clip.language})
    signers = len({clip.signer for clip in clips})
    counts = Counter(clip.split for clip in clips)
    drawn = f"Clips of sign language with their sentences: {len(clips)} clips of {signers} signers"
    said = dict(about)
    creator = said.pop("creator", "")
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": corpus_name(folder),
        "description": f"{drawn}; {', '.join(f'{counts[s]} {s}' for s in SPLITS)}.",
        **said,
        **({"creator": {"@type": "sc:Organization", "name": creator}} if creator else {}),
        **({"inLanguage": languages} if languages else {}),
        "keywords": ["sign language", "translation"],
        "isLiveDataset": False,
        "rai:personalSensitiveInformation": "Films show faces and bodies of signers; the column "
        f"signer names them. {CARD} quotes licence and consent.",
        "distribution": [
            {
                "@type": "cr:FileObject", "@id": "table", "name": "table", "contentUrl": TABLE,
                "description": "A row a clip.", "encodingFormat": "text/csv", "sha256": table_hash,
            },
            *_film_sets(folder, clips),
        ],
        "recordSet": [_split_records(), _clip_records()],
    }  # fmt: skip


def _film_sets(folder: Path, clips: Sequence[Clip]) -> Iterator[dict[str, Any]]:
    """Yield the films as sets of files, one for each folder and ending."""
    places = {(Path(name).parent, Path(name).suffix)
              for clip in clips if (name := _video(folder, clip))}  # fmt: skip
    for number, (parent, suffix) in enumerate(sorted(places)):
        name = f"films-{number}" if len(places) > 1 else "films"
        yield {
            "@type": "cr:FileSet", "@id": name, "name": name,
            "description": "Films, named by the column video.",
            "encodingFormat": _VIDEO_TYPES.get(suffix.lower(), "application/octet-stream"),
            "includes": (parent / f"*{suffix}").as_posix(),
        }  # fmt: skip


def _split_records() -> dict[str, Any]:
    """Return the record set that says which split is which."""
    fields = (("name", "sc:Text"), ("url", "sc:URL"))
    return {
        "@type": "cr:RecordSet", "@id": "splits", "name": "splits", "dataType": "cr:Split",
        "description": "The splits; no signer is in two unless the corpus says so.",
        "key": {"@id": "splits/name"},
        "field": [
            {"@type": "cr:Field", "@id": f"splits/{name}", "name": name, "dataType": kind}
            for name, kind in fields
        ],
        "data": [
            {"splits/name": split, "splits/url": f"cr:{_SPLIT_CLASSES[split]}"} for split in SPLITS
        ],
    }  # fmt: skip


def _clip_records() -> dict[str, Any]:
    fields = []
    for name, (kind, what) in _COLUMNS.items():
        refers = {"references": {"field": {"@id": "splits/name"}}} if name == "split" else {}
        fields.append({
            "@type": "cr:Field", "@id": f"clips/{name}", "name": name, "description": what,
            "dataType": kind, **refers,
            "source": {"fileObject": {"@id": "table"}, "extract": {"column": name}},
        })  # fmt: skip
    return {
        "@type": "cr:RecordSet", "@id": "clips", "name": "clips", "description": "A record a clip.",
        "key": {"@id": "clips/clip_id"}, "field": fields,
    }  # fmt: skip


def _card(
    folder: Path, clips: Sequence[Clip], quality: Sequence[ClipQuality], about: Mapping[str, str]
) -> Iterator[str]:
    yield f"# Data set {corpus_name(folder)}\n"
    for name in ABOUT:
        yield f"- **{name}**: {about.get(name) or NOT_SAID}"
    yield "\n| split | clips | signers | sentences | words | with glosses | minutes |"
    yield "|---|---|---|---|---|---|---|"
    seconds = {row.clip_id: row.seconds for row in quality}
    for split in SPLITS:
        part = [clip for clip in clips if clip.split == split]
        known = [seconds[clip.clip_id] for clip in part if clip.clip_id in seconds]
        minutes = f"{sum(known) / 60:.1f}" if len(known) == len(part) else "not all known"
        words = {word for clip in part for word in clip.text.split()}
        yield (
            f"| {split} | {len(part)} | {len({clip.signer for clip in part})} "
            f"| {len({clip.text for clip in part})} | {len(words)} "
            f"| {sum(bool(clip.gloss) for clip in part)} | {minutes} |"
        )
    shared = _shared_signers(clips)
    yield f"\nSigners in more than one split: {shared}. Languages of the sentences: " + (
        ", ".join(sorted({clip.language for clip in clips if clip.language})) or NOT_SAID
    ) + "."  # fmt: skip
    yield "\n## Quality of the landmarks\n"
    if quality:
        hands = [row.any_hand for row in quality if row.any_hand is not None]
        found = f"{statistics.median(hands):.0%}" if hands else "not measured"
        yield (
            f"{len(quality)} of {len(clips)} clips have landmarks; a hand was found in {found} of "
            f"a clip's frames (median). Frame rates: "
            f"{', '.join(f'{rate:g}' for rate in sorted({round(row.fps, 2) for row in quality}))}."
        )
    else:
        yield f"{NOT_SAID}: nothing was extracted yet."
    yield "\n## Licence and consent\n"
    ends = sorted({clip.consent_until for clip in clips if clip.consent_until})
    yield f"Last days of consents: {', '.join(ends) or 'none is set'}.\n"
    yield from quote_terms(folder)
    yield "Signers can be recognised; what they did not agree to is not allowed by any licence."


def _shared_signers(clips: Sequence[Clip]) -> int:
    splits: dict[str, set[str]] = {}
    for clip in clips:
        splits.setdefault(clip.signer, set()).add(clip.split)
    return sum(len(found) > 1 for found in splits.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Write what describes the corpus of params.yaml to others.

    Raises:
        UserError: Before anything is written, if a file is in the way.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="OUT_DIR")
    parser.add_argument("about", nargs="*", metavar="NAME=VALUE", help=", ".join(ABOUT))
    options = parser.parse_args(arguments)
    about = dict(one.partition("=")[::2] for one in options.about)
    if not all(name in ABOUT and value for name, value in about.items()):
        raise UserError(f"expected NAME=VALUE with a name of {', '.join(ABOUT)}")
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    every = read_manifest(corpus.path, corpus.signer_disjoint)
    clips = [clip for clip in every if not has_ended(clip.consent_until)]
    if not clips:
        raise UserError(f"{corpus.path} has no clips, or their consents have ended")
    quality = SHARDS.parent / QUALITY_NAME
    rows = read_quality(quality) if quality.is_file() else []
    files = describe_corpus(corpus.folder, clips, rows, about)
    for name in files:
        check_output(options.folder / name, [], overwrite=False)
    for name, text in files.items():
        write_file(options.folder / name, text)
    print(f"{', '.join(files)} in {options.folder}: {len(clips)} clips, {len(every) - len(clips)} "
          "left out whose consent has ended")  # fmt: skip


if __name__ == "__main__":
    main()
