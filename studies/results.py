"""Where a study writes what it found: results.json and a page."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.files import write_file


def write_results(out: Path, results: Mapping[str, Any], page: str) -> None:
    """Write the results and the page of a study.

    Args:
        out: Folder; made if need be.
        results: Plain values.
        page: HTML.
    """
    write_file(out / "results.json", json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    write_file(out / "index.html", page)
    logging.info("open %s", out / "index.html")
