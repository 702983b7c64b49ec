"""What a person asks of `signloom translate`, read once; the model and the page that go with it."""

import argparse
import dataclasses
import gc
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.errors import UserError
from signloom.files import check_output, write_file
from signloom.translation.options import MAX_BEAMS, DecodingOptions
from signloom_tools.cli.arguments import choose_model, read_options, refuse_in_corpus

if TYPE_CHECKING:
    from signloom.features.sources import SourceSequence
    from signloom.translation.precision import Precision
    from signloom.translation.translator import Translation, Translator
    from signloom_tools.translate.inputs import ReadOptions

CAPTION_FORMATS = ("vtt", "srt", "eaf", "txt", "json")
MAX_ATTENTION = 20  # clips of a page, which stays small
_OF_CLIPS = {
    "paths": "PATH", "video": "--video", "font": "--font",
    "timing": "--timing", "write": "--write", "into": "--into", "pause": "--pause",
    "watch": "--watch", "signs": "--signs", "find": "--find",
    "hand_model": "--hand-model", "pose_model": "--pose-model", "fps": "--fps",
    "width": "--width", "height": "--height",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateOptions:
    """What is translated, with which model, and what is written of it."""

    paths: Sequence[Path]  # videos, landmark files and folders of them
    glosses: Sequence[str]  # lines, files of lines or `-` instead of them
    checkpoint: Path  # folder of the model
    precision: "Precision"  # of its weights
    together: bool  # ask the models of all its seeds
    decoding: Mapping[str, Any]
    """Options of the search that differ from the one that `evaluate` chose."""
    read: "ReadOptions"  # what the files do not say
    n_best: int  # translations of each clip
    skip_unsure: bool  # write nothing where the model is unsure
    guess: bool  # write also what the model makes of clips that it has seen nothing like
    signs: bool  # name the signs that were read
    find: Sequence[str]  # glosses whose signs are looked for, instead of all that were read
    json: bool  # print a JSON object a clip
    write: str | None  # format of captions; None: every clip is one sentence
    into: Path | None  # folder of the captions; None: beside each film
    watch: Path | None  # folder whose films get captions as they arrive
    pause_s: float | None
    """Cut films where the hands rest for so many seconds; None: as was learnt, or by a usual
    rest."""
    video: Path | None  # file or folder for clips with skeleton and subtitles
    attention: Path | None  # page of what each layer and head looks at
    overwrite: bool  # replace films and pages that exist
    font: Path | None  # of the subtitles
    timing: bool  # print what took how long


def read_translate_options(given: argparse.Namespace) -> TranslateOptions:
    """Return what a person asks for.

    Raises:
        UserError: If some of it does not go together, or names no model.
    """
    most = given.beam_size or MAX_BEAMS
    if not 1 <= given.n_best <= most:
        raise UserError(f"--n-best: found {given.n_best}, expected 1 to --beam-size ({most})")
    if given.guess and given.skip_unsure:
        raise UserError("--guess and --skip-unsure say opposite things; leave one out")
    model = choose_model(given)
    if given.glosses:
        _refuse_options_of_clips(given)
    elif not given.paths and not given.watch:
        raise UserError("give a PATH of videos or landmarks, or --glosses")
    else:
        _check_films(given)
    said = {field.name: getattr(given, field.name) for field in dataclasses.fields(DecodingOptions)}
    decoding = {**model.decoding, **{k: value for k, value in said.items() if value is not None}}
    return TranslateOptions(
        paths=given.paths, glosses=given.glosses or [], checkpoint=model.checkpoint,
        precision=given.precision or model.precision, together=given.together, decoding=decoding,
        read=read_options(given),
        n_best=given.n_best, skip_unsure=given.skip_unsure, guess=given.guess, signs=given.signs,
        find=given.find,
        json=given.json, write=given.write or (CAPTION_FORMATS[0] if given.watch else None),
        into=given.into, watch=given.watch, pause_s=given.pause, video=given.video,
        attention=given.attention, overwrite=given.overwrite, font=given.font, timing=given.timing,
    )  # fmt: skip


def _refuse_options_of_clips(given: argparse.Namespace) -> None:
    """Refuse what would be passed over in silence, all of it at once."""
    found = [
        flag
        for name, flag in _OF_CLIPS.items()
        if (value := getattr(given, name)) not in (None, "", []) and value is not False  # 0 is one
    ]
    if found:
        raise UserError(
            f"{', '.join(found)}: of videos and landmarks, without meaning for glosses; leave "
            "out this or --glosses"
        )


def _check_films(given: argparse.Namespace) -> None:
    """Refuse what does not go with captions of films, or has no meaning without them."""
    watch, video = given.watch, given.video
    if watch:
        if given.paths:
            raise UserError("--watch names the folder that is read; leave out the other PATHs")
        if video and (video.suffix or video.resolve().is_relative_to(watch.resolve())):
            raise UserError(
                f"--video {video}: with --watch, name a folder outside {watch}, which is read"
            )
    if has_captions := bool(watch or given.write):
        wrong = {"--json": given.json, "--attention": given.attention, "--n-best": given.n_best > 1}
    else:
        wrong = {"--into": given.into, "--pause": given.pause}
    if found := [name for name, value in wrong.items() if value]:
        raise UserError(
            f"{', '.join(found)}: {'not with' if has_captions else 'only with'} --write or --watch"
        )


def load_translator(options: TranslateOptions) -> "tuple[Translator, DecodingOptions]":
    """Load the model that the options name, and how it is to search."""
    gc.disable()  # an import makes no garbage, and the search for it takes a fifth of its time
    try:
        from signloom.translation.confidence import HINT, NOT_CALIBRATED
        from signloom.translation.translator import Translator

        translator = Translator.load(options.checkpoint, precision=options.precision)
    finally:
        gc.enable()
    if options.together and not translator.is_joint:
        translator = _ask_all_seeds(translator, options)
    if not translator.is_checked:
        hint = f"with evaluate.together {HINT}" if translator.is_joint else HINT
        lacking = f"there is no confidence.json of these weights{' together' * translator.is_joint}"
        if options.skip_unsure:
            raise UserError(f"--skip-unsure: {lacking}, so nothing says which are unsure; {hint}")
        print(
            f"warning: {NOT_CALIBRATED}: {lacking}, so nothing says how sure the translations are; "
            f"{hint}",
            file=sys.stderr,
        )
    if options.signs or options.find:
        from signloom.translation.signs import check_glosses

        check_glosses(translator, options.find)
    given = dict(options.decoding)
    if given.get("temperature") == 0:  # what cannot go with it was chosen, not given
        given = {"top_k": 0, "top_p": 1.0, **given}
    decoding = dataclasses.replace(translator.decoding, **given)
    if options.n_best > decoding.beam_size:  # which was chosen, too
        decoding = dataclasses.replace(decoding, beam_size=options.n_best)
    return translator, decoding


def _ask_all_seeds(translator: "Translator", options: TranslateOptions) -> "Translator":
    from signloom.evaluation.evaluate import load_seeds

    others = [one for _, one in load_seeds(options.checkpoint, options.precision)]
    if not others:
        raise UserError(
            f"--together: {options.checkpoint} has no seeds/, the models of further seeds; train "
            "with train.seeds: [1, 2, 3], or leave --together out"
        )
    return translator.with_seeds(others)


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
    found: "Sequence[tuple[str, SourceSequence, Translation]]",
) -> None:
    """Write the page of attention, if one is asked for and there is anything to show.

    Args:
        options: Of the command.
        translator: The model.
        found: Name, landmarks or glosses, and translation of each clip.
    """
    if options.attention is None or not found:
        return
    from signloom.corpus.landmarks import LandmarkSequence
    from signloom.report.attention import Alignment, AttentionClip, render_attention

    sequences, translations = [clip for _, clip, _ in found], [one for *_, one in found]
    try:
        alignments = translator.align(sequences, translations, every_head=True)
    except ValueError as error:  # the one it names: the decoder does not look at the source
        raise UserError(f"--attention: {error}") from None
    if not any(alignment.maps for alignment in alignments):
        raise UserError("--attention: this model has no attention of layers and heads")
    clips = [
        AttentionClip(
            name=name,
            text=translation.text,
            alignment=Alignment(  # the report's, which knows no model
                tokens=alignment.tokens, step_s=alignment.step_s, weights=alignment.weights,
                source=alignment.source, maps=alignment.maps,
            ),
            sequence=clip if isinstance(clip, LandmarkSequence) else None,
        )
        for (name, clip, translation), alignment in zip(found, alignments, strict=True)
    ]  # fmt: skip
    title = f"Attention of {options.checkpoint}"
    write_file(options.attention, render_attention(title, clips))
    print(f"written: {options.attention}", file=sys.stderr)
