"""Commands that translate with a model and export it."""

import argparse
import dataclasses
import gc
import json
import os
import re
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.cli.arguments import add_foreign, number_of, refuse_in_corpus
from signloom.config import Count, Positive
from signloom.errors import UserError
from signloom.files import check_output, write_file
from signloom.paths import CHECKPOINT
from signloom.translation.options import DECODING, MAX_BEAMS, DecodingOptions

if TYPE_CHECKING:
    from signloom.features.sources import SourceSequence
    from signloom.report.attention import Alignment as ShownAlignment
    from signloom.translation.translator import Alignment, Translation, Translator

MEANINGS = {
    "beam_size": "hypotheses followed at once; 1 is greedy",
    "length_penalty": "0 favours short translations",
    "max_tokens": "longest translation",
    "min_tokens": "shortest translation",
    "no_repeat_ngram": "no run of so many tokens twice; 0 allows every one",
    "temperature": "draw tokens instead: 1 as the model says, less is surer; 0 draws none",
    "top_k": "draw among so many best tokens; 0: among all",
    "top_p": "draw among the best tokens with this share together (nucleus)",
    "seed": "of what is drawn",
    "language": "to write in, for models of several; empty: the model chooses",
    "internal_lm_weight": "share of what the decoder expects without looking, subtracted",
}


CAPTION_FORMATS = ("vtt", "srt", "eaf", "txt", "json")
NOT_UNDERSTOOD_CODE = 3
MAX_ATTENTION = 20  # clips of a page, which stays small
CLIP_OPTIONS = {
    "paths": "PATH", "video": "--video", "font": "--font",
    "timing": "--timing", "write": "--write", "into": "--into", "pause": "--pause",
    "watch": "--watch", "signs": "--signs",
    "hand_model": "--hand-model", "pose_model": "--pose-model", "fps": "--fps",
    "width": "--width", "height": "--height",
}  # fmt: skip
# `lines.txt`, `folder/lines`; a line such as `HAUS LAUFEN/GEHEN` is none.
_LOOKS_LIKE_PATH = re.compile(r".*\.[A-Za-z]\w*|\S*[/\\]\S*")


