"""Translation of the videos and landmark files that a person names."""

import functools
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from signloom.config import load_section
from signloom.corpus.manifest import VIDEO_SUFFIXES, CorpusOptions
from signloom.errors import ClipError, UserError, count_of, readable_name
from signloom.files import check_writable, disk_name
from signloom.paths import DEMO_CORPUS, PARAMS
from signloom.progress import progress_file
from signloom_tools.cli.guards import refuse_in_corpus
from signloom_tools.cli.translate_options import (
    TranslateOptions,
    check_attention,
    load_translator,
    write_attention,
)
from signloom_tools.importing.captions import write_captions
from signloom_tools.importing.options import CROWDED
from signloom_tools.outputs import check_output
from signloom_tools.translate.inputs import (
    LONGEST_S,
    ClipPath,
    ClipReader,
    GivenClip,
    UnreadableClip,
    find_clips,
    video_seconds,
)
from signloom_tools.video_writer import SUFFIX

if TYPE_CHECKING:
    from signloom.features.sources import LandmarkSource, SourceSequence
    from signloom.translation.options import DecodingOptions
    from signloom.translation.translator import Translation, Translator
    from signloom_tools.translate.films import Sentence
    from signloom_tools.translate.timed import TimedTranslation

LONG_S = 60.0  # a longer clip is hardly one sentence
CLIPS_AT_ONCE = 16  # of landmarks, which the model translates together; a film is printed when done


def translate_clips(options: TranslateOptions) -> bool:
    """Translate what the options name; return whether a clip was not understood.

    Raises:
        UserError: If anything could not be translated; the rest is printed before.
    """
    video = options.clips.video
    if video:
        if video.suffix.lower() in {*VIDEO_SUFFIXES} - {SUFFIX}:
            raise UserError(f"--video {video}: expected a {SUFFIX} file, or a folder for them")
        refuse_in_corpus(video)
        check_writable(video)
    source = _read_source(options)
    with ThreadPoolExecutor(1) as pool:
        sources = find_clips(options.paths, source.extractor)
        inputs = [source.path for source in sources]
        if video and video.suffix == SUFFIX:
            if len(sources) > 1:
                raise UserError(
                    f"--video {video}: there are {len(sources)} clips; give a folder for them"
                )
            for path in (video, video.with_suffix(".vtt")):
                check_output(path, inputs, overwrite=options.overwrite)
        check_attention(options, len(sources), inputs)
        warn_of_demo(options.model.checkpoint, inputs)
        kind = _FilmWork if options.clips.write else _ClipWork
        work = kind(options, source, pool, inputs)
        with tqdm(total=len(sources), unit=" clips", file=progress_file()) as bar:
            work.translate(sources, bar)
    return work.end()


def warn_of_demo(checkpoint: Path, inputs: Iterable[Path]) -> None:
    """Say what the demo's model cannot do, unless all it reads is the demo's."""
    is_of_project = PARAMS.is_file() and not checkpoint.is_absolute()
    if not is_of_project or not load_section(PARAMS, "corpus", CorpusOptions).is_drawn:
        return
    if not all(path.is_relative_to(DEMO_CORPUS) for path in inputs):
        print(
            "warning: this is the demo's model: it knows an invented language of drawn signers "
            "and understands no person",
            file=sys.stderr,
        )


def _read_source(options: TranslateOptions) -> "LandmarkSource":
    """Return the landmarks that the model reads, without the torch that the model needs.

    Raises:
        UserError: If it reads glosses, or its checkpoint is missing or damaged.
    """
    from signloom.checkpoint_file import SPEC, parse_source, read_fields
    from signloom.features.sources import LandmarkSource

    checkpoint = options.model.checkpoint
    try:
        source = parse_source(checkpoint / SPEC, read_fields(checkpoint / SPEC))
    except UserError:
        load_translator(options)  # says what else is wrong, or reads what replaced it meanwhile
        raise
    if not isinstance(source, LandmarkSource):
        raise UserError(
            f"{checkpoint} was trained on glosses (model.source: glosses), not on "
            'landmarks; use signloom translate --glosses "..."'
        )
    return source


