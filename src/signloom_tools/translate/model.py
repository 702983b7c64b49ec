"""A trained model for programs: films or landmarks in, sentences with their signs out."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.video import Frame
from signloom.errors import ClipError, UserError
from signloom.paths import CHECKPOINT
from signloom.translation.translator import Translator
from signloom_tools.importing.options import ReadOptions
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.inputs import (
    LONGEST_S,
    ClipReader,
    GivenClip,
    UnreadableClip,
    find_clips,
    video_seconds,
)
from signloom_tools.translate.serving import (
    fetch_checkpoint,
    find_checkpoint,
    translate_payloads,
)
from signloom_tools.translate.timed import TimedTranslation, translate_timed
from signloom_tools.versions import NamedModel, check_kept, find_version

Film = str | Path | LandmarkSequence
"""A video, a file of landmarks that the model reads, or landmarks of its layout."""


def load(model: str | Path = CHECKPOINT) -> "Model":
    """Load a trained model.

    Args:
        model: A checkpoint's folder; `champion`, `challenger` or the number of a version; or a
            model in MLflow, such as `models:/NAME@champion` or `runs:/ID/checkpoint`.

    Raises:
        UserError: If there is none, it is damaged, or it reads no landmarks.
    """
    name = str(model)
    if name in ("champion", "challenger") or name.isdecimal():
        return Model(find_version(name))
    if name.startswith(("models:/", "runs:/")):
        with tempfile.TemporaryDirectory(prefix="signloom-model-") as folder:
            return Model(NamedModel(fetch_checkpoint(name, Path(folder))))
    return Model(NamedModel(Path(model)))


class Model:
    """A trained model with the search that `evaluate` chose for it.

    Attributes:
        translator: Its weights and tokeniser.
        decoding: How it searches.
    """

    def __init__(self, named: NamedModel) -> None:
        """Load a model; raises as `load`."""
        check_kept(named.checkpoint)
        self.translator = Translator.load(named.checkpoint, precision=named.precision)
        self.decoding = named.decoding or self.translator.decoding
        source = self.translator.source.landmarks(named.checkpoint)
        self._layout, self._extractor = source.layout, source.extractor
        self._reader = ClipReader(source.extractor, ReadOptions(), _watch_length)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str also holds texts
        self, films: Film, *, n_best: int = 1
    ) -> TimedTranslation: ...
    @overload
    def translate(self, films: Iterable[Film], *, n_best: int = 1) -> list[TimedTranslation]: ...

    def translate(
        self, films: Film | Iterable[Film], *, n_best: int = 1
    ) -> TimedTranslation | list[TimedTranslation]:
        """Translate a film as one sentence, or each of several.

        Args:
            films: One, or any number of them, which are translated together.
            n_best: How many sentences, all but the best as `alternatives`.

        Returns:
            `text`, `confidence` (0 to 1, None where it was not measured) and `signs`, each with
            `gloss`, `start_s`, `end_s` and `posterior`; of several films a list.

        Raises:
            ClipError: If a film cannot be read, or lasts longer than `LONGEST_S`.
            UserError: If the model reads no such files, or landmarks have another layout.
        """
        if isinstance(films, str | Path | LandmarkSequence):
            return self.translate([films], n_best=n_best)[0]
        clips = [self._read(film) for film in films]
        decoding = self.decoding
        if n_best > decoding.beam_size:
            decoding = replace(decoding, beam_size=n_best)
        return translate_timed(self.translator, clips, decoding, n_best=n_best)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Translate for `mlflow.pyfunc`: as `translate`, but with the fields of JSON.

        Args:
            model_input: A film or a list of films; of a table those in its first column, or the
                clips of a request, a row each (docs/translation.md has the columns).
            params: `n_best`; of a request, how to search, `skip_unsure` and `guess`, too.
        """
        options = params or {}
        if hasattr(model_input, "iloc") and "frames" in model_input:
            rows = model_input.to_dict("records")
            return [*map(to_json, translate_payloads(self.translator, rows, options))]
        films = model_input.iloc[:, 0].tolist() if hasattr(model_input, "iloc") else model_input
        translations = self.translate(films, **options)
        return (
            [*map(to_json, translations)]
            if isinstance(translations, Sequence)
            else to_json(translations)
        )

    def _read(self, film: Film) -> LandmarkSequence:
        if isinstance(film, LandmarkSequence):
            if film.layout != self._layout:
                raise UserError(
                    f"found landmarks of the layout {film.layout.name}, this model reads "
                    f"{self._layout.name}: {', '.join(self._layout.group_names)}"
                )
            return film
        clips: list[GivenClip | UnreadableClip] = []
        for source in find_clips([Path(film)], self._extractor):
            # Before minutes of extraction; while it goes on where the header has no duration.
            _check_length(str(film), video_seconds(source) or 0.0)
            clips += self._reader.read(source, self._layout)
        if len(clips) != 1:
            raise ClipError(f"{film} has {len(clips)} clips", "give a file that is one clip")
        (clip,) = clips
        if not isinstance(clip, GivenClip):
            raise ClipError(f"{clip.name}: {clip.problem.reason}", clip.problem.hint)
        _check_length(str(film), clip.sequence.seconds)
        return clip.sequence


def _watch_length(frames: Iterator[Frame]) -> Iterator[Frame]:
    for frame in frames:
        _check_length("it", frame.time_s)
        yield frame


def _check_length(film: str, seconds: float) -> None:
    if seconds > LONGEST_S:
        hint = "`signloom translate --write vtt` cuts a film into its sentences"
        raise ClipError(f"{film} lasts {seconds:.0f} s or more, expected a sentence", hint)


def _load_pyfunc(path: str) -> Model:
    """Load a run's checkpoint, or an exported model; MLflow calls this by its name."""
    return Model(NamedModel(find_checkpoint(Path(path))))
