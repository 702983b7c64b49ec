"""What is new in a sentence to who knows some others: words, or the frame they stand in."""

import re
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

import numpy as np
import numpy.typing as npt

_NO_SPACES = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # Thai, Lao, kana, Chinese
_WORD = re.compile(rf"[{_NO_SPACES}]|(?:(?![{_NO_SPACES}])\w)+(?:['’]\w+)*")
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
    one place in common with it and words that may replace its own in all others; a word that is not
    known may replace any.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Learn the texts."""
        lines = sorted({tuple(find_words(text)) for text in texts})
        self._lines = frozenset(lines)
        words = sorted({word for line in lines for word in line})
        self._ids = {word: number for number, word in enumerate(words)}
        around: dict[tuple[str, ...], set[int]] = defaultdict(set)
        by_length: dict[int, list[list[int]]] = defaultdict(list)
        for line in lines:
            by_length[len(line)].append([self._ids[word] for word in line])
            for place, word in enumerate(line):
                around[*line[:place], _HOLE, *line[place + 1 :]].add(self._ids[word])
        self._by_length = {length: np.array(rows) for length, rows in by_length.items()}
        self._alike: dict[int, set[int]] = defaultdict(set)
        for same in around.values():
            for number in same:
                self._alike[number] |= same

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
            if all(new < 0 or new in self._alike[old] for old, new in pairs):
                return True
        return False
