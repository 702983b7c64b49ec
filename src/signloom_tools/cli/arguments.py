"""Options that several commands have, and the guards before something is lost for good."""

import argparse
import contextlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.config import MEMORY_MB, Count, FrameRate, Share, Side, load_params, parse_number
from signloom.corpus.manifest import is_manifest
from signloom.errors import UserError
from signloom.paths import CHECKPOINT, PARAMS

if TYPE_CHECKING:
    from signloom_tools.importing.captions import Choice, CueRules
    from signloom_tools.importing.foreign import SourceDefaults
    from signloom_tools.translate.inputs import ReadOptions
    from signloom_tools.versions import NamedModel


def add_params(parser: argparse.ArgumentParser) -> None:
    """Let the parameters file be named."""
    parser.add_argument(
        "--params", type=Path, default=PARAMS, help="file of parameters (%(default)s)"
    )


def add_path(parser: argparse.ArgumentParser, name: str, default: Path, meaning: str) -> None:
    """Add an option with a path that is usually left at its default."""
    parser.add_argument(name, type=Path, default=default, help=f"{meaning} (default: %(default)s)")


def add_numbers(parser: Any, *rows: tuple[str, Any, float | None, str]) -> None:
    """Add options that are numbers: flag, type with its range, default, and meaning."""
    for flag, kind, default, meaning in rows:
        text = meaning if default is None else f"{meaning} (%(default)s)"
        parser.add_argument(flag, type=number_of(kind), default=default, help=text)


def add_foreign(parser: Any, *, fps: str = "") -> None:
    """Let a person say what landmark files of others do not; see `source_defaults`.

    Args:
        parser: Of the command.
        fps: What else the frame rate is of.
    """
    lacking = "where the source does not have it"
    add_numbers(
        parser,
        ("--fps", FrameRate, None, f"frames a second{fps}, {lacking}"),
        ("--width", Side, None, f"pixels of the picture, {lacking}"),
        ("--height", Side, None, f"pixels of the picture, {lacking}"),
        ("--min-score", Share, None, "least median score of the points of a part that is there "
         "(0.3)"),
        ("--memory-mb", Count, MEMORY_MB, "most that the numbers of one landmark file may take, "
         "10^6 bytes"),
    )  # fmt: skip
    parser.add_argument(
        "--keys", nargs="+", default=[], metavar="OURS=THEIRS",
        help="what the source calls left_hand, right_hand, pose, face, keypoints, scores, fps, "
        "...; fps=info.rate is what its info calls rate",
    )  # fmt: skip
    parser.add_argument(
        "--rates", type=Path, metavar="TABLE",
        help="landmark files of several rates: a row a file, columns file, fps, width, height",
    )  # fmt: skip
    parser.add_argument(
        "--allow-outside", action="store_true", help="hands outside of the picture are right"
    )
    parser.add_argument(
        "--allow-pickle", action="store_true", help="read pickles: their numbers, never their code"
    )


def add_unsaid(group: Any) -> None:
    """Let a person say what neither clips nor the checkpoint have; see `read_options`."""
    for part in ("hand", "pose"):
        group.add_argument(
            f"--{part}-model",
            default="",
            metavar="TASK",
            help=f"the {part}_landmarker .task file that the model was trained with, if any",
        )
    add_foreign(group, fps=" (of pictures, too)")


