"""The words of a text, in any script, and what is new in a sentence given some known ones."""

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt

# Letters of the scripts that write no spaces between words: Thai, Lao, Burmese, Khmer, kana and
# Chinese characters. Their digits and punctuation are like those of any other script.
_UNSPACED = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ece\u0edc-\u0edf"
    r"\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
    r"\u1780-\u17d3\u17d7\u17dc\u17dd"
    r"\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
    r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_BEFORE = r"\u0e40-\u0e44\u0ec0-\u0ec4"  # Thai and Lao vowels, written before their consonant
_AFTER = r"\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\u0ebd"  # those behind it that are no marks
_STACK = r"\u1039\u17d2"  # put the next consonant of Burmese and Khmer below the last one
_JOINERS = "\u200c\u200d"
_ASCII_WORD = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")  # as that of `_patterns`, much faster


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a word and of a word with apostrophes within."""
    # Combining marks of the scripts in use: `\w` matches none of them.
    points = map(chr, [*range(0x300, 0x3100), *range(0xA600, 0xAC00)])
    marks = "".join(point for point in points if unicodedata.category(point)[0] == "M") + _JOINERS
    unit = rf"[{_BEFORE}]?[{_UNSPACED}](?:[{_STACK}][{_UNSPACED}]|[{_AFTER}{marks}])*"
    spaced = rf"(?:[^\W_{_UNSPACED}][{marks}]*)+"
    return re.compile(f"{unit}|{spaced}"), re.compile(f"{unit}|{spaced}(?:['’]{spaced})*")


def find_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation; don't is one word.

    Of scripts without spaces each character is a word, together with its vowel signs and accents.
    """
    folded = text.casefold()
    return (_ASCII_WORD if folded.isascii() else _patterns()[1]).findall(folded)


def locate_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text in lower case with their start and end; don't is two words."""
    return [(match.group().lower(), *match.span()) for match in _patterns()[0].finditer(text)]


def is_unspaced(text: str) -> bool:
    """Return whether a text has letters of a script that writes no spaces between words."""
    return not text.isascii() and re.search(f"[{_UNSPACED}]", text) is not None


class Novelty(StrEnum):
    """What an unseen sentence has that the known ones lack, the least first."""

    OLD_OLD = "old words in old frames"
    OLD_NEW = "old words in new frames"
    NEW_OLD = "new words in old frames"
    NEW_NEW = "new words in new frames"


class KnownSentences:
    """Some sentences, and what is new in another one.

    Two words may replace each other if each stands where the other does in some two sentences that
    are the same otherwise. The frame of a sentence is old if a known sentence has words in at least
    one position in common with it and words that may replace its own in all others; a word that is
    not known may replace any.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Learn the texts."""
        from scipy.sparse import csr_array  # loads slowly

        self._ids: dict[str, int] = {}
        by_length: dict[int, array[int]] = defaultdict(lambda: array("i"))
        for text in texts:
            words = find_words(text)
            ids = [self._ids.setdefault(word, len(self._ids)) for word in words]
            by_length[len(words)].extend(ids)
        self._has_empty = by_length.pop(0, None) is not None
        # Frames are told apart by random numbers of 64 bits, as tuples of a million sentences
        # would take gigabytes.
        chance = np.random.default_rng(0)
        values = chance.integers(2**64, size=len(self._ids), dtype=np.uint64)
        self._lines: dict[int, npt.NDArray[np.int32]] = {}  # by length L, shape (L, N)
        frames, standing = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
        for length, flat in by_length.items():
            lines = np.array(flat, np.int32).reshape(-1, length).T
            places = chance.integers(2**64, size=(length, 1), dtype=np.uint64) | np.uint64(1)
            hashes, rows = np.unique((values[lines] * places).sum(axis=0), return_index=True)
            lines = self._lines[length] = lines[:, rows].copy()
            frames.append((hashes - values[lines] * places ^ places).ravel())
            standing.append(lines.ravel())
        hashes = np.concatenate(frames)
        order = np.argsort(hashes)
        is_new = np.diff(hashes[order], prepend=np.uint64(0)) != 0
        numbers = np.cumsum(is_new)  # of the frames
        is_shared = ~is_new | ~np.append(is_new[1:], True)
        pairs = np.concatenate(standing)[order[is_shared]], numbers[is_shared]
        shape = len(self._ids), len(numbers) + 1
        self._frames = csr_array((np.ones(len(pairs[0]), np.bool_), pairs), shape)  # of each word
        self._words = self._frames.T.tocsr()  # of each frame
        self._replacements: dict[int, npt.NDArray[np.int32]] = {}

    def novelty(self, text: str) -> Novelty | None:
        """Return what is new in a text; None if nothing but marks and capitals is."""
        words = find_words(text)
        ids = np.array([self._ids.get(word, -1) for word in words], np.int32)
        lines = self._lines.get(len(ids), np.empty((len(ids), 0), np.int32))
        is_same = lines == ids[:, None]
        if is_same.all(axis=0).any() or (self._has_empty and not words):
            return None
        is_old = self._has_frame(ids, lines[:, is_same.any(axis=0)])
        if (ids >= 0).all():
            return Novelty.OLD_OLD if is_old else Novelty.OLD_NEW
        return Novelty.NEW_OLD if is_old else Novelty.NEW_NEW

    def _has_frame(self, ids: npt.NDArray[np.int32], lines: npt.NDArray[np.int32]) -> bool:
        """Return whether words of one of the lines may replace all others of a sentence."""
        for position, word in enumerate(ids.tolist()):
            if word >= 0:
                may_stand = np.zeros(len(self._ids), np.bool_)
                may_stand[self._list_replacements(word)] = True
                may_stand[word] = True
                lines = lines[:, may_stand[lines[position]]]
        return bool(lines.size)

    def _list_replacements(self, word: int) -> npt.NDArray[np.int32]:
        if word not in self._replacements:
            self._replacements[word] = (self._frames[[word]] @ self._words).indices
        return self._replacements[word]
