"""Compare models around a text model with one from scratch, on few glosses and sentences.

Usage: python -m studies.text_models.run TABLES, a folder that holds
phoenix14t.{train,dev,test}.tsv (name, signer, gloss, text).
"""

import argparse
import json
import logging
import tempfile
from pathlib import Path

from pipeline.stage import run
from signloom.files import write_file
from signloom.training.run import read_run_options
from studies.bottleneck.text import read_clips
from studies.text_models.study import compare

OUT = Path("reports/studies/text_models")


def main() -> None:
    """Train, score, write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--pairs", type=int, default=500, help="train clips with glosses")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    clips, rows = read_clips(arguments.tables), []
    base = read_run_options(Path("studies/gloss_to_text/params.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        for row in compare(clips, base, Path(folder), pairs=arguments.pairs, seeds=arguments.seeds):
            logging.info("%s, seed %d: %s", row["variant"], row["seed"], row["test"])
            rows.append(row)
    content = json.dumps({"format_version": 1, "rows": rows}, indent=1)
    write_file(OUT / "results.json", content + "\n")


if __name__ == "__main__":
    run(main)
