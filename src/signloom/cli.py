"""What a person asks for at the prompt: a translation, the scores, a search's winner adopted."""

import argparse
import difflib
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from signloom.config import UserError, read_json, update_params

CHECKPOINT = Path("data/checkpoint")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `signloom`; a user's mistake ends in its message and exit code 1."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    parser = argparse.ArgumentParser(
        prog="signloom",
        description="Signing videos and their sentences in, a trained, scored translation model "
        "out. The pipeline itself runs with `dvc repro`.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    translate = commands.add_parser("translate", help="print the sentence of new videos")
    translate.add_argument("videos", nargs="+", type=Path, metavar="VIDEO")
    translate.add_argument(
        "--checkpoint", type=Path, default=CHECKPOINT, help="model folder (default: %(default)s)"
    )
    translate.add_argument(
        "--beam-size", type=int, default=4, help="hypotheses kept; 1 is greedy (%(default)s)"
    )
    translate.add_argument(
        "--length-penalty", type=float, default=1.0, help="0 favours short ones (%(default)s)"
    )
    translate.add_argument(
        "--max-tokens", type=int, default=128, help="longest translation (%(default)s)"
    )
    translate.add_argument("--json", action="store_true", help="a JSON object a line instead")
    translate.set_defaults(run=run_translate)

    scores = commands.add_parser("scores", help="print the last evaluation beside its floors")
    scores.add_argument("--metrics", type=Path, default=Path("reports/metrics.json"))
    scores.set_defaults(run=run_scores)

    adopt = commands.add_parser("adopt", help="write the search's winner into params.yaml")
    adopt.add_argument("--best", type=Path, default=Path("reports/tune/best.json"))
    adopt.add_argument("--params", type=Path, default=Path("params.yaml"))
    adopt.set_defaults(run=run_adopt)
    return parser


def run_translate(options: argparse.Namespace) -> None:
    """Extract the landmarks of each video and print its translation."""
    # Here, because torch and mediapipe take seconds to load and `--help` should not.
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
    extraction = options_of_fingerprint(translator.spec.extractor)
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


def run_scores(options: argparse.Namespace) -> None:
    """Print the scores of each split, what they must be compared with, and where to look."""
    metrics = read_json(options.metrics, mend="run `dvc repro evaluate` first")
    for split, found in metrics.items():
        print(format_scores(split, found))
    print("report:  open reports/index.html in a browser")
    # MLflow's own front page shows GenAI traces, of which there are none.
    print("runs:    make ui, then http://127.0.0.1:5000 > Experiments > Model training")


def format_scores(split: str, scores: dict[str, Any]) -> str:
    """Return a split's scores as a small table."""

    def line(name: str, key: str, *floors: tuple[str, str]) -> str:
        beside = ", ".join(f"{label} {scores[floor]:.2f}" for label, floor in floors)
        interval = f"[{scores[f'{key}_low']:.2f}, {scores[f'{key}_high']:.2f}]"
        return f"  {name:<8}{scores[key]:>7.2f}  {interval:<17}" + (beside and f"  {beside}")

    floors = (
        ("best constant sentence", "floor_bleu4"),
        ("nearest clip", "retrieval_bleu4"),
        ("blind", "blind_bleu4"),
    )
    return "\n".join(
        (
            f"{split}: {scores['clips']} clips, 95 % intervals",
            line("BLEU-4", "bleu4", *floors),
            line("BLEU-1", "bleu1"),
            line("chrF", "chrf"),
            line("WER %", "wer"),
            line("CER %", "cer"),
            f"  {scores['signature']}\n",
        )
    )


def run_adopt(options: argparse.Namespace) -> None:
    """Write the winner of the last search into the parameters and print the difference."""
    best = read_json(options.best, mend="run `dvc repro tune` first")
    before, after = update_params(options.params, best["overrides"])
    if before == after:
        print(f"{options.params} has the winner's values already")
        return
    name = str(options.params)
    difference = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    print("".join(difference), end="")
    print(f"review and commit {name}, then `dvc repro evaluate` trains and scores with it")
