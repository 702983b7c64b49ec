"""Draw the demo corpus. DVC stage `draw` of data/demo/dvc.yaml.

Usage: python -m pipeline.draw_demo [PARAMS]
"""

import logging
import sys
import time
from pathlib import Path

from pipeline.stage import run
from signloom.config import load_section
from signloom_demo.draw import DrawOptions, draw_corpus

DRAW_PARAMS = Path("data/demo/params.yaml")


def main() -> None:
    """Read section `draw`, draw videos, manifest and truth."""
    params = Path(sys.argv[1]) if len(sys.argv) > 1 else DRAW_PARAMS
    options = load_section(params, "draw", DrawOptions)
    began = time.monotonic()
    frames = draw_corpus(options)
    logging.info("%d frames in %.0f s: %s", frames, time.monotonic() - began, options.out)


if __name__ == "__main__":
    run(main)
