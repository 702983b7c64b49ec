#!/usr/bin/env bash
# Believed: Pose.read(file, start_frame=..., end_frame=...) gives the same frames whenever it is
#           called.
# Happens:  the first read of a process fetches some 10 kB to find the header. A window that begins
#           within them is then filled with what comes after them in the file: numbers that are none
#           of the window's, without an error. (Of a file that is shorter a TypeError is raised.) The
#           same call repeated, when the header's length is known, is right.
# Version:  pose-format 0.15.0 (numpy 1.26.4), November 2026.
# Source:   BytesIOReader.skip in pose_format/utils/reader.py and Pose.read in pose_format/pose.py,
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

FRAMES = 400
points = ["LEFT_SHOULDER", "RIGHT_SHOULDER", "NOSE"]
body = PoseHeaderComponent("BODY", points, [(0, 1)], [(255, 0, 0)], "XYZC")
header = PoseHeader(0.2, PoseHeaderDimensions(640, 480, 0), [body])
frames = np.arange(FRAMES, dtype=np.float32)
data = 1 + np.zeros((FRAMES, 1, 3, 3), np.float32) + frames[:, None, None, None]
confidence = np.zeros((FRAMES, 1, 3), np.float32) + (frames[:, None, None] + 1) / FRAMES
buffer = io.BytesIO()
Pose(header, NumPyPoseBody(25, data, confidence)).write(buffer)

window = {"start_frame": 10, "end_frame": 20}
reads = [Pose.read(io.BytesIO(buffer.getvalue()), **window).body for _ in range(2)]
for name, read in zip(("first", "second"), reads, strict=True):
    print(f"{name} read, x of frames 10 to 19, expected 11 to 20:", *read.data[:, 0, 0, 0])
is_right = [
    np.array_equal(read.data.data, data[10:20]) and np.array_equal(read.confidence, confidence[10:20])
    for read in reads
]
print("right:", is_right)
sys.exit(is_right != [False, True])
PYTHON
echo "as described"
