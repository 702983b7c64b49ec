"""Clips of the corpus as the page shows them: films, or where there are none the landmarks."""

import threading
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

from signloom.config import load_section
from signloom.corpus.landmarks import FEATURES
from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest
from signloom.corpus.shards import read_shards
from signloom.paths import PARAMS, SHARDS
from signloom_ops.app.analysis import draw_points
from signloom_ops.app.takes import TakeError, TakeStore
from signloom_tools.importing.person_names import name_key


class CorpusFilms:
    """Finds films by the ids of clips: nothing that a page sends becomes a path.

    Args:
        takes: Says whose films may not be shown.
    """

    def __init__(self, takes: TakeStore) -> None:
        self._takes = takes
        self._reading = threading.Lock()
        self._clips: dict[str, Clip] = {}
        self._stamp: object = None

    def address(self, clip_id: str) -> str:
        """Return where a page finds the film, with the moments of the clip; empty: there is none.

        Raises:
            UserError: If the manifest is damaged.
        """
        clip = self._find(clip_id)
        if clip is None or clip.video is None or not clip.video.is_file():
            return ""
        start_s, end_s = clip.start_s or 0, "" if clip.end_s is None else f",{clip.end_s:g}"
        return f"/api/film?clip={quote(clip_id, safe='')}#t={start_s:g}{end_s}"

    def film(self, clip_id: str) -> Path:
        """Return the file that has a clip.

        Raises:
            TakeError: If there is none.
        """
        clip = self._find(clip_id)
        if clip is None or clip.video is None or not clip.video.is_file():
            raise TakeError("there is no film of such a clip", 404)
        return clip.video

    def skeleton(self, clip_id: str) -> dict[str, Any]:
        """Return the landmarks of a clip as a page draws them.

        Raises:
            TakeError: If its landmarks are no points.
            UserError: If it has none.
        """
        sequence = read_shards(SHARDS, [clip_id])[clip_id]
        if FEATURES in sequence.layout.group_names:
            raise TakeError("this corpus has neither films nor points that could be drawn", 404)
        return draw_points(sequence)

    def _find(self, clip_id: str) -> Clip | None:
        corpus = load_section(PARAMS, "corpus", CorpusOptions)
        with self._reading:
            written = corpus.path.stat().st_mtime_ns if corpus.path.is_file() else 0
            stamp = (corpus.path, written, self._takes.when_agreed(), date.today())
            if stamp != self._stamp:
                clips = read_manifest(corpus.path, corpus.signer_disjoint) if written else []
                hidden = self._takes.not_shown()
                self._clips = {
                    clip.clip_id: replace(clip, video=None)
                    if name_key(clip.signer) in hidden
                    else clip
                    for clip in clips
                }
                self._stamp = stamp
            return self._clips.get(clip_id)
