"""What `signloom translate --glosses` does: lines of glosses come in, sentences are printed."""

import argparse
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
from tqdm import tqdm

from signloom.corpus.landmarks import NO_LANDMARKS, Layout
from signloom.errors import UserError
from signloom.importing.foreign import SourceDefaults
from signloom.nightly.store import ModelStore
from signloom.paths import CHECKPOINT
from signloom.progress import progress_file
from signloom.translation.inputs import (
    ClipReader,
    GivenClip,
    ReadOptions,
    Source,
    UnreadableClip,
    find_sources,
)
from signloom.translation.options import DECODING
from signloom.translation.timed import Stopwatch

if TYPE_CHECKING:
    from signloom.translation.search import DecodingOptions
    from signloom.translation.timed import TimedTranslation
    from signloom.translation.translator import Translator

_OF_CLIPS = {
    "paths": "PATH", "video": "--video", "font": "--font", "timing": "--timing",
    "hand_model": "--hand-model", "pose_model": "--pose-model", "fps": "--fps",
    "width": "--width", "height": "--height",
}  # fmt: skip
# `lines.txt`, `folder/lines`; a line such as `HAUS LAUFEN/GEHEN` is none.
_LOOKS_LIKE_PATH = re.compile(r".*\.[A-Za-z]\w*|\S*[/\\]\S*")


def translate_glosses(options: argparse.Namespace) -> None:
    """Print the translations of each line, in order; an empty line gives an empty one.

    Raises:
        UserError: If the checkpoint was not trained on glosses, or nothing is given.
    """
    _refuse_options_of_clips(options)
    lines = read_lines(options.glosses)
    from signloom.translation.search import DecodingOptions
    from signloom.translation.translator import Translator

    try:
        decoding = DecodingOptions(**{name: getattr(options, name) for name in DECODING})
    except ValueError as error:
        raise UserError(str(error)) from None
    translator = Translator.load(options.checkpoint, precision=options.precision)
    if not translator.reads_glosses:
        raise UserError(
            f"{options.checkpoint} was trained on landmarks, not on glosses (model.source: tokens)"
        )
    sources = [translator.spec.glosses.encode(line) for line in lines]
    told = [source for source in sources if len(source.ids)]
    said = iter(translator.translate(told, decoding, n_best=options.n_best))
    for source in sources:
        found = next(said) if len(source.ids) else None
        every = [found, *found.alternatives] if found else []
        if options.json:
            rows = [
                {
                    "text": one.text,
                    "score": one.hypothesis.score,
                    "log_prob": one.hypothesis.log_prob,
                }
                for one in every
            ]
            first = rows[0] if rows else {"text": ""}
            content = {
                "glosses": source.glosses, "unknown": source.unknown, **first,
                "alternatives": rows[1:],
            }  # fmt: skip
            print(json.dumps(content, ensure_ascii=False))
            continue
        for one in every:
            score = f"{one.hypothesis.score:.4f}\t" if options.n_best > 1 else ""
            print(score + " ".join(one.text.split()))
        if not every:
            print()
    _tell_unknown([name for source in sources for name in source.unknown], len(told))


def _refuse_options_of_clips(options: argparse.Namespace) -> None:
    """Refuse what would be passed over in silence, all of it at once."""
    given = {flag: getattr(options, name) for name, flag in _OF_CLIPS.items()}
    found = [
        flag
        for flag, value in given.items()
        if not (value is None or value is False or value in ("", []))  # 0 was given, too
    ]
    if found:
        raise UserError(
            f"{', '.join(found)}: of videos and landmarks, without meaning for glosses; leave "
            "out this or --glosses"
        )


def read_lines(given: Sequence[str]) -> list[str]:
    """Return the lines of glosses behind arguments: files, `-` for standard input, or themselves.

    Raises:
        UserError: If a file is missing or cannot be read as text, or all lines are empty.
    """
    lines: list[str] = []
    for argument in given:
        try:
            if argument == "-":
                lines += sys.stdin.read().splitlines()
            elif os.path.isfile(argument):  # noqa: PTH113 (which fails for lines of 256 bytes)
                lines += Path(argument).read_text(encoding="utf-8-sig").splitlines()
            elif _LOOKS_LIKE_PATH.fullmatch(argument):
                raise UserError(
                    f"--glosses {argument}: no such file; expected one, a line of glosses or -, "
                    "which reads lines from standard input, whatever is in them"
                )
            else:
                lines.append(argument)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"--glosses {argument}: {error}; expected text in UTF-8, a line a clip"
            ) from None
    if not any(line.strip() for line in lines):
        raise UserError("--glosses: found no gloss; give a line of them, a file of lines, or -")
    return lines


