"""The command that looks a sign up."""

import argparse
import json
import sys
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import Count
from signloom.errors import UserError, readable_name
from signloom_tools.cli.arguments import (
    add_model_choice,
    add_numbers,
    add_unsaid,
    choose_model,
    read_options,
)

MORE_SIGNS = "signloom.signs"  # entry points: further indexes, such as the app's recordings

if TYPE_CHECKING:
    from signloom.translation.lookup import NearSign
    from signloom_tools.translate.inputs import GivenClip


def add_lookup(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom lookup`."""
    parser.description = (
        "Find the known signs that are nearest to a clip: clips of train, and the app's recordings "
        "that have a text. A PATH is what `signloom translate` reads. docs/translation.md"
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
    add_numbers(parser, ("-k", Count, 5, "signs"))
    parser.add_argument("--json", action="store_true", help="a JSON object a clip")
    add_model_choice(parser)
    add_unsaid(parser.add_argument_group("what the files do not have"))
    parser.set_defaults(run=run_lookup)


def run_lookup(options: argparse.Namespace) -> None:
    """Print the nearest signs of each clip; name what cannot be read.

    Raises:
        UserError: If anything cannot be read, or the model or its index is not there.
    """
    checkpoint = choose_model(options).checkpoint
    from signloom.translation.lookup import find_nearest, open_index
    from signloom.translation.translator import Translator
    from signloom_tools.translate.inputs import ClipReader, GivenClip, find_clips

    translator = Translator.load(checkpoint)
    index = open_index(translator, checkpoint)
    indexes = [index]
    for more in entry_points(group=MORE_SIGNS):
        indexes.append(more.load()(translator, checkpoint, index))
    source = translator.source.landmarks(checkpoint)
    reader, failed = ClipReader(source.extractor, read_options(options)), 0
    for path in find_clips(options.paths, source.extractor):
        for clip in reader.read(path, source.layout):
            if isinstance(clip, GivenClip):
                encoding = translator.encode_signs([clip.sequence])[0]
                signs = find_nearest(indexes, encoding, options.k)
                _print(clip, signs, as_json=options.json)
            else:
                failed += 1
                print(f"error: {clip.name}: {clip.problem}", file=sys.stderr)
    if failed:
        raise UserError(f"not looked up: {failed} of the clips, see above")


def _print(clip: "GivenClip", signs: "list[NearSign]", *, as_json: bool) -> None:
    if as_json:
        found = {"source": str(clip.source), "clip_id": clip.clip_id}
        content = {**found, "signs": [asdict(sign) for sign in signs]}
        print(json.dumps(content, ensure_ascii=False))
        return
    print(readable_name(clip.source if clip.is_video else f"{clip.source}: {clip.clip_id}"))
    for sign in signs:
        where = "recorded in the app" if sign.is_recording else sign.clip_id
        print(f"  {sign.similarity:.2f}\t{sign.text}\t{where}")
