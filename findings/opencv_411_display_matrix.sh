#!/usr/bin/env bash
# Believed: cv2.VideoCapture turns the pictures of a film as its display matrix says (how a phone
#           marks a film that it took upright); CAP_PROP_ORIENTATION_AUTO is on as documented.
# Happens:  so in 4.10 and in 4.12. In 4.11 CAP_PROP_ORIENTATION_AUTO is 0 from the start, and the
#           film lies on its side until it is set to 1. mediapipe 0.10.21, which needs numpy 1, brings
#           4.11: it is the newest that still allows it.
# Version:  opencv-python-headless 4.10.0.84, 4.11.0.86 and 4.12.0.88 (numpy 2.2.6), November 2026.
# Source:   modules/videoio/src/cap_ffmpeg.cpp, https://github.com/opencv/opencv
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/film.py" <<'PYTHON'
import struct
import sys

import cv2
import numpy as np

path = sys.argv[1]
if sys.argv[2:] == ["write"]:
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"mp4v"), 10, (64, 32))
    for _ in range(5):
        writer.write(np.full((32, 64, 3), 128, np.uint8))
    writer.release()
    with open(path, "rb") as file:
        content = bytearray(file.read())
    # The matrix of a track header of version 0 begins 40 bytes after its version.
    matrix = content.index(b"tkhd") + 4 + 40
    quarter = (0, 1 << 16, 0, -1 << 16, 0, 0, 32 << 16, 0, 1 << 30)
    content[matrix : matrix + 36] = struct.pack(">9i", *quarter)
    with open(path, "wb") as file:
        file.write(content)
film = cv2.VideoCapture(path)
marked = film.get(cv2.CAP_PROP_ORIENTATION_META)
is_auto = film.get(cv2.CAP_PROP_ORIENTATION_AUTO)
height, width = film.read()[1].shape[:2]
film = cv2.VideoCapture(path)
film.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
asked = film.read()[1].shape
print(f"marked {marked:.0f}, auto {is_auto:.0f}, {width} x {height}, asked {asked[1]} x {asked[0]}")
PYTHON
mode=write
for version in 4.10.0.84 4.11.0.86 4.12.0.88; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check \
        "opencv-python-headless==$version" numpy==2.2.6
    result=$("$folder/$version/bin/python" "$folder/film.py" "$folder/film.mp4" $mode)
    mode=
    echo "$version: $result"
    expected="marked 90, auto 1, 32 x 64, asked 32 x 64"
    if [ "$version" = 4.11.0.86 ]; then
        expected="marked 90, auto 0, 64 x 32, asked 32 x 64"
    fi
    if [ "$result" != "$expected" ]; then
        echo "changed: expected $expected" >&2
        exit 1
    fi
done
echo "as described"
