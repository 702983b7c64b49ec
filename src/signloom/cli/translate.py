"""`signloom translate`: videos come in, their sentences are printed."""

import argparse
import json
import sys
from pathlib import Path

from signloom.config import UserError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("translate", help="print the sentence of new videos")
    parser.add_argument("videos", nargs="+", type=Path, metavar="VIDEO")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("data/checkpoint"),
        help="model folder (default: %(default)s)",
    )
    parser.add_argument(
        "--beam-size", type=int, default=4, help="hypotheses kept; 1 is greedy (%(default)s)"
    )
    parser.add_argument(
        "--length-penalty", type=float, default=1.0, help="0 favours short ones (%(default)s)"
    )
    parser.add_argument(
        "--max-tokens", type=int, default=128, help="longest translation (%(default)s)"
    )
    for part in ("hand", "pose"):
        parser.add_argument(
            f"--{part}-model",
            default="",
            metavar="TASK",
            help=f"the {part}_landmarker .task file that the model was trained with, if any",
        )
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Extract the landmarks of each video and print its translation."""
    from signloom.corpus.extract import extract_video, options_of_fingerprint
    from signloom.corpus.video import VideoError
    from signloom.decoding import DecodingOptions
    from signloom.translator import Translator

    try:
        decoding = DecodingOptions(
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            max_tokens=options.max_tokens,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    translator = Translator.load(options.checkpoint)
    extraction = options_of_fingerprint(
        translator.spec.extractor, options.hand_model, options.pose_model
    )
    failed = 0
    for video in options.videos:
        try:
            if not video.is_file():
                raise VideoError("there is no such file", "check the path")
            sequence = extract_video(video, extraction)
        except VideoError as error:
            failed += 1
            print(f"error: {video}: {error}", file=sys.stderr)
            continue
        if not sequence.present.any():
            print(f"warning: {video}: no hand and no body was found in it", file=sys.stderr)
        (translation,) = translator.translate([sequence], decoding)
        if options.json:
            content = {
                "video": str(video),
                "text": translation.text,
                "log_prob": translation.hypothesis.log_prob,
                "score": translation.hypothesis.score,
                "frames": len(sequence.points),
            }
            print(json.dumps(content, ensure_ascii=False))
        elif len(options.videos) > 1:
            print(f"{video}\t{translation.text}")
        else:
            print(translation.text)
    if failed:
        raise UserError(f"{failed} of {len(options.videos)} videos could not be read")
