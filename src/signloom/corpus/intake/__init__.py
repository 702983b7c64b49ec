"""New signing comes in, night after night, into a corpus that is valid at every moment.

The names here are what other packages call.
"""

from signloom.corpus.intake.ledgers import read_deliveries, read_withdrawn
from signloom.corpus.intake.news import has_news
from signloom.corpus.intake.options import IngestOptions
from signloom.corpus.intake.run import IngestResult, ingest
from signloom.corpus.intake.versions import track_again, track_version
from signloom.corpus.intake.withdrawal import WITHDRAWN_VIDEOS, remove_clips, withdraw

__all__ = [
    "WITHDRAWN_VIDEOS",
    "IngestOptions",
    "IngestResult",
    "has_news",
    "ingest",
    "read_deliveries",
    "read_withdrawn",
    "remove_clips",
    "track_again",
    "track_version",
    "withdraw",
]
