"""The command that looks a sign up."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import Count
from signloom.errors import UserError, readable_name
from signloom_tools.cli.model_choice import ModelChoice
from signloom_tools.cli.translate_clips import warn_of_demo
from signloom_tools.command_options import argument, group, option
from signloom_tools.importing.options import ReadOptions
from signloom_tools.translate.inputs import ClipReader, GivenClip, find_clips

MORE_SIGNS = "signloom.signs"  # entry points: further indexes, such as the app's recordings

if TYPE_CHECKING:
    from signloom.translation.confidence import Check
    from signloom.translation.lookup import NearSign


@dataclass(frozen=True, kw_only=True)
class LookupOptions:
    """Find the known signs that are nearest to a clip.

    Known are the clips of train, and the app's recordings that have a text. A PATH is as for
    `signloom translate`. docs/translation.md
    """

    paths: Sequence[Path] = argument("file or folder", "PATH")
    k: Count = option("signs", 5, flag="-k")
    json: bool = option("print a JSON object a clip", False)
    choice: ModelChoice = group(ModelChoice, exclusive=True)
    read: ReadOptions = group(ReadOptions, "what the files do not say")


def run_lookup(options: LookupOptions) -> None:
    """Print the nearest signs of each clip; name what cannot be read.

    Raises:
        UserError: If anything cannot be read, or the model or its index is not there.
    """
    checkpoint = options.choice.find().checkpoint
    from signloom.translation.confidence import NOT_CHECKED
    from signloom.translation.lookup import find_nearest, open_index
    from signloom.translation.translator import Translator

    translator = Translator.load(checkpoint)
    warn_of_demo(checkpoint, options.paths)
    index = open_index(translator, checkpoint)
    further = entry_points(group=MORE_SIGNS)
    indexes = [index, *(entry.load()(translator, checkpoint, index) for entry in further)]
    source = translator.source.landmarks(checkpoint)
    reader, failed = ClipReader(source.extractor, options.read), 0
    for path in find_clips(options.paths, source.extractor):
        for clip in reader.read(path, source.layout):
            if isinstance(clip, GivenClip):
                signs = find_nearest(
                    indexes, translator.encode_signs([clip.sequence])[0], options.k
                )
                # The model was never taught what was recorded since.
                is_recorded = bool(signs) and signs[0].is_recording
                unlike = None if is_recorded else translator.differences(clip.sequence)
                _print(clip, signs, replace(NOT_CHECKED, unlike=unlike), as_json=options.json)
            else:
                failed += 1
                print(f"error: {clip.name}: {clip.problem}", file=sys.stderr)
    if failed:
        raise UserError(f"not looked up: {failed} of the clips, see above")


def _print(clip: GivenClip, signs: "list[NearSign]", check: "Check", *, as_json: bool) -> None:
    if as_json:
        origin = {"source": str(clip.source), "clip_id": clip.clip_id}
        familiar = None if check.unlike is None else not check.unlike
        content = {**origin, "familiar": familiar, "signs": [asdict(sign) for sign in signs]}
        print(json.dumps(content, ensure_ascii=False))
        return
    name = readable_name(clip.source if clip.is_video else f"{clip.source}: {clip.clip_id}")
    print(f"{name}\t{check.note}" if check.unlike else name)
    for sign in signs:
        where = "recorded in the app" if sign.is_recording else sign.clip_id
        print(f"  {sign.similarity:.2f}\t{sign.text}\t{where}")
