"""What can be said of a film: its landmarks, their faults, its translation and how sure that is."""

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from signloom.checkpoint import WEIGHTS
from signloom.config import check_shape, load_section, read_json
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import CorpusOptions
from signloom.corpus.quality import measure_quality
from signloom.detection.detector import DetectorOptions, build_detector
from signloom.detection.video import Frame
from signloom.errors import UserError
from signloom.evaluation.metric_names import FLOORS, Metric, metric_label
from signloom.evaluation.schemas import SCORES
from signloom.extraction.extract import ExtractOptions, extract_video, options_of_fingerprint
from signloom.features.targets import read_targets
from signloom.files import hash_file
from signloom.paths import CHECKPOINT, PARAMS, SCORES_NAME, SHARDS, TARGETS
from signloom.report.quality import CHECKS, read_figures
from signloom.report.skeletons import list_strokes
from signloom.translation.confidence import CONFIDENCE
from signloom.translation.lookup import NearSign, find_nearest, open_index
from signloom.translation.translator import Translator
from signloom_ops.app.live import MOST_S, Live
from signloom_ops.app.signs import encode_film, index_recordings
from signloom_ops.app.takes import Take, TakeError, TakeStore
from signloom_tools.dvc import stages_at_work
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.model import Model
from signloom_tools.translate.segmentation import cut, segment_by_rest
from signloom_tools.translate.timed import translate_timed
from signloom_tools.versions import NamedModel, find_current

DARK = 50.0  # mean brightness of 255 below which hands are seen badly
_EVERY = 10  # frames of which one is looked at for its brightness
_BEST = 3
_SIGNS = 5  # that are found for a recording
_NO_MODEL = "there is no model yet: let one learn"
_IN_TRAINING = (
    "a model is being trained, and the last one is not there meanwhile: try again when it has ended"
)


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """What translates, and what is known of it."""

    model: Model
    checkpoint: Path
    weights: str  # SHA-256
    name: str
    scores: dict[str, Any]  # its test score and the best floor; empty where it was not scored

    @property
    def translator(self) -> Translator:
        """The model's weights."""
        return self.model.translator


