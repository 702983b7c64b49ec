"""A corpus and an inbox come in; whether a night has anything to do goes out, in seconds."""

from pathlib import Path

from signloom.corpus.intake.ledgers import read_rejects
from signloom.corpus.intake.options import IngestOptions
from signloom.corpus.intake.stock import fingerprint
from signloom.corpus.intake.survey import Request, check_growable, survey
from signloom.corpus.intake.workshop import workshop_of
from signloom.corpus.manifest import CorpusOptions


def has_news(corpus: CorpusOptions, inbox: Path, options: IngestOptions) -> bool:
    """Return whether an ingest of an inbox would look at anything that it has not seen.

    What lies in the corpus, was withdrawn from it, or was rejected as it is, is no news; nor is a
    file that changed a moment ago. A change that a crash cut short is. No video is decoded, and
    none is read twice.

    Raises:
        UserError: If the corpus cannot grow, as one of glosses and sentences.
    """
    if workshop_of(corpus).journal.is_file():
        return True
    if not inbox.is_dir():
        return False
    check_growable(corpus, [inbox])
    found = survey(corpus, Request(sources=[inbox], inbox=True, settle_s=options.settle_s))
    rejected = {(row.delivery, row.where, row.fingerprint) for row in read_rejects(corpus)}
    for one in found.candidates:
        content = found.content(one)
        is_known = content is not None and (
            content[0] in found.stock.withdrawn or found.stock.holds(one, content)
        )
        mark = (one.delivery, one.where, fingerprint(one, content, options))
        if not is_known and mark not in rejected:
            return True
    return False