class _Work:
    """What clips and films have in common: reading them, the model, and what became of them.

    Attributes:
        failed: How many clips could not be read, translated or filmed.
        not_understood: How many clips and sentences are like nothing that the model has seen.
    """

    def __init__(
        self,
        options: TranslateOptions,
        source: "LandmarkSource",
        pool: ThreadPoolExecutor,
        inputs: Sequence[Path],
    ) -> None:
        self.failed, self.not_understood = 0, 0
        self._source = source
        self._options, self._pool, self._inputs = options, pool, inputs
        self._reader = ClipReader(source.extractor, options.clips.read)
        self._written: set[str] = set()  # films and captions, by `disk_name`

    @functools.cached_property
    def _loading(self) -> "Future[tuple[Translator, DecodingOptions]]":
        return self._pool.submit(load_translator, self._options)

    def wait(self) -> "tuple[Translator, DecodingOptions]":
        """Return the model and its search when it is loaded."""
        return self._loading.result()

    def read(self, sources: Iterable[ClipPath], bar: "tqdm[Any]") -> Iterator[GivenClip]:
        """Yield the clips that can be read; name the others."""
        for source in sources:
            # Torch takes a second to import. The detector goes first: they would hold each other
            # up, but landmarks can be looked for meanwhile.
            self._reader.open(source)
            _ = self._loading
            length_s = video_seconds(source)  # before hours of extraction
            if length_s is not None and not self._is_sentence(str(source.path), length_s):
                bar.update()
                continue
            for clip in self._reader.read(source, self._source.layout):
                self.wait()  # before anything is printed: the checkpoint may be of no use
                if isinstance(clip, UnreadableClip):
                    self.fail(clip.name, str(clip.problem))
                    continue
                name = f"{clip.source}: {clip.clip_id}"
                if length_s is None and not self._is_sentence(name, clip.sequence.seconds):
                    continue
                if not clip.sequence.present.any():
                    _print_message(f"warning: {clip.source}: no hand and no body was found in it")
                if clip.sequence.is_crowded:
                    _print_message(f"warning: {readable_name(clip.source)}: {CROWDED}")
                yield clip
            bar.update()

    def _is_sentence(self, name: str, seconds: float) -> bool:
        """Say that a long clip is translated as a single sentence; refuse what is no sentence."""
        if self._options.clips.write or seconds <= LONG_S:
            return True
        hint = "--write vtt cuts a film into its sentences"
        if seconds > LONGEST_S:
            self.fail(name, f"it lasts {seconds:.0f} s and would be one sentence; {hint}")
            return False
        _print_message(
            f"warning: {readable_name(name)}: its {seconds:.0f} s are translated as one sentence; "
            f"{hint}"
        )
        return True

    def write_video(self, clip: GivenClip, sentences: "Sequence[Sentence]") -> None:
        """Write a clip with its skeleton, and its captions next to it, where that is asked for."""
        out = self._options.clips.video
        if out is None:
            return
        from signloom_tools.skeleton_video import blank_pictures, even_pictures, write_skeleton
        from signloom_tools.translate.films import make_cues

        if out.suffix != SUFFIX:
            base = clip.clip_id.replace("/", "_")  # of an archive's member, say
            names = (f"{base}{n}{SUFFIX}" for n in itertools.chain([""], itertools.count(2)))
            out = next(out / name for name in names if disk_name(out / name) not in self._written)
        captions = out.with_suffix(".vtt")
        is_new = disk_name(captions) not in self._written  # else --write has just written it
        self._written |= {disk_name(out), disk_name(captions)}
        captioned = [
            sentence for sentence in sentences if sentence[1].text or not self._options.skip_unsure
        ]
        try:
            for path in (out, captions) if is_new else (out,):
                check_output(path, self._inputs, overwrite=self._options.overwrite)
            sequence = clip.sequence
            if clip.is_video:
                film = clip.packed or clip.source
                pictures = even_pictures(film, sequence.fps, fps=clip.fps, crop=clip.box)
            else:
                pictures = blank_pictures(sequence)
            write_skeleton(out, pictures, sequence)
            if is_new:
                write_captions(captions, make_cues(captioned, for_people=True), out)
        except (ClipError, UserError) as error:
            self.fail(str(out), str(error))

    def fail(self, name: str, problem: str) -> None:
        """Name what could not be translated."""
        self.failed += 1
        _print_message(f"error: {readable_name(name)}: {problem}")

    def end(self) -> bool:
        """Say what failed; return whether a clip was not understood.

        Raises:
            UserError: If anything failed.
        """
        if self.failed:
            raise UserError(f"not translated: {self.failed} of the clips, see above")
        if self.not_understood:
            is_hidden = not (self._options.guess or self._options.clips.write)
            hint = "; --guess writes the model's guess" if is_hidden else ""
            _print_message(f"not understood: {self.not_understood}{hint}")
        # Of a film's many sentences one more is marked.
        return bool(self.not_understood) and not self._options.clips.write