class Analyst:
    """Looks at films, one after the other: the champion if there is one, else the checkpoint."""

    def __init__(self) -> None:
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._model: ModelInUse | None = None
        self._stamp: object = None
        self._live: Live | None = None

    def look(self, film: Path) -> dict[str, Any]:
        """Return landmarks, faults and the translation of a film.

        Raises:
            ClipError: If it cannot be read.
            UserError: If there is no model, and params.yaml describes no detector either.
        """
        with self._lock:
            model = self._load()
            light: list[float] = []
            sequence = extract_video(
                film, self._detector(model), threads=2, watch=lambda frames: _watch(frames, light)
            )
            faults = self._find_faults(sequence, light)
            spans = segment_by_rest(sequence)
            # As live: rests that the model has not learnt would make it strange to it.
            signed = (spans[0][0], spans[-1][1]) if spans else None
            clip = cut(sequence, signed) if signed else sequence
            translation = None
            if model is not None and clip.seconds <= MOST_S:
                encode_film(film, model.translator, model.weights, clip)
                translation = self._translate(model, clip, start_s=signed[0] if signed else 0.0)
            return {
                "seconds": round(sequence.seconds, 3),
                "faults": faults,
                "skeleton": draw_points(sequence),
                "spans": spans,
                "signed": signed,
                "translation": translation,
            }

    def translate(self, film: Path) -> dict[str, Any]:
        """Return the translation of a film for JSON; raises as `Model.translate`."""
        with self._lock:
            return dict(self._loaded().model.predict(film))

    def find_signs(self, take: Take, takes: TakeStore) -> list[NearSign]:
        """Return the known clips that are nearest to a recording, other recordings among them.

        Raises:
            ClipError: If it cannot be read.
            UserError: If there is no model, or no landmarks of the training set.
        """
        with self._lock:
            model = self._loaded()
            translator, weights = model.translator, model.weights
            encoding = encode_film(takes.film(take), translator, weights)
            index = open_index(translator, model.checkpoint)
            recordings = index_recordings(takes, index, translator, weights, but=take.id)
            return find_nearest([index, recordings], encoding, _SIGNS)

    def begin_live(self) -> str:
        """Begin a session, which ends the one before; return its id.

        Raises:
            UserError: If there is no model.
        """
        with self._lock:
            model = self._loaded()
            self._live = Live(build_detector(self._detector(model), threads=2))
            return self._live.id

    def _find_faults(self, sequence: LandmarkSequence, light: Collection[float]) -> list[str]:
        figures = partial(read_figures, [measure_quality("recording", sequence)])
        faults = [name for name, check in CHECKS.items() if check.fails(figures).any()]
        faults += ["crowded"] * sequence.is_crowded
        return [*faults, "dark"] if light and np.mean([*light]) < DARK else faults

    def add_live(
        self, session: str, frames: Sequence[tuple[float, bytes]], takes: TakeStore
    ) -> dict[str, Any]:
        """Look at the next frames of a session.

        Args:
            takes: Recordings, whose signs are named, too, before a model of single signs learns
                them.

        Returns:
            `signing`, and `translation` where a sentence has just ended, else None.

        Raises:
            TakeError: If the session is over, or a picture is not as it should be.
        """
        with self._lock:
            live = self._session(session)
            ended = live.add(frames)
            translation = None if ended is None else self._translate(self._load(), ended)
            # Where the model is sure of a sign that it was taught, a single take is often nearer.
            is_open = translation and (translation["unsure"] or not translation["familiar"])
            if ended and is_open and (sign := self._find_recorded(ended, takes)):
                recorded = {"text": sign.text, "familiar": True, "recording": sign.clip_id}
                translation = {**(translation or {}), **recorded}
            return {"signing": live.is_signing, "translation": translation}

    def _find_recorded(self, clip: LandmarkSequence, takes: TakeStore) -> NearSign | None:
        """Return the recording of a single sign that is nearest to a clip.

        None where a training clip is nearer, or the model was taught the sign.
        """
        model = self._loaded()
        translator = model.translator
        if not translator.reads_single_signs or not SHARDS.is_dir():
            return None
        index = open_index(translator, model.checkpoint)
        recordings = index_recordings(takes, index, translator, model.weights)
        encoding = translator.encode_signs([clip])[0]
        (nearest,) = find_nearest([index, recordings], encoding, 1)
        is_new = nearest.is_recording and nearest.text not in translator.spec.ctc.names
        return nearest if is_new else None

    def write_live(self, session: str, folder: Path) -> Path | None:
        """Write the film of the last sentence of a session into a folder."""
        with self._lock:
            return self._session(session).write_last(folder)

    def _session(self, session: str) -> Live:
        if self._live is None or self._live.id != session:
            raise TakeError("this session is over: another page began one", 409)
        return self._live

    def describe(self) -> dict[str, Any] | None:
        """Return what is known of the model; None if there is none."""
        model = self._load()  # a film may be looked at meanwhile
        if model is None:
            return None
        targets = read_targets(TARGETS) if TARGETS.is_file() else []
        train = [target for target in targets if target.split == "train"]
        signers = len({target.signer for target in train})
        texts = len({target.text for target in train})
        counts = {"train_clips": len(train), "sentences": texts, "signers": signers}
        # The page says it in its own words that there is no champion yet.
        name = "" if model.checkpoint == CHECKPOINT else model.name
        is_drawn = load_section(PARAMS, "corpus", CorpusOptions).is_drawn
        return {"name": name, "drawn": is_drawn, **counts, **model.scores}

    def _translate(
        self, model: ModelInUse | None, sequence: LandmarkSequence, start_s: float = 0.0
    ) -> dict[str, Any] | None:
        """Translate a part of a film that begins at `start_s`; times are those of the film."""
        if model is None:
            return None
        decoding = model.translator.decoding
        best = min(_BEST, decoding.beam_size)
        translations = translate_timed(model.translator, [sequence], decoding, n_best=best)
        return {
            **to_json(translations[0].later(start_s)),
            "unsure": translations[0].translation.check.is_unsure,
        }

    def _detector(self, model: ModelInUse | None) -> DetectorOptions:
        if model is not None:
            source = model.translator.source.landmarks()
            return options_of_fingerprint(source.extractor)
        return load_section(PARAMS, "extract", ExtractOptions).detector_options

    def _loaded(self) -> ModelInUse:
        if (model := self._load()) is None:
            raise UserError(_IN_TRAINING if stages_at_work() else _NO_MODEL)
        return model

    def _load(self) -> ModelInUse | None:
        """Return the model of now; a promotion meanwhile is noticed."""
        with self._loading:
            return self._load_current()

    def _load_current(self) -> ModelInUse | None:
        current = find_current()
        checkpoint, weights = current.checkpoint, current.checkpoint / WEIGHTS
        if not weights.is_file():  # a training is at work, or there was none
            last = self._model
            return last if last and last.checkpoint == checkpoint and stages_at_work() else None
        # What was measured says whether several seeds are one model, and when it is unsure.
        files = [path for path in (weights, current.evaluation / CONFIDENCE) if path.is_file()]
        stamp = [(path, path.stat().st_mtime_ns) for path in files]
        if stamp != self._stamp:
            model = Model(NamedModel(checkpoint))
            scores = read_scores(current.evaluation / SCORES_NAME)
            self._model = ModelInUse(model, checkpoint, hash_file(weights), current.name, scores)
            self._stamp = stamp
        return self._model


