"""Target tokens come in, the CTC labels of the characters that they spell go out."""

import codecs
import functools

from signloom.corpus.targets import CtcLabels
from signloom.corpus.tokenizer import Tokenizer

UNKNOWN = -1  # a character that no label stands for


class Spelling:
    """Spells tokens one at a time.

    A token may end inside a character, whose label comes with the token that completes it.
    """

    def __init__(self, tokenizer: Tokenizer, labels: CtcLabels) -> None:
        self._tokenizer = tokenizer
        self._label_of = {name: label for label, name in enumerate(labels.names, start=1)}
        self.spell = functools.cache(self._spell)  # few tokens come up, each very often

    def _spell(self, pending: bytes, token: int) -> tuple[tuple[int, ...], bytes]:
        """Return the labels of the characters that a token completes.

        Args:
            pending: The bytes of an incomplete character before it.
            token: Any token; those for control spell nothing, and leave nothing pending.

        Returns:
            The labels, and the bytes that are pending after it.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        is_control = token in (self._tokenizer.pad, self._tokenizer.bos, self._tokenizer.eos)
        piece = b"" if is_control else self._tokenizer.piece(token)
        text = decoder.decode(pending + piece, final=is_control)
        rest, _ = decoder.getstate()
        return tuple(self._label_of.get(character, UNKNOWN) for character in text), rest