class _ClipWork(_Work):
    """Clips of one sentence each: translations are printed."""

    def translate(self, sources: Sequence[ClipPath], bar: "tqdm[Any]") -> None:
        """Read, translate, print and film the clips, some at a time; write the attention page."""
        at_once = 1 if any(source.kind == "video" for source in sources) else CLIPS_AT_ONCE
        options = self._options
        attended: list[tuple[str, SourceSequence, Translation]] = []
        clips = self.read(sources, bar)
        while batch := list(itertools.islice(clips, at_once)):
            translator, decoding = self.wait()
            from signloom_tools.translate.timed import translate_timed

            batch = [part for clip in batch for part in self._cut_signs(clip)]
            translations = translate_timed(
                translator,
                [clip.sequence for clip in batch],
                decoding,
                n_best=options.n_best,
                skip_unsure=options.skip_unsure,
                guess=options.guess,
                find=options.clips.find,
            )
            for clip, timed in zip(batch, translations, strict=True):
                best = timed.translation
                self.not_understood += bool(best.check.unlike)
                self._print(clip, timed.later(clip.begins_s))
                if self._options.attention:
                    attended.append((clip.clip_id, clip.sequence, best))
                self.write_video(clip, [((0.0, clip.sequence.seconds), timed)])
            sys.stdout.flush()  # who reads a pipe has the line now
        check_attention(self._options, len(attended), self._inputs)
        if attended:
            write_attention(self._options, self.wait()[0], attended)

    def _cut_signs(self, clip: GivenClip) -> list[GivenClip]:
        """Return the signs of a film of several, where the model names one sign a clip."""
        from signloom_tools.translate.segmentation import cut, segment_by_rest

        is_whole = self.wait()[0].spec.ctc.kind != "texts" or self._options.clips.video
        spans = [] if is_whole else segment_by_rest(clip.sequence)
        if len(spans) < 2:
            return [clip]
        parts = []
        for span in spans:
            start_s, end_s = (clip.begins_s + edge_s for edge_s in span)
            name = f"{clip.clip_id} {start_s:.2f}-{end_s:.2f} s"
            sequence = cut(clip.sequence, span)
            parts.append(replace(clip, clip_id=name, begins_s=start_s, sequence=sequence))
        return parts

    def _print(self, clip: GivenClip, timed: "TimedTranslation") -> None:
        from signloom.translation.confidence import NOT_UNDERSTOOD
        from signloom_tools.translate.answer import to_json

        if self._options.json:
            sequence = clip.sequence
            content = {
                "source": str(clip.source),
                "clip_id": clip.clip_id,
                **to_json(timed),
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
            cells = [] if len(self._inputs) == 1 and is_whole_file else [name]
            if self._options.n_best > 1:
                cells.append(f"{translation.hypothesis.score:.4f}")
            text = " ".join(translation.text.split())  # one line, even if it has several
            word = [translation.check.word] if translation.check.word else []
            guess = [f"a guess: {text}"] if self._options.guess else []
            cells += [*instead, *word, *guess] if instead else [text, *word]
            tqdm.write("\t".join(cells))
        is_asked = self._options.clips.signs or self._options.clips.find
        for sign in (timed.signs or ()) if is_asked else ():
            times = f"{sign.start_s:.2f}-{sign.end_s:.2f} s"
            tqdm.write(f"  {sign.gloss}\t{times}\t{100 * sign.posterior:.0f} %")


class _FilmWork(_Work):
    """Films of several sentences: captions are written."""

    def translate(self, sources: Sequence[ClipPath], bar: "tqdm[Any]") -> None:
        """Cut films into sentences, one film after another, and write their captions."""
        for source in sources:
            path = source.path
            try:
                # Before hours of work; a file of several clips has other names.
                self._caption_path(source, path.name if path.is_dir() else path.stem)
                for clip in self.read([source], bar):
                    self._caption(clip, self._caption_path(source, clip.clip_id))
            except (UserError, OSError) as error:
                self.fail(str(path), str(error))

    def _caption_path(self, source: ClipPath, clip_id: str) -> Path:
        """Return where captions may be written.

        Raises:
            UserError: If they may not.
        """
        into = self._options.clips.into
        if into is None and source.clip_id is not None:
            raise UserError("say with --into FOLDER where the captions are to be written")
        folder = into or source.path.parent
        path = folder / f"{clip_id.replace('/', '_')}.{self._options.clips.write}"
        if disk_name(path) in self._written:
            raise UserError(f"{path} has the captions of another film now; write them apart")
        refuse_in_corpus(path)
        check_writable(path)
        check_output(path, self._inputs, overwrite=self._options.overwrite)
        return path

    def _caption(self, clip: GivenClip, out: Path) -> None:
        from signloom_tools.translate.films import make_cues, make_sign_cues, translate_film
        from signloom_tools.translate.segmentation import PAUSE_S, segment_by_rest

        translator, decoding = self.wait()
        options = self._options
        spans = segment_by_rest(clip.sequence, options.clips.pause_s or PAUSE_S)
        sentences = translate_film(
            translator,
            clip.sequence,
            spans,
            decoding,
            skip_unsure=options.skip_unsure,
            guess=options.guess,
            find=options.clips.find,
        )
        has_signs = options.clips.signs or options.clips.find
        signs = make_sign_cues(sentences) if has_signs else []
        sentences = [
            (span, timed) for span, timed in sentences if timed.text or not options.skip_unsure
        ]
        checks = [timed.translation.check for _, timed in sentences]
        self.not_understood += sum(bool(check.unlike) for check in checks)
        cues = make_cues(sentences, for_people=self._options.clips.write != "json")
        cues, signs = ([cue.later(clip.begins_s) for cue in part] for part in (cues, signs))
        write_captions(out, cues, clip.source if clip.source.is_file() else None, signs)
        self._written.add(disk_name(out))
        now = datetime.now().isoformat(sep=" ", timespec="seconds")
        marked = sum(bool(check.word) for check in checks)
        tqdm.write(
            f"{now} {readable_name(out)}: {count_of(len(cues), 'sentence')}, {marked} of them "
            f"unsure, in {clip.sequence.seconds:.0f} s"
        )
        sys.stdout.flush()
        self.write_video(clip, sentences)


def _print_message(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