def add_translate(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom translate`."""
    parser.description = (
        "Translate videos, landmark files, folders of them, or data/landmarks; "
        "docs/translation.md describes what is read and written. Exit code "
        f"{NOT_UNDERSTOOD_CODE} if a clip is not understood, 1 if one cannot be read."
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument(
        "--glosses", nargs="+", metavar="TEXT",
        help="glosses instead: a line of them, a file of lines, or - for standard input",
    )  # fmt: skip
    add_model_choice(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    parser.add_argument(
        "--n-best", type=number_of(Count), default=1, help="translations of each clip (%(default)s)"
    )
    parser.add_argument(
        "--skip-unsure", action="store_true",
        help="write nothing where the model is unsure or has seen nothing like the clip",
    )  # fmt: skip
    parser.add_argument(
        "--guess", action="store_true",
        help="write also what the model makes of clips that it has seen nothing like",
    )  # fmt: skip
    parser.add_argument(
        "--signs", action="store_true",
        help="name also the signs that were read, when and how sure; with --write eaf or json a "
        "tier of them",
    )  # fmt: skip
    films = parser.add_argument_group("captions of films")
    films.add_argument(
        "--write", choices=CAPTION_FORMATS,
        help="cut films into sentences and write these captions beside each",
    )  # fmt: skip
    films.add_argument("--into", type=Path, metavar="FOLDER", help="write captions there instead")
    films.add_argument(
        "--watch", type=Path, metavar="FOLDER",
        help="write captions (vtt) for what is in a folder and arrives there, until Ctrl-C",
    )  # fmt: skip
    films.add_argument(
        "--pause", type=number_of(Positive), metavar="S",
        help="cut where the hands rest for so many seconds, even if a segmenter was trained",
    )  # fmt: skip
    parser.add_argument(
        "--video",
        type=Path,
        metavar="OUT",
        help="write clips with skeleton and subtitles: a .webm file, or a folder of them; .mp4 "
        "works, too, but few browsers play its MPEG-4",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace films and pages that are there already"
    )
    parser.add_argument(
        "--attention", type=Path, metavar="OUT",
        help="write a page (.html) of what each layer and head looks at, for at most "
        f"{MAX_ATTENTION} clips or lines",
    )  # fmt: skip
    parser.add_argument("--font", type=Path, help="of the subtitles (default: DejaVu Sans)")
    parser.add_argument("--timing", action="store_true", help="print what took how long")
    _add_model_options(parser)
    parser.set_defaults(run=run_translate)


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
    search = parser.add_argument_group(
        "search and precision",
        "The search is the one that `evaluate` chose for these weights; in brackets what holds "
        "where there is none.",
    )
    kinds = typing.get_type_hints(DecodingOptions, include_extras=True)
    for name, value in dataclasses.asdict(DECODING).items():
        flag, meaning = f"--{name.replace('_', '-')}", f"{MEANINGS[name]} ({value})"
        kind = str if kinds[name] is str else number_of(kinds[name])
        search.add_argument(flag, type=kind, help=meaning)
    search.add_argument(
        "--precision", choices=("float32", "bfloat16", "int8"), help="of the weights (float32)"
    )
    found = parser.add_argument_group("what the files do not have")
    add_unsaid(found)


def add_unsaid(group: Any) -> None:
    """Let a person say what neither clips nor the checkpoint have."""
    for part in ("hand", "pose"):
        group.add_argument(
            f"--{part}-model",
            default="",
            metavar="TASK",
            help=f"the {part}_landmarker .task file that the model was trained with, if any",
        )
    add_foreign(group, fps=" (of pictures, too)")


def run_translate(options: argparse.Namespace) -> None:
    """Translate everything, name what cannot be read, with an exit code that tells it."""
    most = options.beam_size or MAX_BEAMS
    if not 1 <= options.n_best <= most:
        raise UserError(f"--n-best: found {options.n_best}, expected 1 to --beam-size ({most})")
    if options.guess and options.skip_unsure:
        raise UserError("--guess and --skip-unsure say opposite things; leave one out")
    choose_model(options)
    if options.glosses:
        translate_glosses(options)
        return
    _check_films(options)
    if not options.paths and not options.watch:
        raise UserError("give a PATH of videos or landmarks, or --glosses")
    from signloom.cli.translate_clips import translate_clips

    translate_clips(options)


def _check_films(options: argparse.Namespace) -> None:
    """Refuse what does not go with captions of films, or has no meaning without them.

    Raises:
        UserError: Naming what was found.
    """
    watch, video = options.watch, options.video
    if watch:
        options.write = options.write or CAPTION_FORMATS[0]
        if options.paths:
            raise UserError("--watch names the folder that is read; leave out the other PATHs")
        if video and (video.suffix or video.resolve().is_relative_to(watch.resolve())):
            raise UserError(
                f"--video {video}: with --watch, name a folder outside {watch}, which is read"
            )
    if options.write:
        wrong = {"--json": options.json, "--attention": options.attention,
                 "--n-best": options.n_best > 1}  # fmt: skip
    else:
        wrong = {"--into": options.into, "--pause": options.pause}
    if found := [name for name, value in wrong.items() if value]:
        raise UserError(
            f"{', '.join(found)}: {'not with' if options.write else 'only with'} --write or --watch"
        )


def choose_model(options: argparse.Namespace) -> None:
    """Turn a version's name into its folder, and take its search where no option says otherwise."""
    from signloom.versions import Versions

    search: dict[str, Any] = {"precision": "float32"}
    if options.model is not None:
        versions = Versions()
        version = versions.resolve(options.model)
        found = versions.search_options(version)
        options.checkpoint = versions.checkpoint(version)
        search = {**found["decoding"], "precision": found["precision"]}
    for name, value in search.items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)


def load_translator(options: argparse.Namespace) -> "tuple[Translator, DecodingOptions]":
    """Load the model that the options name, and how it is to search."""
    gc.disable()  # an import makes no garbage, and the search for it takes a fifth of its time
    try:
        from signloom.translation.confidence import HINT, NOT_CALIBRATED
        from signloom.translation.translator import Translator

        translator = Translator.load(options.checkpoint, precision=options.precision)
    finally:
        gc.enable()
    if translator.confidence is None and not options.skip_unsure:  # which is refused
        print(
            f"warning: {NOT_CALIBRATED}: there is no confidence.json of these weights, so nothing "
            f"says how sure the translations are; {HINT}",
            file=sys.stderr,
        )
    names = [field.name for field in dataclasses.fields(DecodingOptions)]
    given = {name: getattr(options, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    if options.temperature == 0:  # what cannot go with it was chosen, not given
        given = {"top_k": 0, "top_p": 1.0, **given}
    decoding = dataclasses.replace(translator.decoding, **given)
    if options.n_best > decoding.beam_size:  # which was chosen, too
        decoding = dataclasses.replace(decoding, beam_size=options.n_best)
    return translator, decoding


def translate_glosses(options: argparse.Namespace) -> None:
    """Print the translations of each line, in order; an empty line gives an empty one.

    Raises:
        UserError: If the checkpoint was not trained on glosses, or nothing is given.
    """
    _refuse_options_of_clips(options)
    lines = read_lines(options.glosses)
    translator, decoding = load_translator(options)
    from signloom.features.sources import GlossSource

    reads = translator.source
    if not isinstance(reads, GlossSource):
        raise UserError(
            f"{options.checkpoint} was trained on landmarks, not on glosses (model.source: tokens)"
        )
    sources = [reads.vocabulary.encode(line) for line in lines]
    inputs = [Path(one) for one in options.glosses if os.path.isfile(one)]  # noqa: PTH113 (lines, too)
    check_attention(options, sum(1 for source in sources if len(source.ids)), inputs)
    filled = [source for source in sources if len(source.ids)]
    found = translator.translate(
        filled, decoding, n_best=options.n_best, skip_unsure=options.skip_unsure
    )
    if options.attention:
        pairs = list(zip(filled, found, strict=True))
        clips = [(" ".join(source.glosses), source, one) for source, one in pairs]
        write_attention(options, translator, clips)
    translations = iter(found)
    for source in sources:
        best = next(translations) if len(source.ids) else None
        every = [best, *best.alternatives] if best else []
        if options.json:
            rows = [
                {
                    "text": one.text,
                    "score": one.hypothesis.score,
                    "log_prob": one.hypothesis.log_prob,
                }
                for one in every
            ]
            first = {**rows[0], **best.check.to_map()} if best else {"text": ""}
            content = {
                "glosses": source.glosses, "unknown": source.unknown, **first,
                "alternatives": rows[1:],
            }  # fmt: skip
            print(json.dumps(content, ensure_ascii=False))
            continue
        for one in every:
            score = f"{one.hypothesis.score:.4f}\t" if options.n_best > 1 else ""
            word = f"\t{one.check.word}" if one.check.word else ""
            print(score + " ".join(one.text.split()) + word)
        if not every:
            print()
    _warn_of_unknown([name for source in sources for name in source.unknown], len(filled))


def _refuse_options_of_clips(options: argparse.Namespace) -> None:
    """Refuse what would be passed over in silence, all of it at once."""
    given = {flag: getattr(options, name) for name, flag in CLIP_OPTIONS.items()}
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


def check_attention(options: argparse.Namespace, clips: int, inputs: Sequence[Path] = ()) -> None:
    """Refuse a page that would be too large, has another name or is there already.

    Raises:
        UserError: Naming what was found and what to do.
    """
    out: Path | None = options.attention
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
    options: argparse.Namespace,
    translator: "Translator",
    found: "Sequence[tuple[str, SourceSequence, Translation]]",
) -> None:
    """Write the page of attention.

    Args:
        options: Of the command.
        translator: The model.
        found: Name, landmarks or glosses, and translation of each clip.
    """
    from signloom.corpus.landmarks import LandmarkSequence
    from signloom.report.attention import AttentionClip, render_attention

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
            alignment=show_alignment(alignment),
            sequence=clip if isinstance(clip, LandmarkSequence) else None,
        )
        for (name, clip, translation), alignment in zip(found, alignments, strict=True)
    ]
    title = f"Attention of {options.checkpoint}"
    write_file(options.attention, render_attention(title, clips))
    print(f"written: {options.attention}", file=sys.stderr)


def show_alignment(alignment: "Alignment") -> "ShownAlignment":
    """Return an alignment as the report draws it, which knows no model."""
    from signloom.report.attention import Alignment as ShownAlignment

    return ShownAlignment(
        tokens=alignment.tokens,
        step_s=alignment.step_s,
        weights=alignment.weights,
        source=alignment.source,
        maps=alignment.maps,
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


def _warn_of_unknown(unknown: Sequence[str], lines: int) -> None:
    """Name the glosses that the model has never seen: what it makes of them is a guess."""
    if not unknown:
        return
    names = list(dict.fromkeys(unknown))
    some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    found = f"{len(unknown)} glosses of {lines} line{'s' * (lines > 1)}"
    print(f"warning: {found} never occurred in train: {some}", file=sys.stderr)


def add_export_model(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom export-model`."""
    parser.description = (
        "Write a checkpoint in another form; docs/translation.md shows how it is used."
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--format", choices=("onnx", "mlflow"), required=True)
    add_model_choice(parser)
    parser.set_defaults(run=run_export_model)


def run_export_model(options: argparse.Namespace) -> None:
    """Write the model."""
    choose_model(options)
    refuse_in_corpus(options.folder)
    if options.format == "mlflow":
        from signloom.translation.serving import save_served_model

        save_served_model(options.checkpoint, options.folder)
        serve = f"mlflow models serve -m {options.folder} --env-manager local"
        print(f"{options.folder}: try `{serve}`", file=sys.stderr)
        return
    import torch

    from signloom.checkpoint import load_checkpoint
    from signloom.files import check_output_folder
    from signloom.translation.onnx_export import FILES, export_onnx

    check_output_folder(options.folder, [options.checkpoint], FILES)
    worst = export_onnx(load_checkpoint(options.checkpoint, torch.device("cpu")), options.folder)
    print(
        f"{options.folder}: encoder and decoder step; ONNX Runtime differs from PyTorch by at "
        f"most {worst:.1g}",
        file=sys.stderr,
    )
