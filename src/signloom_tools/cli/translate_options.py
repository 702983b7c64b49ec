"""Options of `signloom translate`; the model and the page of attention that they ask for."""

import dataclasses
import functools
import gc
import sys
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from signloom.config import Count, Positive
from signloom.errors import UserError
from signloom.files import write_file
from signloom.translation.options import DECODING, MAX_BEAMS, DecodingOptions
from signloom_tools.cli.guards import refuse_in_corpus
from signloom_tools.cli.model_choice import ModelChoice
from signloom_tools.command_options import argument, given_flags, group, option
from signloom_tools.importing.options import ReadOptions
from signloom_tools.outputs import check_output

if TYPE_CHECKING:
    from signloom.features.sources import SourceSequence
    from signloom.translation.precision import Precision
    from signloom.translation.translator import Translation, Translator
    from signloom_tools.versions import NamedModel

MAX_ATTENTION = 20  # clips of a page, which stays small
_KINDS = typing.get_type_hints(DecodingOptions, include_extras=True)


def _search(name: str, meaning: str) -> Any:
    """Declare an option of the search, with the type and the usual value that it has there."""
    text = f"{meaning} ({usual})" if (usual := getattr(DECODING, name)) else meaning
    return option(text, None, kind=_KINDS[name])


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What differs from the search that `evaluate` chose; all of it is in `evaluate.decoding`."""

    beam_size: int | None = _search("beam_size", "hypotheses followed in parallel; 1 is greedy")
    max_tokens: int | None = _search("max_tokens", "longest translation")
    language: str | None = _search(
        "language", "to write in, for models of several (default: the model chooses)"
    )
    precision: Literal["float32", "bfloat16", "int8"] | None = option(
        "of the weights (float32)", None
    )
    together: bool = option(
        "average the probabilities of the models of all train.seeds; confidence then needs "
        "evaluate.together",
        False,
    )


@dataclass(frozen=True, kw_only=True)
class ClipOptions:
    """Options of videos and landmarks."""

    signs: bool = option(
        "list the recognised signs with times and probabilities; with --write eaf, vtt or json as "
        "a tier",
        False,
    )
    find: Sequence[str] = option(
        "list where these signs are, each searched by itself; with --write as a tier",
        (),
        metavar="GLOSS",
    )
    write: Literal["vtt", "srt", "eaf", "txt", "json"] | None = option(
        "cut films into sentences and write these captions next to each film", None
    )
    into: Path | None = option("folder for the captions", None, metavar="FOLDER")
    pause_s: Positive | None = option(
        "cut a film where the hands rest for S seconds (0.35)", None, flag="--pause", metavar="S"
    )
    video: Path | None = option(
        "write clips with their skeleton, and captions (.vtt) beside them: a .webm file, or a "
        "folder of them",
        None,
        metavar="OUT",
    )
    read: ReadOptions = group(ReadOptions)


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Translate videos, landmark files, folders of them, or data/landmarks.

    docs/translation.md describes what is read and written. Exit code 3 if a clip is not understood,
    1 if one cannot be read.
    """

    paths: Sequence[Path] = argument("file or folder", "PATH", nargs="*")
    glosses: Sequence[str] = option(
        "translate glosses: a line of them, a file of lines, or - for standard input",
        (),
        metavar="TEXT",
    )
    choice: ModelChoice = group(ModelChoice, exclusive=True)
    json: bool = option("print a JSON object a line", False)
    n_best: Count = option("translations of each clip", 1)
    skip_unsure: bool = option("write nothing for clips that are unsure or not understood", False)
    guess: bool = option("write the hypothesis for clips that are not understood, too", False)
    attention: Path | None = option(
        "write a page (.html) with the attention of each layer and head, for at most "
        f"{MAX_ATTENTION} clips or lines",
        None,
        metavar="OUT",
    )
    overwrite: bool = option("replace films and pages that already exist", False)
    clips: ClipOptions = group(ClipOptions, "videos and landmarks")
    search: SearchOptions = group(
        SearchOptions, "search (default: as `evaluate` chose it for these weights)"
    )

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        most = self.search.beam_size or MAX_BEAMS
        if self.n_best > most:
            raise UserError(f"--n-best: found {self.n_best}, expected 1 to --beam-size ({most})")
        if self.guess and self.skip_unsure:
            raise UserError("--guess and --skip-unsure exclude each other: omit one")
        clips = self.clips
        if self.glosses:
            if flags := [*(["PATH"] if self.paths else []), *given_flags(clips)]:
                raise UserError(
                    f"{', '.join(flags)}: these options apply to videos and landmarks; remove them "
                    "or --glosses"
                )
        elif not self.paths:
            raise UserError("give a PATH of videos or landmarks, or --glosses")
        wrong: dict[str, object]
        if clips.write:
            wrong = {
                "--json": self.json,
                "--attention": self.attention,
                "--n-best": self.n_best > 1,
            }
        else:
            wrong = {"--into": clips.into, "--pause": clips.pause_s}
        if names := [name for name, value in wrong.items() if value]:
            raise UserError(
                f"{', '.join(names)}: {'not with' if clips.write else 'only with'} --write"
            )

    @functools.cached_property
    def model(self) -> "NamedModel":
        """The model with its precision and search, as far as it was judged with one."""
        return self.choice.find()

    @property
    def precision(self) -> "Precision":
        """Of the weights."""
        return self.search.precision or self.model.precision


