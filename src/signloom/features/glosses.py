"""Glosses as the source of a model, instead of landmarks.

A gloss is a word for a sign; its case means nothing here. Ids are those of whole glosses, or of
the subwords that spell them in DeepSeek V3's vocabulary, which covers lower-case words best and
spells in bytes what train lacks; or those of the targets' own vocabulary, which then also has what
glosses use (Sennrich et al. 2016, section 3.2, "joint BPE"). Shape letter: S source tokens.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from signloom.config import checked_dataclass
from signloom.features.tokenizer import BOS, PAD, Tokenizer

# Rows of both kinds of vocabulary. A source has no start that would need the row of bos.
SOURCE_PAD, UNKNOWN = PAD, BOS
_FIRST_GLOSS = 2

GlossKind = Literal["none", "glosses", "subwords", "shared"]
IntArray = npt.NDArray[np.int64]


def split_glosses(text: str) -> tuple[str, ...]:
    """Return the glosses of a line, in lower case and Unicode NFC."""
    return tuple(unicodedata.normalize("NFC", text).lower().split())


@dataclass(frozen=True, slots=True, eq=False)
class GlossSequence:
    """The glosses of one clip."""

    glosses: tuple[str, ...]  # as `split_glosses` returns them
    ids: IntArray  # shape (S,); several for a gloss where the vocabulary is one of subwords
    unknown: tuple[str, ...]  # those of the glosses that train never shows


@checked_dataclass
class GlossVocabulary:
    """What source ids mean."""

    kind: GlossKind
    """An id for each gloss, for each subword, those of the targets, or no vocabulary."""
    names: tuple[str, ...]  # the training glosses, sorted
    subwords: tuple[int, ...]
    """Of subwords and shared: what train uses, as `source_json` numbers it, ascending."""
    source_json: str = ""  # checkpoints of earlier versions lack it

    @classmethod
    def build(
        cls, texts: Iterable[str], kind: GlossKind, target: Tokenizer | None = None
    ) -> "GlossVocabulary":
        """Make a vocabulary of the glosses of these (training) clips.

        Args:
            texts: The glosses of each clip.
            kind: What ids are of.
            target: Of kind shared: what `build_targets` has made of the same clips.
        """
        if kind == "none":
            return NO_GLOSSES
        lines = [split_glosses(text) for text in texts]
        names = tuple(sorted({name for line in lines for name in line}))
        if kind == "glosses":
            return cls(kind=kind, names=names, subwords=())
        if kind == "subwords":
            target = Tokenizer.build(map(as_words, lines), "pruned")
        if target is None:
            raise ValueError("glosses are to share the targets' vocabulary; give it")
        return cls(
            kind=kind, names=names, subwords=target.source_ids, source_json=target.source_json
        )

    @property
    def size(self) -> int:
        """Rows of the source embedding; none without a vocabulary."""
        if self.kind == "none":
            return 0
        if self.kind != "glosses":
            return self._tokenizer.vocab_size
        return _FIRST_GLOSS + len(self.names)

    @property
    def row_names(self) -> tuple[str, ...]:
        """A name for each row of the source embedding; a gloss names its own."""
        if self.kind == "none":
            return ()
        if self.kind != "glosses":
            return self._tokenizer.row_names
        return ("no gloss", "unknown gloss", *self.names)  # glosses have no spaces

    def encode(self, text: str) -> GlossSequence:
        """Return the glosses of a line with their ids; a gloss that train lacks is no error."""
        glosses = split_glosses(text)
        if self.kind in ("subwords", "shared"):
            ids = self._tokenizer.encode(as_words(glosses)) if glosses else []
        else:
            ids = [self._ids.get(name, UNKNOWN) for name in glosses]
        unknown = tuple(name for name in glosses if name not in self._ids)
        return GlossSequence(glosses, np.array(ids, dtype=np.int64), unknown)

    def labels(self, sequence: GlossSequence) -> tuple[str, ...]:
        """Return what each id stands for: a gloss; of several subwords, with their numbers."""
        if self.kind not in ("subwords", "shared"):
            return sequence.glosses
        names = []
        for gloss in sequence.glosses:
            count = len(self._tokenizer.encode(as_words([gloss])))
            names += [gloss] + [f"{gloss} ({number})" for number in range(2, count + 1)]
        return tuple(names)

    def to_fields(self) -> dict[str, Any]:
        """Return what files keep of it; without `source_json` where there is none."""
        fields = asdict(self)
        return fields if self.source_json else {k: fields[k] for k in fields if k != "source_json"}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names, start=_FIRST_GLOSS)}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        # Ids are never turned back into text, so the pieces are not kept.
        return Tokenizer(
            vocabulary="pruned", source_ids=self.subwords, pieces=(), source_json=self.source_json
        )


NO_GLOSSES = GlossVocabulary(kind="none", names=(), subwords=())


def as_words(glosses: Iterable[str]) -> str:
    """Return what subwords are found in: each gloss as a word within a sentence."""
    return "".join(f" {name}" for name in glosses)
