"""New signing comes in, night after night, into a corpus that is valid at every moment.

The names here are what other packages call.
"""

from signloom.corpus.intake.ledgers import Delivery, IntakeReject, read_deliveries, read_withdrawn
from signloom.corpus.intake.news import has_news
from signloom.corpus.intake.options import IngestOptions
from signloom.corpus.intake.run import IngestResult, ingest
from signloom.corpus.intake.versions import track_version
from signloom.corpus.intake.withdrawal import remove_clips, withdraw

__all__ = [
    "Delivery",
    "IngestOptions",
    "IngestResult",
    "IntakeReject",
    "has_news",
    "ingest",
    "read_deliveries",
    "read_withdrawn",
    "remove_clips",
    "track_version",
    "withdraw",
]