def _watch(frames: Iterator[Frame], light: list[float]) -> Iterator[Frame]:
    for number, frame in enumerate(frames):
        if number % _EVERY == 0:
            light.append(float(frame.rgb.mean()))
        yield frame


def read_scores(path: Path) -> dict[str, Any]:
    """Return the headline score of the test set and its best floor."""
    if not path.is_file():
        return {}
    hint = "run `dvc repro evaluate`"
    content = check_shape(read_json(path, hint=hint), SCORES, where=path, hint=hint)
    test = content["splits"].get("test")
    if test is None:
        return {}
    metric, systems = content.get("headline", Metric.BLEU4), test["systems"]
    score = systems["model"][metric]
    floors = {name: systems[name][metric]["value"] for name in FLOORS if name in systems}
    floor = max(floors, key=lambda name: floors[name])
    # A share that is easy to understand; more words than there were to write are no negative one.
    wrong = systems["model"].get(Metric.WER)
    return {
        **({"words": max(0.0, 100.0 - wrong["value"])} if wrong else {}),
        "metric": metric_label(metric),
        "score": score["value"],
        "low": score["low"],
        "high": score["high"],
        "floor": floor,
        "floor_score": floors[floor],
        "clips": test["clips"],
    }


def draw_points(sequence: LandmarkSequence) -> dict[str, Any]:
    """Return the points in thousandths of the picture, None where nothing was found, and bones.

    A bone is a line through points, by their numbers.
    """
    is_present = ~np.isnan(sequence.points[..., 0])
    scaled = np.where(is_present[..., None], sequence.points[..., :2], 0)
    thousandths = np.rint(1000 * scaled).astype(int)
    frames = [
        [
            [int(x), int(y)] if has_point else None
            for (x, y), has_point in zip(points, row, strict=True)
        ]
        for points, row in zip(thousandths, is_present, strict=True)
    ]
    bones = [list(stroke.marks) for stroke in list_strokes(sequence.layout)]
    ratio = sequence.width / sequence.height
    return {"fps": sequence.fps, "frames": frames, "bones": bones, "ratio": ratio}
