"""What a person says of files of others, as options of commands: landmark files and captions."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from signloom.config import (
    MEMORY_MB,
    Count,
    FrameRate,
    NonNegative,
    Positive,
    Share,
    Side,
    checked_dataclass,
)
from signloom.corpus.manifest import VIDEO_SUFFIXES, parse_box
from signloom.detection.video import Box
from signloom.errors import UserError
from signloom_tools.command_options import group, option
from signloom_tools.importing.cells import read_box
from signloom_tools.importing.file_names import without_ending
from signloom_tools.importing.user_tables import read_rates

MIN_SCORE = 0.3
CROWDED = "it shows several people; --crop W:H:X:Y reads one of them"
PATTERN_FIELDS = ("text", "signer", "split", "clip")


@checked_dataclass
class SourceDefaults:
    """What a person says of landmark files: first what to take where they do not say it."""

    fps: FrameRate | None = option(
        "frames a second where the files do not say it; of start_frame and pictures, too", None
    )
    width: Side | None = option("pixels of the picture where the files do not say it", None)
    height: Side | None = option("likewise", None)
    keys: dict[str, str] = option(
        "names in the files of left_hand, right_hand, pose, face, keypoints, scores, fps, ...; "
        "fps=info.rate is `rate` in the map, record or list `info`",
        {},
        metavar="OURS=THEIRS",
    )
    rates: dict[str, dict[str, float]] = option(
        "landmark files of several rates: a row a file, columns file, fps, width, height",
        {},
        type=Path,
        nargs=None,
        action="store",
        metavar="TABLE",
        read=read_rates,
    )
    min_score: Share = option("least median score of the points of a part that is there", MIN_SCORE)
    allow_outside: bool = option("accept hands outside of the picture", False)
    allow_pickle: bool = option("read the numbers of pickles; their code is never run", False)
    # A file of some megabytes may unpack to more than any machine has.
    memory_mb: Count = option(
        "most memory that the numbers of one file may take, 10^6 bytes", MEMORY_MB
    )


def compile_pattern(text: str) -> re.Pattern[str]:
    """Turn `{split}/{text}/{signer}_{clip}.npy` into an expression for paths without ending.

    Raises:
        UserError: If a field is unknown or there twice.
    """
    is_film = PurePosixPath(text).suffix.lower() in VIDEO_SUFFIXES
    plain = text[: text.rindex(".")] if is_film else without_ending(text)
    parts = re.split(r"\{(.*?)\}", unicodedata.normalize("NFC", plain))
    names = parts[1::2]
    if not names or set(names) - set(PATTERN_FIELDS) or len(set(names)) < len(names):
        raise UserError(
            f"--pattern: found {', '.join(names) or 'no field'}, expected some of "
            f"{', '.join(f'{{{name}}}' for name in PATTERN_FIELDS)}, each once"
        )
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>[^/]+?)" for name in names]
    return re.compile("".join(parts))


def read_crop(text: str) -> Box:
    """Turn what `--crop` says into a box.

    Raises:
        UserError: If it is none.
    """
    if (box := parse_box(read_box(text))) is None:
        raise UserError(
            f"--crop: found {text!r}, expected WIDTH:HEIGHT:LEFT:TOP, as for FFmpeg's crop, or "
            "LEFT,TOP,RIGHT,BOTTOM; in pixels, or all of them up to 1 as shares of the picture"
        )
    return box


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """How landmark files become clips."""

    format: Literal["auto", "pose", "kaggle", "numpy", "keypoints", "features"] = option(
        "of the files; auto: by their endings", "auto"
    )
    groups: Sequence[str] | None = option(
        "of hands, pose, lips, face_outline, brows, eyes, gaze (default: hands, and pose if the "
        "first clip has it)",
        None,
        metavar="GROUP",
    )
    pattern: re.Pattern[str] | None = option(
        "fields in the paths of landmark files or videos, as in {split}/{text}/{signer}_{clip}",
        None,
        metavar="PATH",
        type=str,
        read=compile_pattern,
    )
    detector: Literal["", "hands", "hands+pose", "holistic"] = option(
        "which of MediaPipe's solutions found these landmarks; a model of them then also reads "
        "films and cameras, by the same detector (holistic for MP_Data)",
        "",
        choices=("hands", "hands+pose", "holistic"),
    )
    defaults: SourceDefaults = group(SourceDefaults, "what the files do not say")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to take of a caption file that holds more than one kind of line."""

    tier: str = option(
        "tiers of ELAN with the sentences, such as Satz_*; default: our own or the only one",
        "",
        metavar="NAME",
    )
    gloss_tier: str = option("tiers of ELAN with the glosses", "", metavar="NAME")
    signer_tier: str = option(
        "tiers of ELAN with the signer (default: the participant)", "", metavar="NAME"
    )
    language: str = option("take captions of this language only", "", metavar="CODE")


@dataclass(frozen=True, slots=True, kw_only=True)
class CueRules:
    """How cues become clips."""

    shift_s: float = option("move all cues by S seconds", 0.0, flag="--shift", metavar="S")
    padding_s: NonNegative = option(
        "widen each cue by S seconds, at most to the middle of the pause there",
        0.0,
        flag="--padding",
        metavar="S",
    )
    min_s: NonNegative = option(
        "omit cues shorter than S seconds", 0.0, flag="--least", metavar="S"
    )
    max_s: Positive = option(
        "omit cues longer than S seconds", math.inf, flag="--most", metavar="S"
    )
    join_s: NonNegative | None = option(
        "join a cue that ends no sentence with the next one after a pause of at most S seconds",
        None,
        flag="--join-cues",
        metavar="S",
    )


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """What to take of captions, and how cues become clips."""

    choice: Choice = group(Choice)
    rules: CueRules = group(CueRules)


@dataclass(frozen=True, kw_only=True)
class CropOption:
    """What of films is read."""

    crop: Box | None = option(
        "read this part of the picture alone, as of an interpreter in a corner: pixels as for "
        "FFmpeg's crop, or shares (0.5:1:0.5:0 is the right half)",
        None,
        metavar="W:H:X:Y",
        type=str,
        read=read_crop,
    )


@dataclass(frozen=True, kw_only=True)
class ReadOptions(CropOption):
    """What files that are given to a model do not say."""

    defaults: SourceDefaults = group(
        SourceDefaults,
        only=("fps", "width", "height", "keys", "allow_outside", "allow_pickle"),
    )