def load_translator(options: TranslateOptions) -> "tuple[Translator, DecodingOptions]":
    """Load the model that the options name, and how it is to search."""
    gc.disable()  # its runs take a fifth of an import, and upset ast in Python 3.11's threads
    try:
        from signloom.translation.confidence import HINT, NOT_CALIBRATED
        from signloom.translation.translator import Translator
        from signloom_tools.dvc import stages_at_work

        translator = Translator.load(options.model.checkpoint, precision=options.precision)
    finally:
        gc.enable()
    if options.search.together and not translator.is_joint:
        translator = _ask_all_seeds(translator, options)
    if not translator.is_checked:
        hint = f"with evaluate.together {HINT}" if translator.is_joint else HINT
        if stages := stages_at_work():  # of which `evaluate` has removed the last file first
            hint = f"wait until this ends, which may measure it: {', '.join(stages)}"
        lacking = f"there is no confidence.json of these weights{' together' * translator.is_joint}"
        if options.skip_unsure:
            raise UserError(f"--skip-unsure: {lacking}, so nothing says which are unsure; {hint}")
        print(
            f"warning: {NOT_CALIBRATED}: {lacking}, so nothing says how sure the translations are; "
            f"{hint}",
            file=sys.stderr,
        )
    if options.clips.signs or options.clips.find:
        from signloom.translation.recognised_signs import check_glosses

        check_glosses(translator, options.clips.find)
    search_values = {name: getattr(options.search, name, None) for name in _KINDS}
    given_values = {name: value for name, value in search_values.items() if value is not None}
    decoding = dataclasses.replace(options.model.decoding or translator.decoding, **given_values)
    if options.n_best > decoding.beam_size:  # which was chosen as well
        decoding = dataclasses.replace(decoding, beam_size=options.n_best)
    return translator, decoding


def _ask_all_seeds(translator: "Translator", options: TranslateOptions) -> "Translator":
    from signloom.evaluation.evaluate import load_seeds

    checkpoint = options.model.checkpoint
    seed_translators = [
        seed_translator for _, seed_translator in load_seeds(checkpoint, options.precision)
    ]
    if not seed_translators:
        raise UserError(
            f"--together: {checkpoint} has no seeds/, the models of further seeds; train "
            "with train.seeds: [1, 2, 3], or leave --together out"
        )
    return translator.with_seeds(seed_translators)


def check_attention(options: TranslateOptions, clips: int, inputs: Sequence[Path] = ()) -> None:
    """Refuse a page that would be too large, has another name or exists.

    Raises:
        UserError: Naming what was found and what to do.
    """
    out = options.attention
    if out is None:
        return
    if out.suffix != ".html":
        raise UserError(f"--attention {out}: expected the name of a page, such as attention.html")
    if clips > MAX_ATTENTION:
        raise UserError(
            f"--attention: found {clips} clips or lines, expected at most {MAX_ATTENTION}, so that "
            "the page stays small; name fewer"
        )
    refuse_in_corpus(out)
    check_output(out, inputs, overwrite=options.overwrite)


def write_attention(
    options: TranslateOptions,
    translator: "Translator",
    attended: "Sequence[tuple[str, SourceSequence, Translation]]",
) -> None:
    """Write the page of attention, if one is asked for and there is anything to show."""
    if options.attention is None or not attended:
        return
    from signloom.corpus.landmarks import LandmarkSequence
    from signloom.report.attention import AttentionClip, AttentionMap, render_attention

    sequences, translations = (
        [clip for _, clip, _ in attended],
        [translation for *_, translation in attended],
    )
    try:
        alignments = translator.align(sequences, translations)
    except ValueError as error:  # the one it names: the decoder does not look at the source
        raise UserError(f"--attention: {error}") from None
    if not any(alignment.maps for alignment in alignments):
        raise UserError("--attention: this model has no attention of layers and heads")
    clips = [
        AttentionClip(
            name=name,
            text=translation.text,
            alignment=AttentionMap(  # the report's, which is independent of models
                tokens=alignment.tokens,
                step_s=alignment.step_s,
                weights=alignment.weights,
                source=alignment.source,
                maps=alignment.maps,
            ),
            sequence=clip if isinstance(clip, LandmarkSequence) else None,
        )
        for (name, clip, translation), alignment in zip(attended, alignments, strict=True)
    ]
    title = f"Attention of {options.model.checkpoint}"
    write_file(options.attention, render_attention(title, clips))
    print(f"written: {options.attention}", file=sys.stderr)
