#!/usr/bin/env bash
# Believed: start_time and end_time (milliseconds) of Pose.read cut a file of any version.
# Happens:  of a file of format 0.1, as most published .pose files are, they are accepted and
#           ignored: the whole file comes back. start_frame and end_frame work there, and times work
#           for format 0.2. No error, no warning.
# Version:  pose-format 0.15.0 (numpy 1.26.4), November 2026.
# Source:   PoseBody.read_v0_1 in pose_format/pose_body.py,
#           https://github.com/sign-language-processing/pose
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pose-format==0.15.0 numpy==1.26.4

"$folder/venv/bin/python" - <<'PYTHON'
import io
import struct
import sys

import numpy as np
from pose_format import Pose
from pose_format.numpy import NumPyPoseBody
from pose_format.pose_header import PoseHeader, PoseHeaderComponent, PoseHeaderDimensions

FRAMES = 100
points = ["LEFT_SHOULDER", "RIGHT_SHOULDER"]
body = PoseHeaderComponent("BODY", points, [(0, 1)], [(255, 0, 0)], "XYC")
data = np.zeros((FRAMES, 1, 2, 2), np.float32) + np.arange(FRAMES)[:, None, None, None]
confidence = np.ones((FRAMES, 1, 2), np.float32)


def write_pose(version: float) -> bytes:
    """Return 100 frames at 25 frames a second in one of the two formats."""
    buffer = io.BytesIO()
    PoseHeader(version, PoseHeaderDimensions(640, 480, 0), [body]).write(buffer)
    if version == 0.1:  # the header's writer knows 0.2 alone; both have the same layout
        buffer.getbuffer()[:4] = struct.pack("<f", version)
        # Frames a second, frames and people in two bytes each.
        buffer.write(struct.pack("<HHH", 25, FRAMES, 1))
        buffer.write(data.astype("<f4").tobytes() + confidence.astype("<f4").tobytes())
    else:
        NumPyPoseBody(25, data, confidence).write(version, buffer)
    return buffer.getvalue()


lengths = []
for version in (0.2, 0.1):
    content = write_pose(version)
    for window in ({"start_time": 1000, "end_time": 2000}, {"start_frame": 25, "end_frame": 50}):
        pose = Pose.read(content, **window)
        lengths.append(len(pose.body.data))
        print(f"format {round(pose.header.version, 1)}, {window}: {lengths[-1]} frames")
sys.exit(lengths != [25, 25, FRAMES, 25])
PYTHON
echo "as described"