def _tell_unknown(unknown: Sequence[str], lines: int) -> None:
    """Say which glosses the model has never seen: what it makes of them is a guess."""
    if not unknown:
        return
    names = list(dict.fromkeys(unknown))
    some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    found = f"{len(unknown)} glosses of {lines} line{'s' * (lines > 1)}"
    print(f"warning: {found} never stood in train: {some}", file=sys.stderr)


_CLIPS_AT_ONCE = 16  # the model translates them together; they are printed together, too

Loaded = tuple["Translator", "DecodingOptions"]


def translate_all(options: argparse.Namespace) -> None:
    """Translate what the options name.

    Raises:
        UserError: If anything could not be translated; the rest is printed before.
    """
    # Torch takes a second to import: landmarks of the first clip are looked for meanwhile.
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(_load, options)
        extractor, layout = _read_make(options.checkpoint, loading)
        if layout == NO_LANDMARKS:
            raise UserError(
                f"{options.checkpoint} was trained on glosses (model.source: tokens), not on "
                'landmarks; say signloom translate --glosses "..."'
            )
        sources = find_sources(options.paths, extractor)
        if options.video and options.video.suffix == ".mp4" and len(sources) > 1:
            raise UserError(
                f"--video {options.video}: there are {len(sources)} clips; give a folder for them"
            )
        run = _Run(options, extractor, layout, loading, is_single=len(sources) == 1)
        with tqdm(total=len(sources), unit=" clips", file=progress_file()) as bar:
            run.translate(sources, bar)
    if options.timing:
        run.print_timing()
    if run.failed:
        raise UserError(f"not translated: {run.failed} of the clips, see above")


def _load(options: argparse.Namespace) -> Loaded:
    from signloom.translation.search import DecodingOptions
    from signloom.translation.translator import Translator

    try:
        decoding = DecodingOptions(**{name: getattr(options, name) for name in DECODING})
    except ValueError as error:
        raise UserError(str(error)) from None
    return Translator.load(options.checkpoint, precision=options.precision), decoding


def _read_make(checkpoint: Path, loading: "Future[Loaded]") -> tuple[dict[str, Any], Layout]:
    """Return extractor and layout of the model's landmarks, without the torch the rest needs."""
    try:
        content = json.loads((checkpoint / "checkpoint.json").read_bytes())
        return dict(content["extractor"]), Layout.from_json(json.dumps(content["layout"]))
    except (OSError, ValueError, KeyError, TypeError):
        loading.result()  # says what is wrong with it
        raise


