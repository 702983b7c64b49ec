"""Translation of the videos and landmark files that a person names."""

import argparse
import contextlib
import functools
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil  # type: ignore[import-untyped]
from tqdm import tqdm

from signloom.cli.arguments import refuse_in_corpus, source_defaults
from signloom.cli.translate import (
    NOT_UNDERSTOOD_CODE,
    check_attention,
    load_translator,
    write_attention,
)
from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.errors import UserError, readable_name
from signloom.extraction.video import ENCODERS
from signloom.files import check_output, check_writable
from signloom.importing.captions import UNSURE_MARK, Cue, write_captions
from signloom.progress import progress_file
from signloom.translation.inputs import (
    ClipPath,
    ClipReader,
    GivenClip,
    ReadOptions,
    UnreadableClip,
    find_clips,
    list_files,
    video_seconds,
)
from signloom.translation.segmentation import PAUSE_S, Span, cut, segment_by_rest

if TYPE_CHECKING:
    from signloom.features.sources import SourceSequence
    from signloom.translation.options import DecodingOptions
    from signloom.translation.signs import Sign
    from signloom.translation.timed import Sentence, TimedTranslation
    from signloom.translation.translator import Translation, Translator

POLL_S = 2.0  # between two looks into a folder that is watched
LONG_S = 60.0  # a longer clip is hardly one sentence
LONGEST_S = 600.0  # and a longer one would take more memory than there is
CLIPS_AT_ONCE = 16  # the model translates them together; they are printed together, too

Loaded = tuple["Translator", "DecodingOptions"]


def translate_clips(options: argparse.Namespace) -> None:
    """Translate what the options name.

    Raises:
        UserError: If anything could not be translated; the rest is printed before.
    """
    if options.video:
        refuse_in_corpus(options.video)
        check_writable(options.video)
    extractor, layout = _read_make(options)
    with ThreadPoolExecutor(1) as pool:
        if layout == NO_LANDMARKS:
            raise UserError(
                f"{options.checkpoint} was trained on glosses (model.source: tokens), not on "
                'landmarks; use signloom translate --glosses "..."'
            )
        if options.watch:
            watch_folder(_Run(options, extractor, layout, pool, []), options.watch, extractor)
            return
        sources = find_clips(options.paths, extractor)
        if options.video and options.video.suffix in ENCODERS and len(sources) > 1:
            raise UserError(
                f"--video {options.video}: there are {len(sources)} clips; give a folder for them"
            )
        inputs = [source.path for source in sources]
        if options.video and options.video.suffix in ENCODERS:
            check_output(options.video, inputs, overwrite=options.overwrite)
        check_attention(options, len(sources), inputs)
        run = _Run(options, extractor, layout, pool, inputs)
        with tqdm(total=len(sources), unit=" clips", file=progress_file()) as bar:
            (run.caption if options.write else run.translate)(sources, bar)
        run.write_attention()
    if options.timing:
        run.print_timing()
    if run.failed:
        raise UserError(f"not translated: {run.failed} of the clips, see above")
    if run.not_understood:
        hint = "" if options.guess or options.write else "; --guess writes the model's guess"
        _print_message(f"not understood: {run.not_understood}{hint}")
        if not options.write:  # of a film's many sentences one more is marked
            sys.exit(NOT_UNDERSTOOD_CODE)


