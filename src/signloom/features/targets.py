"""The text side of training: sentences, token ids and CTC labels of the clips.

Beside them is what the ids of glosses mean, for a model that reads glosses (`source`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from signloom.config import checked_dataclass, parse_options, read_record
from signloom.corpus.manifest import Clip
from signloom.errors import UserError, name_some
from signloom.features.glosses import (
    NO_GLOSSES,
    GlossKind,
    GlossVocabulary,
    as_words,
    split_glosses,
)
from signloom.features.tokenizer import Tokenizer, Vocabulary, normalise_text, read_source
from signloom.files import to_sealed, write_file
from signloom.tables import (
    LARGE_ROWS,
    VERSION_KEY,
    Records,
    read_columns,
    read_parquet,
    write_parquet,
)

FORMAT_VERSION = 2
LABELS_FORMAT_VERSION = 3  # 3: what the labels mean

_HINT = "run `dvc repro tokenize_targets`"

CtcKind = Literal["glosses", "characters", "texts", "none"]


@checked_dataclass
class TokenizeOptions:
    """The section `tokenize_targets` of params.yaml."""

    vocabulary: Vocabulary  # rows of the output layer: those the train text uses, or all 128,815
    max_tokens: Annotated[int, Field(ge=3)] = (
        128  # longest target accepted, in tokens with bos and eos
    )
    # What the CTC loss of training spells out (train.ctc_weight): the signs in their order, the
    # characters of the text (where mouth or fingers spell it in that order), the whole text as one
    # label (where a clip is a single sign), or nothing.
    ctc: CtcKind
    # what model.source: glosses reads: whole glosses, their subwords, or shared: those in the
    # targets' own vocabulary; none
    source: GlossKind = "none"
    # a tokenizer.json, or folder of a text model, instead of DeepSeek V3's; empty: that
    tokenizer: str = ""
    language: bool = False  # the manifest's language is the first token of each target

    def __post_init__(self) -> None:
        if self.source == "shared" and (self.vocabulary == "full" or self.language):
            raise ValueError(
                f"source: found shared with vocabulary {self.vocabulary} and language "
                f"{str(self.language).lower()}; expected pruned and false"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The text side of one clip."""

    clip_id: str
    split: str
    signer: str
    text: str  # normalised
    ids: list[int]  # with bos and eos
    gloss: str  # space-separated; empty where the manifest has none
    labels: list[int]  # of the CTC loss (0 is its blank); empty outside train
    language: str = ""  # of the text; empty where all are in one
    corpus: str = ""  # that it comes from; empty where all come from one


@checked_dataclass
class CtcLabels:
    """What the labels of the CTC loss mean."""

    kind: CtcKind
    names: tuple[str, ...]  # the label of names[i] is i + 1; 0 is the blank

    def __len__(self) -> int:
        return len(self.names)

    def spell(self, text: str, gloss: str) -> list[int]:
        """Return the labels of a clip; none where train lacks one of them."""
        numbers = [self.numbers.get(name, 0) for name in _label_names(self.kind, text, gloss)]
        return numbers if all(numbers) else []

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, name in enumerate(self.names, start=1)}


@checked_dataclass
class _LabelsFile:
    """What `write_labels` writes."""

    kind: CtcKind
    labels: tuple[str, ...]


NO_LABELS = CtcLabels(kind="none", names=())