def add_model_choice(parser: argparse.ArgumentParser) -> None:
    """Let a model be named by its folder or as a version; see `choose_model`."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--checkpoint", type=Path, default=CHECKPOINT, help="model folder (default: %(default)s)"
    )
    choice.add_argument(
        "--model",
        metavar="VERSION",
        help="champion, challenger or the number of a version of the model instead; it searches "
        "as it did when it was judged; see `signloom champion`",
    )


def choose_model(options: argparse.Namespace) -> "NamedModel":
    """Return the model that `add_model_choice` was told.

    Raises:
        UserError: If there is no such version.
    """
    from signloom_tools.versions import NamedModel, find_version

    if options.model is None:
        return NamedModel(options.checkpoint)
    return find_version(options.model)


def add_captions(parser: argparse.ArgumentParser) -> None:
    """Say what to take of captions, and how cues become clips."""
    group = parser.add_argument_group("captions")
    group.add_argument("--tier", default="", metavar="NAME", help="the sentences in ELAN; may "
                       "have *; in .ass files the style")  # fmt: skip
    group.add_argument("--gloss-tier", default="", metavar="NAME", help="the glosses in ELAN")
    group.add_argument("--signer-tier", default="", metavar="NAME", help="the signer in ELAN, "
                       "where no participant is named")  # fmt: skip
    group.add_argument("--language", default="", metavar="CODE", help="take these captions only")
    for flag, default, meaning in (
        ("--shift", 0.0, "move all cues by so many seconds"),
        ("--padding", 0.0, "widen each cue by so many seconds, into pauses only"),
        ("--least", 0.0, "leave out shorter cues, seconds"),
        ("--most", math.inf, "leave out longer cues, seconds"),
        ("--join-cues", None, "join a cue that ends no sentence with the next, if at most so "
         "many seconds lie between"),
    ):  # fmt: skip
        group.add_argument(flag, type=float, default=default, metavar="S", help=meaning)


def read_caption_options(options: argparse.Namespace) -> "tuple[Choice, CueRules]":
    """Return what `add_captions` was told.

    Raises:
        UserError: If a number is none.
    """
    from signloom_tools.importing.captions import Choice, CueRules

    choice = Choice(
        tier=options.tier, gloss_tier=options.gloss_tier, signer_tier=options.signer_tier,
        language=options.language,
    )  # fmt: skip
    numbers = (options.shift, options.padding, options.least, options.join_cues or 0.0)
    if not all(map(math.isfinite, numbers)) or min(numbers[1:]) < 0 or not options.most > 0:
        raise UserError("--shift, --padding, --least, --most and --join-cues are seconds")
    return choice, CueRules(
        shift_s=options.shift, padding_s=options.padding, min_s=options.least,
        max_s=options.most, join_s=options.join_cues,
    )  # fmt: skip


def source_defaults(options: argparse.Namespace) -> "SourceDefaults":
    """Return what a person said by the options of `add_foreign`."""
    from signloom_tools.importing.foreign import MIN_SCORE, SourceDefaults
    from signloom_tools.importing.user_tables import read_pairs, read_rates

    return SourceDefaults(
        fps=options.fps, width=options.width, height=options.height, memory_mb=options.memory_mb,
        keys=read_pairs(options.keys, "--keys"),
        rates=read_rates(options.rates) if options.rates else {},
        min_score=MIN_SCORE if options.min_score is None else options.min_score,
        allow_outside=options.allow_outside, allow_pickle=options.allow_pickle,
    )  # fmt: skip


def read_options(options: argparse.Namespace) -> "ReadOptions":
    """Return what a person said by the options of `add_unsaid`."""
    from signloom_tools.translate.inputs import ReadOptions

    return ReadOptions(
        hand_model=options.hand_model, pose_model=options.pose_model,
        defaults=source_defaults(options),
    )  # fmt: skip


def number_of(kind: Any) -> Callable[[str], Any]:
    """Return the `type` of an option that is a number of a type with a range."""

    def read(text: str) -> Any:
        try:
            return parse_number(text, kind)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def add_removal(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that removes something for good."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def refuse_in_corpus(path: Path) -> None:
    """Refuse to write into a corpus, of which DVC watches every file.

    Raises:
        UserError: If the path lies in the project's, or in a folder with a manifest of ours.
    """
    corpus = None
    with contextlib.suppress(UserError, AttributeError, KeyError, TypeError):
        corpus = Path(load_params(PARAMS)["corpus"]["folder"]).resolve()
    target = path.resolve()
    for folder in (target, *target.parents):
        manifest = folder / "manifest.tsv"
        if folder == corpus or (
            manifest.is_file()
            and is_manifest(manifest.read_text(encoding="utf-8", errors="replace"))
        ):
            raise UserError(f"{path} lies in the corpus {folder}: name another path")


def confirm(question: str, answer: str) -> None:
    """Ask a person, and go on only if the answer is typed.

    Raises:
        UserError: If something else is typed, or nobody is there to be asked.
    """
    if not sys.stdin.isatty():
        raise UserError(
            "nothing was removed: give --yes where nobody can be asked, or --dry-run to see what "
            "would be removed"
        )
    if input(f"{question} Type {answer} to go on: ").strip() != answer:
        raise UserError("nothing was removed: another answer was typed")