def _read_make(options: argparse.Namespace) -> tuple[dict[str, Any], Layout]:
    """Return extractor and layout of the model's landmarks, without the torch the rest needs."""
    try:
        content = json.loads((options.checkpoint / "checkpoint.json").read_bytes())
        return dict(content["extractor"]), Layout.from_json(json.dumps(content["layout"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        load_translator(options)  # says what is wrong with it
        raise


def watch_folder(run: "_Run", folder: Path, extractor: Mapping[str, Any]) -> None:
    """Write captions for the films that are in a folder and arrive there, until Ctrl-C.

    A film is read when its size and date have not changed for `POLL_S`; one that has captions is
    done, also after a new start. One that cannot be translated is tried again when it changes.
    """
    if not folder.is_dir():
        raise UserError(f"--watch {folder}: there is no such folder; make it")
    run.wait()
    _print_message(f"watching {folder} every {POLL_S:g} s; Ctrl-C ends it")
    before, tried = dict[Path, tuple[int, int]](), dict[Path, tuple[int, int]]()
    try:
        while True:
            now = dict[Path, tuple[int, int]]()
            for path in list_files(folder, extractor):
                with contextlib.suppress(FileNotFoundError):  # taken away meanwhile
                    now[path] = (path.stat().st_size, path.stat().st_mtime_ns)
            for path, stamp in now.items():
                # What writes a file names it with a dot until it is whole, if it takes such care.
                is_whole = stamp[0] > 0 and before.get(path) == stamp and path.name[0] != "."
                if is_whole and tried.get(path) != stamp and not run.has_captions(path):
                    tried[path] = stamp
                    with tqdm(disable=True) as bar:
                        run.caption([ClipPath(path=path)], bar)
            before = now
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        _print_message(f"stopped; {run.captioned} translated, {run.failed} not")


class _Run:
    """One call of the command.

    Attributes:
        failed: How many clips could not be read, translated or filmed.
        captioned: How many films have got captions.
        not_understood: How many clips and sentences are like nothing that the model has seen.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        extractor: dict[str, Any],
        layout: Layout,
        pool: ThreadPoolExecutor,
        inputs: Sequence[Path],
    ) -> None:
        self.failed, self.captioned, self.not_understood = 0, 0, 0
        self._cutter: Callable[[LandmarkSequence], list[Span]] | None = None
        self._extractor = extractor
        self._options, self._pool, self._inputs = options, pool, inputs
        self._is_single = len(inputs) == 1
        self._layout, self._watch = layout, Stopwatch()
        self._seconds, self._frames = 0.0, 0
        self._watch.seconds["start"] = time.time() - psutil.Process().create_time()
        defaults = source_defaults(options)
        self._reader = ClipReader(
            extractor,
            ReadOptions(
                hand_model=options.hand_model, pose_model=options.pose_model, defaults=defaults
            ),
            partial(self._watch.measure_each, "video decoding"),
        )
        self._films: set[Path] = set()
        self._attended: list[tuple[str, SourceSequence, Translation]] = []

    def translate(self, sources: Iterable[ClipPath], bar: "tqdm[Any]") -> None:
        """Read, translate, print and film the clips, some at a time."""
        clips = self._read(sources, bar)
        while batch := list(itertools.islice(clips, CLIPS_AT_ONCE)):
            translator, decoding = self.wait()
            from signloom.translation.timed import Sentence, translate_timed

            with self._watch.measure("model"):
                found = translate_timed(
                    translator,
                    [clip.sequence for clip in batch],
                    decoding,
                    n_best=self._options.n_best,
                    skip_unsure=self._options.skip_unsure,
                    guess=self._options.guess,
                )
            self.not_understood += sum(bool(one.translation.check.unlike) for one in found)
            signs = self._read_signs(translator, [clip.sequence for clip in batch])
            for clip, timed, read in zip(batch, found, signs, strict=True):
                self._print(clip, timed, read)
                if self._options.attention:
                    self._attended.append((clip.clip_id, clip.sequence, timed.translation))
                if self._options.video:
                    best = timed.translation
                    with self._watch.measure("films"):
                        whole = Sentence(text=best.text, tokens=timed.tokens, check=best.check)
                        self._film(clip, [whole])

    def _read_signs(
        self, translator: "Translator", clips: Sequence[LandmarkSequence]
    ) -> "list[list[Sign]]":
        """Return the signs of clips where they were asked for; else none."""
        if not self._options.signs:
            return [[] for _ in clips]
        from signloom.translation.signs import read_signs

        with self._watch.measure("signs"):
            return read_signs(translator, clips)

    def caption(self, sources: Iterable[ClipPath], bar: "tqdm[Any]") -> None:
        """Cut films into sentences, one film after another, and write their captions."""
        for source in sources:
            path = source.path
            try:
                # Before hours of work; a file of several clips has other names.
                self._caption_path(source, path.name if path.is_dir() else path.stem)
                for clip in self._read([source], bar):
                    self._caption(clip, self._caption_path(source, clip.clip_id))
            except (UserError, OSError) as error:
                self._fail(str(path), str(error))

    def has_captions(self, film: Path) -> bool:
        """Return whether the captions of a film that is watched are there."""
        return self._caption_name(ClipPath(path=film), film.stem).exists()

    def _caption_name(self, source: ClipPath, clip_id: str) -> Path:
        into: Path | None = self._options.into
        if into is None and source.clip_id is not None:
            raise UserError("say with --into FOLDER where the captions are to be written")
        folder = into or source.path.parent
        if into and self._options.watch:
            folder = into / source.path.parent.relative_to(self._options.watch)
        return folder / f"{clip_id.replace('/', '_')}.{self._options.write}"

    def _caption_path(self, source: ClipPath, clip_id: str) -> Path:
        """Return where captions may be written.

        Raises:
            UserError: If they may not.
        """
        path = self._caption_name(source, clip_id)
        refuse_in_corpus(path)
        check_writable(path)
        check_output(path, self._inputs, overwrite=self._options.overwrite)
        return path

    def _caption(self, clip: GivenClip, out: Path) -> None:
        from signloom.translation.timed import translate_film

        translator, decoding = self.wait()
        with self._watch.measure("model"):
            spans = self._cut(clip.sequence)
            sentences = translate_film(
                translator, clip.sequence, spans, decoding,
                skip_unsure=self._options.skip_unsure, guess=self._options.guess,
            )  # fmt: skip
        self.not_understood += sum(bool(one.check.unlike) for one in sentences)
        marked = sum(bool(one.check.word) for one in sentences)
        # Numbers tell programs; people see the mark.
        mark = "" if self._options.write == "json" else UNSURE_MARK
        cues = [
            Cue(
                start_s=round(one.start_s, 3), end_s=round(one.end_s, 3),
                text=(mark if one.check.word else "") + (one.text or self._instead(one)),
                score=one.check.told,
            )
            for one in sentences
        ]  # fmt: skip
        signs = self._film_signs(translator, clip.sequence, sentences)
        write_captions(out, cues, clip.source if clip.source.is_file() else None, signs)
        self.captioned += 1
        now = datetime.now().isoformat(sep=" ", timespec="seconds")
        tqdm.write(
            f"{now} {readable_name(out)}: {len(cues)} sentences, {marked} of them unsure, in "
            f"{clip.sequence.seconds:.0f} s"
        )
        sys.stdout.flush()
        if self._options.video:
            with self._watch.measure("films"):
                self._film(clip, sentences)

    def _film_signs(
        self, translator: "Translator", film: LandmarkSequence, sentences: "Sequence[Sentence]"
    ) -> list[Cue]:
        """Return the signs of the sentences that were understood, in the film's time."""
        understood = [one for one in sentences if not one.check.unlike]
        clips = [cut(film, (one.start_s, one.end_s)) for one in understood]
        return [
            Cue(
                start_s=round(one.start_s + sign.start_s, 3),
                end_s=round(one.start_s + sign.end_s, 3),
                text=sign.gloss, score=round(sign.posterior, 3),
            )
            for one, signs in zip(understood, self._read_signs(translator, clips), strict=True)
            for sign in signs
        ]  # fmt: skip

    def _instead(self, one: "Sentence") -> str:
        """Return what stands in captions for people where no sentence is written."""
        from signloom.translation.confidence import NOT_UNDERSTOOD

        return NOT_UNDERSTOOD if one.check.unlike and self._options.write != "json" else ""

    def _cut(self, film: LandmarkSequence) -> list[Span]:
        """Return the sentences of a film: by what was learnt, where it was and nobody says how."""
        if self._cutter is None:
            from signloom.translation.segmenter import Segmenter, find_segmenter

            pause_s = self._options.pause
            path = None if pause_s is not None else find_segmenter(self._options.checkpoint)
            if path:
                _print_message(f"films are cut into sentences by {path}")
                self._cutter = Segmenter.load(path, self._extractor).segment
            else:
                self._cutter = partial(segment_by_rest, pause_s=pause_s or PAUSE_S)
        return self._cutter(film)

    def _is_sentence(self, name: str, seconds: float) -> bool:
        """Say of what is long that it is translated as one sentence; refuse what is no sentence."""
        if self._options.write or seconds <= LONG_S:
            return True
        hint = "--write vtt cuts a film into its sentences"
        if seconds > LONGEST_S:
            self._fail(name, f"it lasts {seconds:.0f} s and would be one sentence; {hint}")
            return False
        _print_message(
            f"warning: {readable_name(name)}: its {seconds:.0f} s are translated as one sentence; "
            f"{hint}"
        )
        return True

    def write_attention(self) -> None:
        """Write the page of attention, where one was asked for and a clip was translated."""
        check_attention(self._options, len(self._attended), self._inputs)
        if self._attended:
            write_attention(self._options, self.wait()[0], self._attended)

    def print_timing(self) -> None:
        """Print what took how long, on stderr."""
        total_s = sum(self._watch.seconds.values())
        pace = total_s / self._seconds if self._seconds else 0.0
        print(
            f"{self._watch.describe()}; {self._frames} frames, {self._seconds:.1f} s of clips in "
            f"{total_s:.1f} s: {pace:.2f} s a second",
            file=sys.stderr,
        )

    @functools.cached_property
    def _loading(self) -> "Future[Loaded]":
        return self._pool.submit(load_translator, self._options)

    def wait(self) -> Loaded:
        """Return the model when it is loaded."""
        with self._watch.measure("start"):
            return self._loading.result()

    def _read(self, sources: Iterable[ClipPath], bar: "tqdm[Any]") -> Iterator[GivenClip]:
        """Yield the clips that can be read; name the others."""
        for source in sources:
            with self._watch.measure("start"):
                # Torch takes a second to import. The detector goes first: they would hold each
                # other up, but landmarks can be looked for meanwhile.
                self._reader.open(source)
                _ = self._loading
            clips = self._reader.read(source, self._layout)
            length_s = video_seconds(source)  # before hours of extraction
            if length_s is not None and not self._is_sentence(str(source.path), length_s):
                bar.update()
                continue
            for clip in self._watch.measure_each("landmarks", clips, without="video decoding"):
                self.wait()  # before anything is printed: the checkpoint may be of no use
                if isinstance(clip, UnreadableClip):
                    self._fail(clip.name, str(clip.problem))
                    continue
                name = f"{clip.source}: {clip.clip_id}"
                if length_s is None and not self._is_sentence(name, clip.sequence.seconds):
                    continue
                if not clip.sequence.present.any():
                    _print_message(f"warning: {clip.source}: no hand and no body was found in it")
                self._seconds += clip.sequence.seconds
                self._frames += len(clip.sequence.points)
                yield clip
            bar.update()

    def _print(self, clip: GivenClip, timed: "TimedTranslation", signs: "Sequence[Sign]") -> None:
        from signloom.translation.confidence import NOT_UNDERSTOOD
        from signloom.translation.timed import to_json

        if self._options.json:
            sequence = clip.sequence
            content = {
                "source": str(clip.source),
                "clip_id": clip.clip_id,
                **to_json(timed),
                **({"signs": [sign.to_map() for sign in signs]} if self._options.signs else {}),
                "frames": len(sequence.points),
                "seconds": round(sequence.seconds, 3),
            }
            tqdm.write(json.dumps(content, ensure_ascii=False))
            return
        best = timed.translation
        is_whole_file = clip.clip_id == clip.source.stem
        name = str(clip.source) if is_whole_file else f"{clip.source}: {clip.clip_id}"
        name = readable_name(name)  # one with a line end would look like two clips
        if best.check.unlike:
            _print_message(f"warning: {name}: {best.check.note}")
        instead = [f"({NOT_UNDERSTOOD})"] if best.check.unlike else []
        for translation in (best, *best.alternatives):
            cells = [] if self._is_single and is_whole_file else [name]
            if self._options.n_best > 1:
                cells.append(f"{translation.hypothesis.score:.4f}")
            text = " ".join(translation.text.split())  # a line, whatever it says
            word = [translation.check.word] if translation.check.word else []
            guess = [f"a guess: {text}"] if self._options.guess else []
            cells += [*instead, *word, *guess] if instead else [text, *word]
            tqdm.write("\t".join(cells))
        for sign in signs:
            times = f"{sign.start_s:.2f}-{sign.end_s:.2f} s"
            tqdm.write(f"  {sign.gloss}\t{times}\t{100 * sign.posterior:.0f} %")

    def _film(self, clip: GivenClip, sentences: "Sequence[Sentence]") -> None:
        from signloom.report.films import write_film

        out: Path = self._options.video
        if out.suffix not in ENCODERS:
            base = clip.clip_id.replace("/", "_")  # of an archive's member, say
            names = (f"{base}{n}.webm" for n in itertools.chain([""], itertools.count(2)))
            out = next(out / name for name in names if out / name not in self._films)
        self._films.add(out)
        try:
            check_output(out, self._inputs, overwrite=self._options.overwrite)
            write_film(out, clip, sentences, font=self._options.font)
        except UserError as error:
            self._fail(str(out), str(error))

    def _fail(self, name: str, problem: str) -> None:
        self.failed += 1
        _print_message(f"error: {readable_name(name)}: {problem}")


def _print_message(text: str) -> None:
    tqdm.write(text, file=sys.stderr)


T = TypeVar("T")


class Stopwatch:
    """Adds up seconds by name.

    Attributes:
        seconds: Spent on each part so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, name: str, *, without: str = "") -> Iterator[None]:
        """Time a block.

        Args:
            name: The part that its seconds are added to.
            without: Another part, timed within the block, whose seconds are not counted twice.
        """
        start_s, before_s = time.perf_counter(), self.seconds[without] if without else 0.0
        try:
            yield
        finally:
            inner_s = self.seconds[without] - before_s if without else 0.0
            self.seconds[name] += time.perf_counter() - start_s - inner_s

    def measure_each(self, name: str, items: Iterator[T], *, without: str = "") -> Iterator[T]:
        """Pass items on and time how long each took to come; names as in `measure`."""
        while True:
            with self.measure(name, without=without):
                item = next(items, None)
            if item is None:
                return
            yield item

    def describe(self) -> str:
        """Return the parts that took time, with their shares of the sum, in one line."""
        total_s = max(sum(self.seconds.values()), 1e-9)
        parts = (
            f"{name} {spent_s:.2f} s ({100 * spent_s / total_s:.0f} %)"
            for name, spent_s in self.seconds.items()
            if spent_s
        )
        return ", ".join(parts)
