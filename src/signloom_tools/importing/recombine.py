"""Recombined sentences: new train clips of the pieces of labelled ones (`signloom compose`).

Clips are cut where the CTC head of a model puts their glosses. A new sentence is an old one in
which glosses are exchanged, added and left out with their words, as the contexts in which both
stand elsewhere allow; each gloss is shown by any of its cuts.

Source: Andreas (2020), "Good-enough compositional data augmentation".
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata
from signloom_tools.importing.merge import write_landmarks
from signloom_tools.importing.new_corpus import write_new_manifest

Context = tuple[str, str]
EDGE = ""  # what stands before the first and behind the last gloss or word
SIGNER = "several"  # of a new clip, whose pieces are of several people
CHANGES = 4  # glosses of a new sentence that may be added or left out


@dataclass(frozen=True, slots=True)
class Cut:
    """The frames of a clip in which a gloss is signed."""

    clip_id: str
    frames: slice


def cut_clip(clip_id: str, spans: Sequence[tuple[float, float]], frames: int) -> list[Cut]:
    """Return the cut of each gloss, signed in frames `spans`: half of what lies between is its."""
    middles = [round((end + start) / 2) for (_, end), (start, _) in pairwise(spans)]
    ends = pairwise([0, *middles, frames])
    return [Cut(clip_id, slice(start, stop)) for start, stop in ends]


class Contexts:
    """In which contexts glosses and words stand in some sentences.

    Attributes:
        words: Of each gloss that has one: the word that is in the same sentences and no others, as
            no other gloss and no other word is.
        partners: Of each of these, the others that stand between the same neighbours somewhere, as
            their words do.
    """

    def __init__(self, clips: Sequence[Clip]) -> None:
        """Look at the glosses and words of some clips."""
        glosses = [(clip.gloss or "").split() for clip in clips]
        words = [clip.text.split() for clip in clips]
        self.words = _pair(glosses, words)
        self._around, self._around_words = _contexts(glosses), _contexts(words)
        self._beside, self._beside_words = _neighbours(glosses), _neighbours(words)
        self.partners = {
            gloss: [
                partner
                for partner in sorted(self.words)
                if partner != gloss
                and self._around[gloss] & self._around[partner]
                and self._around_words[word] & self._around_words[self.words[partner]]
            ]
            for gloss, word in sorted(self.words.items())
        }

    def vary(
        self, glosses: Sequence[str], words: Sequence[str], generator: np.random.Generator
    ) -> tuple[list[str], list[str]]:
        """Return the glosses and words of another sentence."""
        line, text = list(glosses), list(words)
        for position, gloss in enumerate(glosses):
            choices = [
                gloss,
                *(partner for partner in self.partners.get(gloss, []) if partner not in line),
            ]
            partner = choices[int(generator.integers(len(choices)))]
            if partner != gloss and self._is_single(gloss, line, text):
                text[text.index(self.words[gloss])] = self.words[partner]
                line[position] = partner
        names = sorted(self.words)
        for number in generator.integers(len(names), size=CHANGES) if names else ():
            gloss = names[int(number)]
            if gloss not in line:
                self._add(gloss, line, text)
            elif self._is_single(gloss, line, text) and len(line) > 1:
                self._drop(gloss, line, text)
        return line, text

    def _is_single(self, gloss: str, line: list[str], text: list[str]) -> bool:
        return line.count(gloss) == text.count(self.words[gloss]) == 1

    def _add(self, gloss: str, line: list[str], text: list[str]) -> None:
        """Put a gloss and its word in the only places where they have stood elsewhere."""
        word = self.words[gloss]
        here = [n for n, two in enumerate(_edged(line)) if two in self._around[gloss]]
        text_places = [n for n, two in enumerate(_edged(text)) if two in self._around_words[word]]
        if len(here) == len(text_places) == 1:
            line.insert(here[0], gloss)
            text.insert(text_places[0], word)

    def _drop(self, gloss: str, line: list[str], text: list[str]) -> None:
        """Leave a gloss and its word out if what is around them is side by side elsewhere."""
        here, text_place = line.index(gloss), text.index(self.words[gloss])
        remaining_glosses, remaining_words = (
            [*line[:here], *line[here + 1 :]],
            [*text[:text_place], *text[text_place + 1 :]],
        )
        if (
            _edged(remaining_glosses)[here] in self._beside
            and _edged(remaining_words)[text_place] in self._beside_words
        ):
            line[:], text[:] = remaining_glosses, remaining_words


def _pair(glosses: Sequence[Sequence[str]], words: Sequence[Sequence[str]]) -> dict[str, str]:
    gloss_lines, word_lines = _lines_of(glosses), _lines_of(words)
    pairs = {}
    for gloss, numbers in gloss_lines.items():
        same = [word for word, where in word_lines.items() if where == numbers]
        if len(same) == list(gloss_lines.values()).count(numbers) == 1:
            pairs[gloss] = same[0]
    return pairs


def _lines_of(lines: Sequence[Sequence[str]]) -> dict[str, set[int]]:
    line_numbers: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(lines):
        for token in line:
            line_numbers[token].add(number)
    return line_numbers


def _edged(line: Sequence[str]) -> list[Context]:
    """Return who stands side by side, the edges included."""
    return list(pairwise([EDGE, *line, EDGE]))


def _neighbours(lines: Sequence[Sequence[str]]) -> set[Context]:
    return {two for line in lines for two in _edged(line)}


def _contexts(lines: Sequence[Sequence[str]]) -> dict[str, set[Context]]:
    contexts: dict[str, set[Context]] = defaultdict(set)
    for line in lines:
        for (before, token), (_, after) in pairwise(_edged(line)):
            contexts[token].add((before, after))
    return contexts


def recombine(
    clips: Sequence[Clip],
    spans: Mapping[str, Sequence[tuple[float, float]]],
    sequences: Mapping[str, LandmarkSequence],
    count: int,
    generator: np.random.Generator,
) -> tuple[list[Clip], dict[str, LandmarkSequence]]:
    """Return `count` new train clips made of the pieces of some.

    Args:
        clips: With glosses and sentences.
        spans: Where each gloss of a clip is signed, frames.
        count: New clips.
        generator: Decides the result.
    """
    contexts, of_clip = Contexts(clips), {clip.clip_id: clip for clip in clips}
    of_gloss: dict[str, list[Cut]] = defaultdict(list)
    for clip in clips:
        cuts = cut_clip(clip.clip_id, spans[clip.clip_id], len(sequences[clip.clip_id].points))
        for gloss, cut in zip((clip.gloss or "").split(), cuts, strict=True):
            of_gloss[gloss].append(cut)
    new_clips, landmarks = list[Clip](), dict[str, LandmarkSequence]()
    for number in range(count):
        clip = clips[int(generator.integers(len(clips)))]
        glosses, words = contexts.vary((clip.gloss or "").split(), clip.text.split(), generator)
        shown = [
            of_gloss[gloss][int(generator.integers(len(of_gloss[gloss])))] for gloss in glosses
        ]
        clip_id = f"made-{number:04d}"
        until = [of_clip[cut.clip_id].consent_until for cut in shown]
        new_clips.append(
            replace(
                clip,
                clip_id=clip_id,
                signer=SIGNER,
                text=" ".join(words),
                gloss=" ".join(glosses),
                consent_until=min(filter(None, until), default=None),
            )
        )
        landmarks[clip_id] = _join([(sequences[cut.clip_id], cut.frames) for cut in shown])
    return new_clips, landmarks


def _join(parts: Sequence[tuple[LandmarkSequence, slice]]) -> LandmarkSequence:
    points = np.concatenate([sequence.points[frames] for sequence, frames in parts])
    present: npt.NDArray[np.bool_] = np.concatenate(
        [sequence.present[frames] for sequence, frames in parts]
    )
    return replace(parts[0][0], points=points, present=present)


def write_recombined(
    corpus: Path,
    clips: Sequence[Clip],
    new_clips: Sequence[Clip],
    landmarks: Mapping[str, LandmarkSequence],
    shards: Path,
) -> None:
    """Write a corpus of clips, whose landmarks lie in some shards, and of new ones with theirs."""
    shard_frames = read_clip_frames(shards)
    frames = {clip.clip_id: shard_frames[clip.clip_id] for clip in clips}
    frames |= {clip_id: len(sequence.points) for clip_id, sequence in landmarks.items()}

    def load(clip_id: str) -> LandmarkSequence:
        return landmarks.get(clip_id) or read_shards(shards, [clip_id])[clip_id]

    write_landmarks(corpus, frames, load, shards_metadata(shards), "recombining")
    write_new_manifest(corpus, [*clips, *new_clips])
