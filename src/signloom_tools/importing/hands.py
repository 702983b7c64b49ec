"""Whether the films of a corpus show hands."""

import math
from collections.abc import Sequence

from signloom.corpus.manifest import Clip
from signloom.errors import ClipError, UserError, count_of

PROBED = 30  # clips of which a picture is looked at, until one shows a hand
NO_HANDS = (
    "warning: no hand in the middle of any of {}. If they show faces that speak, "
    "`signloom adopt --preset lip-conformer` reads their lips; docs/lips.md has that, and what to "
    "do with films of mouths alone"
)


def warn_of_no_hands(clips: Sequence[Clip]) -> str:
    """Say what to do with films of which none shows a hand; "" where one does.

    Films that cannot be read say nothing here: extraction will.
    """
    from signloom.detection.detector import (  # loads slowly
        DetectorOptions,
        build_detector,
        quiet_native_code,
    )
    from signloom.detection.video import Video

    options, detector, handless = DetectorOptions(detector="hands", groups=("hands",)), None, 0
    for clip in clips[:: math.ceil(len(clips) / PROBED) or 1]:
        if clip.video is None:
            return ""
        try:
            with Video(clip.video) as video, quiet_native_code():
                end_s = clip.end_s or video.duration_s or 0.0
                frame = next(video.frames(((clip.start_s or 0.0) + end_s) / 2))
                detector = detector or build_detector(options)
                detector.reset()
                if detector.find(frame.rgb, 0.0):
                    return ""
        except (ClipError, UserError, RuntimeError):
            continue
        handless += 1
    return NO_HANDS.format(count_of(handless, "film")) if handless else ""
