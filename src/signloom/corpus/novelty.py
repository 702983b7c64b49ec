"""What is new in a sentence to who knows some others: words, or the frame they stand in."""

import re
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

import numpy as np
import numpy.typing as npt

_NO_SPACES = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # Thai, Lao, kana, Chinese
# Vowel signs and accents of their own, which `\w` does not know: they belong to their letter.
MARKS = (
    r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    r"\u0980-\u0dff\u200c\u200d"
)
_WORD = re.compile(rf"[{_NO_SPACES}]|(?:(?![{_NO_SPACES}])[\w{MARKS}])+(?:['’][\w{MARKS}]+)*")
_HOLE = "\n"  # in no text


def find_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without marks; of scripts without spaces signs."""
    return _WORD.findall(text.casefold())


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
        lines = sorted({tuple(find_words(text)) for text in texts})
        self._lines = frozenset(lines)
        words = sorted({word for line in lines for word in line})
        self._ids = {word: number for number, word in enumerate(words)}
        frames: dict[tuple[str, ...], int] = {}
        self._frames: dict[int, set[int]] = defaultdict(set)  # in which each word stands
        by_length: dict[int, list[list[int]]] = defaultdict(list)
        for line in lines:
            by_length[len(line)].append([self._ids[word] for word in line])
            for position, word in enumerate(line):
                frame = (*line[:position], _HOLE, *line[position + 1 :])
                self._frames[self._ids[word]].add(frames.setdefault(frame, len(frames)))
        self._by_length = {length: np.array(rows) for length, rows in by_length.items()}

    def judge(self, text: str) -> Novelty | None:
        """Return what is new in a text; None if nothing but marks and capitals is."""
        line = tuple(find_words(text))
        if line in self._lines:
            return None
        ids = np.array([self._ids.get(word, -1) for word in line], np.int64)
        is_old = self._has_frame(ids)
        if (ids >= 0).all():
            return Novelty.OLD_OLD if is_old else Novelty.OLD_NEW
        return Novelty.NEW_OLD if is_old else Novelty.NEW_NEW

    def _has_frame(self, ids: npt.NDArray[np.int64]) -> bool:
        rows = self._by_length.get(len(ids))
        if rows is None:
            return False
        differs = rows != ids
        for row in rows[~differs.all(axis=1)]:
            pairs = [
                (old, new)
                for old, new in zip(row.tolist(), ids.tolist(), strict=True)
                if old != new
            ]
            if all(new < 0 or self._may_replace(old, new) for old, new in pairs):
                return True
        return False

    def _may_replace(self, old: int, new: int) -> bool:
        return not self._frames[old].isdisjoint(self._frames[new])
