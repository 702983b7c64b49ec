#!/usr/bin/env bash
# Believed: each file that Pose.read reads has a header object of its own.
# Happens:  files with the same header bytes share one object for as long as the process reads no
#           other header. pose.focus() on one file gives the others its width and height, too, and
#           files that are read later get these in place of what they say themselves.
# Version:  pose-format 0.15.0 (numpy 1.26.4), November 2026.
# Source:   PoseHeaderCache in pose_format/pose_header.py,
#           https://github.com/sign-language-processing/pose
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pose-format==0.15.0 numpy==1.26.4

"$folder/venv/bin/python" - <<'PYTHON'
import io
import sys

import numpy as np
from pose_format import Pose
from pose_format.numpy import NumPyPoseBody
from pose_format.pose_header import PoseHeader, PoseHeaderComponent, PoseHeaderDimensions


def write_pose(width_of_signer: float) -> bytes:
    """Return a file of a picture of 640 x 480 pixels."""
    points = ["LEFT_SHOULDER", "RIGHT_SHOULDER"]
    body = PoseHeaderComponent("BODY", points, [(0, 1)], [(255, 0, 0)], "XYC")
    header = PoseHeader(0.2, PoseHeaderDimensions(640, 480, 0), [body])
    data = np.zeros((10, 1, 2, 2), np.float32)
    data[:, :, 0] = 100, 200
    data[:, :, 1] = 100 + width_of_signer, 240
    buffer = io.BytesIO()
    Pose(header, NumPyPoseBody(25, data, np.ones((10, 1, 2), np.float32))).write(buffer)
    return buffer.getvalue()


near, far = write_pose(200), write_pose(50)
first, second = Pose.read(near), Pose.read(far)
before = second.header.dimensions.width
first.focus()
after = second.header.dimensions.width
again = Pose.read(far).header.dimensions.width
print("one header object for two files:", first.header is second.header)
print(f"width of the second file: {before}, after first.focus() {after}, read again {again}")
sys.exit(not (first.header is second.header and (before, after, again) == (640, 200, 200)))
PYTHON
echo "as described"
