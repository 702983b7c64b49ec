"""Train a lip reader on vowelled Arabic. `python -m studies.lip_reading.run`."""

import json
import logging
from pathlib import Path

from pipeline.stage import run
from signloom.training.loop import EpochRecord
from studies.lip_reading.study import run_lip_reading

STUDY = Path("studies/lip_reading/params.yaml")
OUT = Path("reports/studies/lip_reading")


def main() -> None:
    """Draw the speakers, train, test on others, write the report."""

    def log(record: EpochRecord) -> None:
        if record.epoch % 5 == 0:
            logging.info("epoch %d: dev loss %.3f", record.epoch, record.dev_loss)

    scores = run_lip_reading(STUDY, OUT, log)
    logging.info("%s\nopen %s", json.dumps(scores["test"], indent=1), OUT / "index.html")


if __name__ == "__main__":
    run(main)
