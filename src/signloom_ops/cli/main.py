"""The commands that operations add to `signloom`, found by the entry point signloom.commands."""

from signloom_ops.cli import app, corpus, nights
from signloom_tools.cli.main import Commands

COMMANDS: Commands = {
    "data": {
        "ingest": (corpus.add_ingest, "take new videos and their sentences into the corpus"),
        "withdraw": (corpus.add_withdraw, "take a delivery out of the corpus again"),
        "forget": (corpus.add_forget, "remove a signer: clips, videos, landmarks, copies"),
        "drift": (corpus.add_drift, "compare the clips of a delivery with the old ones"),
    },
    "app": {
        "app": (app.add_app, "record, label, deliver and translate in a browser"),
    },
    "nights": {
        "retrain": (nights.add_retrain, "train on new data; promote the model if it is better"),
        "champion": (nights.add_champion, "show, promote and roll back versions of the model"),
    },
}