TARGETS_SCHEMA = pa.schema(
    [
        ("clip_id", pa.string()),
        ("split", pa.string()),
        ("signer", pa.string()),
        ("text", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("gloss", pa.string()),
        ("labels", pa.list_(pa.int32())),
    ],
    metadata={VERSION_KEY: str(FORMAT_VERSION)},
)

_BUILT = TARGETS_SCHEMA.append(pa.field("language", pa.string())).append(
    pa.field("corpus", pa.string())
)

_EMPTY: dict[str, Any] = dict.fromkeys(TARGETS_SCHEMA.names, "") | {"ids": [], "labels": []}

_GLOSSES_KEY = b"signloom.glosses"  # metadata, where there is a vocabulary of glosses


def write_targets(
    path: Path, targets: Sequence[Target], glosses: GlossVocabulary = NO_GLOSSES
) -> None:
    """Write targets, and the ids of their glosses, if they have any, as a Parquet file."""
    schema = TARGETS_SCHEMA
    for name in ("language", "corpus"):
        if any(value for (value,) in read_columns(targets, name)):
            schema = schema.append(pa.field(name, pa.string()))
    if glosses.kind != "none":
        text = json.dumps(glosses.to_fields(), ensure_ascii=False)
        schema = schema.with_metadata({**schema.metadata, _GLOSSES_KEY: text.encode()})
    if isinstance(targets, Records):
        table = targets.table.select(schema.names).cast(schema)
    else:
        rows = [[getattr(target, name) for name in schema.names] for target in targets]
        table = _to_table(rows, schema)
    write_parquet(path, table)


def _to_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def read_targets(path: Path, columns: Sequence[str] | None = None) -> Sequence[Target]:
    """Read targets written by `write_targets`.

    Args:
        columns: Those that are needed, the others are empty; None: all.

    Raises:
        UserError: If the file is missing or has another format version.
    """
    table = read_parquet(path, FORMAT_VERSION, hint=_HINT, columns=columns)
    targets = Records(table, partial(Target, **_EMPTY))
    return targets if len(targets) >= LARGE_ROWS else list(targets)


def read_glosses(path: Path) -> GlossVocabulary:
    """Return what the ids of glosses mean; of kind none where `write_targets` was given nothing.

    Raises:
        UserError: As `read_targets`.
    """
    text = read_parquet(path, FORMAT_VERSION, hint=_HINT).schema.metadata.get(_GLOSSES_KEY)
    if text is None:
        return NO_GLOSSES
    return parse_options(json.loads(text), GlossVocabulary, where=f"{path}: glosses")


def build_glosses(
    clips: Sequence[Clip], kind: GlossKind, target: Tokenizer | None = None
) -> GlossVocabulary:
    """Make the vocabulary of what a model reads that translates glosses, from train alone.

    Args:
        clips: The corpus.
        kind: What ids are of.
        target: Of kind shared: the tokeniser of `build_targets`.

    Raises:
        UserError: If a clip has no glosses to read; all of them in one message.
    """
    pairs = read_columns(clips, "clip_id", "gloss")
    missing = [clip_id for clip_id, gloss in pairs if not (gloss or "").split()]
    if kind != "none" and missing:
        names = name_some(missing, 20)
        raise UserError(
            f"tokenize_targets.source is {kind}, but {len(missing)} of {len(clips)} clips have no "
            f"gloss in the manifest: {names}. Fill the column gloss of these rows or remove them, "
            "or set tokenize_targets.source: none"
        )
    if kind == "shared" and target is not None and target.is_spaced:
        raise UserError(
            "tokenize_targets.source: shared needs a byte-level BPE, but tokenize_targets."
            "tokenizer is SentencePiece's; set source to glosses or subwords"
        )
    pairs = read_columns(clips, "split", "gloss")
    train = [gloss or "" for split, gloss in pairs if split == "train"]
    return GlossVocabulary.build(train, kind, target)


def build_targets(
    clips: Sequence[Clip], options: TokenizeOptions
) -> tuple[Tokenizer, CtcLabels, Records[Target]]:
    """Tokenise every clip's sentence and number the glosses or characters of training clips.

    Args:
        clips: The corpus, in its order.
        options: Vocabulary, the longest target accepted, what the CTC labels are.

    Returns:
        The tokeniser (its vocabulary comes from train text only), the CTC labels and one target
        a clip.

    Raises:
        UserError: If a sentence is longer than `max_tokens`, all of them in one message; or
            `tokenizer` is no file to tokenise with.
    """
    tokenizer = _build_tokenizer(clips, options)
    names = {
        name
        for text, gloss in _train_texts(clips)
        for name in _label_names(options.ctc, text, gloss)
    }
    labels = CtcLabels(kind=options.ctc, names=tuple(sorted(names)))
    rows = _build_rows(clips, options, tokenizer, labels)
    parts = [_to_table(part, _BUILT) for part in iter(lambda: list(islice(rows, 10_000)), [])]
    targets = Records(pa.concat_tables(parts or [_BUILT.empty_table()]), Target)
    _check_lengths(targets, options.max_tokens)
    return tokenizer, labels, targets


def _build_rows(
    clips: Sequence[Clip], options: TokenizeOptions, tokenizer: Tokenizer, labels: CtcLabels
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of `Target`, in its order."""
    has_languages = options.language or len({*read_columns(clips, "language")}) > 1
    is_merged = len({*read_columns(clips, "corpus")}) > 1
    names = ("clip_id", "split", "signer", "text", "gloss", "language", "corpus")
    for clip_id, split, signer, raw, gloss, language, corpus in read_columns(clips, *names):
        text, gloss, language = normalise_text(raw), gloss or "", language or ""
        first = [tokenizer.language_id(language)] if options.language else []
        yield (
            clip_id,
            split,
            signer,
            text,
            [tokenizer.bos, *first, *tokenizer.encode(text), tokenizer.eos],
            " ".join(gloss.split()),
            labels.spell(text, gloss) if split == "train" else [],
            language if has_languages else "",
            (corpus or "") if is_merged else "",
        )


def _train_texts(clips: Sequence[Clip]) -> Iterator[tuple[str, str]]:
    """Yield the normalised text and the gloss of each training clip."""
    for split, text, gloss in read_columns(clips, "split", "text", "gloss"):
        if split == "train":
            yield normalise_text(text), gloss or ""


def _build_tokenizer(clips: Sequence[Clip], options: TokenizeOptions) -> Tokenizer:
    """Return the tokeniser of the train text, and of its glosses where they share it."""
    source = read_source(Path(options.tokenizer)) if options.tokenizer else ""
    texts: Iterable[str] = (text for text, _ in _train_texts(clips))
    if options.source == "shared":
        glosses = (as_words(split_glosses(gloss)) for _, gloss in _train_texts(clips))
        texts = chain(texts, glosses)
    languages = _languages(clips) if options.language else ()
    return Tokenizer.build(texts, options.vocabulary, source, languages)


def _check_lengths(targets: Sequence[Target], most: int) -> None:
    long = [
        f"clip {clip_id}: {len(ids)} tokens, at most {most} are accepted\n"
        for clip_id, ids in read_columns(targets, "clip_id", "ids")
        if len(ids) > most
    ]
    if long:
        raise UserError("".join(long) + "split these clips, or raise tokenize_targets.max_tokens")


def _languages(clips: Sequence[Clip]) -> list[str]:
    """Return the training languages, in order.

    Raises:
        UserError: If a clip has none, or one that train has not; all of them in one message.
    """
    rows = read_columns(clips, "split", "language")
    languages = {language for split, language in rows if split == "train"} - {None}
    pairs = read_columns(clips, "clip_id", "language")
    wrong = [
        f"{name} ({language or 'none'})" for name, language in pairs if language not in languages
    ]
    if wrong:
        some = name_some(wrong, 20)
        raise UserError(
            f"tokenize_targets.language is true, but {len(wrong)} of {len(clips)} clips have no "
            f"language in the manifest, or one of no train clip: {some}. Fill the column language "
            "of these rows or remove them, or set tokenize_targets.language: false"
        )
    return sorted(language for language in languages if language)


def split_hash(clips: Iterable[Clip | Target], split: str) -> str:
    """Return what identifies the clips of a split with their sentences, in any order."""
    rows = sorted((c.clip_id, normalise_text(c.text)) for c in clips if c.split == split)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def write_labels(path: Path, labels: CtcLabels) -> None:
    """Write what the CTC labels mean."""
    content = {
        "format_version": LABELS_FORMAT_VERSION,
        "kind": labels.kind,
        "labels": list(labels.names),
    }
    write_file(path, to_sealed(content))


def read_labels(path: Path) -> CtcLabels:
    """Read what the CTC labels mean, as written by `write_labels`.

    Raises:
        UserError: If the file is missing or has another format version.
    """
    record = read_record(path, _LabelsFile, hint=_HINT, version=LABELS_FORMAT_VERSION)
    return CtcLabels(kind=record.kind, names=record.labels)


def _label_names(kind: CtcKind, text: str, gloss: str) -> list[str]:
    """Return what the CTC labels of a clip mean; of characters, each code point."""
    if kind in ("characters", "texts"):
        return list(text) if kind == "characters" else [text]
    return gloss.split() if kind == "glosses" else []