class _Run:
    """One call of the command.

    Attributes:
        failed: How many clips could not be read, translated or filmed.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        extractor: dict[str, Any],
        layout: Layout,
        loading: "Future[Loaded]",
        *,
        is_single: bool,
    ) -> None:
        self.failed = 0
        self._options, self._loading, self._is_single = options, loading, is_single
        self._layout, self._watch = layout, Stopwatch()
        self._seconds, self._frames = 0.0, 0
        self._watch.seconds["start"] = time.time() - psutil.Process().create_time()
        said = SourceDefaults(fps=options.fps, width=options.width, height=options.height)
        self._reader = ClipReader(
            extractor,
            ReadOptions(
                hand_model=options.hand_model, pose_model=options.pose_model, defaults=said
            ),
            partial(self._watch.measure_each, "video decoding"),
        )
        self._films: set[Path] = set()

    def translate(self, sources: Iterable[Source], bar: "tqdm[Any]") -> None:
        """Read, translate, print and film the clips, some at a time."""
        clips = self._read(sources, bar)
        while batch := list(itertools.islice(clips, _CLIPS_AT_ONCE)):
            translator, decoding = self._wait()
            from signloom.translation.timed import translate_timed

            with self._watch.measure("model"):
                found = translate_timed(
                    translator,
                    [clip.sequence for clip in batch],
                    decoding,
                    n_best=self._options.n_best,
                )
            for clip, timed in zip(batch, found, strict=True):
                self._print(clip, timed)
                if self._options.video:
                    with self._watch.measure("films"):
                        self._film(clip, timed)

    def print_timing(self) -> None:
        """Say what took how long, on stderr."""
        total_s = sum(self._watch.seconds.values())
        pace = total_s / self._seconds if self._seconds else 0.0
        print(
            f"{self._watch.describe()}; {self._frames} frames, {self._seconds:.1f} s of clips in "
            f"{total_s:.1f} s: {pace:.2f} s a second",
            file=sys.stderr,
        )

    def _wait(self) -> Loaded:
        with self._watch.measure("start"):
            return self._loading.result()

    def _read(self, sources: Iterable[Source], bar: "tqdm[Any]") -> Iterator[GivenClip]:
        """Yield the clips that can be read; name the others."""
        for source in sources:
            clips = self._reader.read(source, self._layout)
            for clip in self._watch.measure_each("landmarks", clips, without="video decoding"):
                self._wait()  # before anything is said: the checkpoint may be of no use
                if isinstance(clip, UnreadableClip):
                    self._fail(clip.name, clip.problem)
                    continue
                if not clip.sequence.present.any():
                    _tell(f"warning: {clip.source}: no hand and no body was found in it")
                self._seconds += clip.sequence.seconds
                self._frames += len(clip.sequence.points)
                yield clip
            bar.update()

    def _print(self, clip: GivenClip, timed: "TimedTranslation") -> None:
        from signloom.translation.timed import to_json

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
        for translation in (best, *best.alternatives):
            cells = [] if self._is_single and is_whole_file else [name]
            if self._options.n_best > 1:
                cells.append(f"{translation.hypothesis.score:.4f}")
            text = " ".join(translation.text.split())  # a line a translation, whatever it says
            tqdm.write("\t".join((*cells, text)))

    def _film(self, clip: GivenClip, timed: "TimedTranslation") -> None:
        from signloom.report.films import write_film

        out: Path = self._options.video
        if out.suffix != ".mp4":
            names = (f"{clip.clip_id}{n}.mp4" for n in itertools.chain([""], itertools.count(2)))
            out = next(out / name for name in names if out / name not in self._films)
        self._films.add(out)
        try:
            text = timed.translation.text
            write_film(out, clip, text, timed.tokens, font=self._options.font)
        except UserError as error:
            self._fail(str(out), str(error))

    def _fail(self, name: str, problem: str) -> None:
        self.failed += 1
        _tell(f"error: {name}: {problem}")


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)


_MEANINGS = {
    "beam_size": "hypotheses followed at once; 1 is greedy",
    "length_penalty": "0 favours short translations",
    "max_tokens": "longest translation",
    "min_tokens": "shortest translation",
    "no_repeat_ngram": "no run of so many tokens twice; 0 allows every one",
    "ctc_weight": "share of the CTC head, for models that spell with it",
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "translate",
        help="print the sentences of videos, landmarks or glosses",
        description="Translate videos, landmark files, folders of them, or data/landmarks; "
        "docs/translate.md describes what is read and written.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument(
        "--glosses", nargs="+", metavar="TEXT",
        help="glosses instead: a line of them, a file of lines, or - for standard input",
    )  # fmt: skip
    add_model_choice(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    parser.add_argument(
        "--n-best", type=int, default=1, help="translations of each clip (%(default)s)"
    )
    parser.add_argument(
        "--video",
        type=Path,
        metavar="OUT",
        help="write clips with skeleton and subtitles: an .mp4 file, or a folder of them",
    )
    parser.add_argument("--font", type=Path, help="of the subtitles (default: DejaVu Sans)")
    parser.add_argument("--timing", action="store_true", help="say what took how long")
    _add_model_options(parser)
    parser.set_defaults(run=run)


def add_model_choice(parser: argparse.ArgumentParser) -> None:
    """Let a model be named by its folder or as a version."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--checkpoint",
        type=Path,
        default=CHECKPOINT,
        help="model folder (default: %(default)s)",
    )
    choice.add_argument(
        "--model",
        metavar="VERSION",
        help="champion, challenger or the number of a version of the model instead; it searches "
        "as it did when it was judged; see `signloom champion`",
    )


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search and precision")
    for name, value in DECODING.items():
        flag, meaning = f"--{name.replace('_', '-')}", f"{_MEANINGS[name]} ({value})"
        search.add_argument(flag, type=type(value), help=meaning)
    search.add_argument(
        "--precision", choices=("float32", "bfloat16", "int8"), help="of the weights (float32)"
    )
    found = parser.add_argument_group("what the files do not say")
    for part in ("hand", "pose"):
        found.add_argument(
            f"--{part}-model",
            default="",
            metavar="TASK",
            help=f"the {part}_landmarker .task file that the model was trained with, if any",
        )
    for name, kind in (("fps", float), ("width", int), ("height", int)):
        found.add_argument(f"--{name}", type=kind, help="of landmark files without it")


def run(options: argparse.Namespace) -> None:
    """Translate everything, name what cannot be read, and say so in the exit code."""
    choose_model(options)
    if options.beam_size >= 1 and not 1 <= options.n_best <= options.beam_size:
        raise UserError(
            f"--n-best: found {options.n_best}, expected 1 to --beam-size ({options.beam_size})"
        )
    if options.glosses:
        translate_glosses(options)
        return
    if not options.paths:
        raise UserError("give a PATH of videos or landmarks, or --glosses")
    translate_all(options)


def choose_model(options: argparse.Namespace) -> None:
    """Turn a version's name into its folder, and give its search where no option says otherwise."""
    search: dict[str, Any] = {**DECODING, "precision": "float32"}
    if options.model is not None:
        store = ModelStore()
        version = store.resolve(options.model)
        found = store.search(version)
        options.checkpoint = store.checkpoint(version)
        search |= {**found["decoding"], "precision": found["precision"]}
    for name, value in search.items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)
