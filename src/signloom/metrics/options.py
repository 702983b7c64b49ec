"""How sentences are scored, what a score is, and what counts as a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

FloatArray = NDArray[np.float64]

Tokenizer = Literal["13a", "intl", "char", "zh", "none", "phoenix_legacy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How hypotheses are scored."""

    # sacreBLEU's word splitter for BLEU: 13a where words have spaces between them, char or zh for
    # Chinese, none for text that is tokenised already. These need no further package.
    # phoenix_legacy: none, and everything in lower case, as papers on PHOENIX-2014T score it.
    tokenizer: Tokenizer
    resamples: int  # bootstrap resamples behind every 95 % interval, >= 100
    seed: int  # of the resamples, >= 0

    def __post_init__(self) -> None:
        if self.resamples < 100:
            raise ValueError(f"resamples: found {self.resamples}, expected at least 100")
        if self.seed < 0:
            raise ValueError(f"seed: found {self.seed}, expected at least 0")

    @property
    def lowercase(self) -> bool:
        """Whether upper and lower case count as the same."""
        return self.tokenizer == "phoenix_legacy"

    @property
    def splitter(self) -> str:
        """What sacreBLEU calls the tokenizer."""
        return "none" if self.tokenizer == "phoenix_legacy" else self.tokenizer

    @property
    def mode(self) -> dict[str, str]:
        """What a signature says of a named mode."""
        return {"mode": self.tokenizer} if self.tokenizer == "phoenix_legacy" else {}

    @property
    def words(self) -> str:
        """What counts as a word where text is not split for BLEU; `words` are between spaces."""
        return self.tokenizer if self.tokenizer in ("char", "zh") else "words"


@dataclass(frozen=True, slots=True)
class Score:
    """One corpus score with its 95 % bootstrap interval."""

    name: str
    value: float
    """0 to 100, except error rates, which insertions can take above 100."""
    low: float
    high: float
    signature: str
    """Every setting that changes the number, as sacreBLEU writes it."""


def split_words(
    texts: Sequence[str], options: ScoreOptions, *, keep_case: bool = False
) -> list[list[str]]:
    """Return the words of each text, in the case that counts or as they are written.

    Chinese has no spaces between its words: there, they are what sacreBLEU makes of the text.
    """
    if options.lowercase and not keep_case:
        texts = [text.lower() for text in texts]
    if options.words == "words":
        return [text.split() for text in texts]
    tokenize = BLEU(tokenize=options.splitter).tokenizer
    return [tokenize(text).split() for text in texts]
