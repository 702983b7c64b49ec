"""Small ELAN files as corpora have them: tiers without parents, and several films."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

Marks = Sequence[tuple[int, int, str]]  # start and end of annotations, ms, and their values


def eaf(
    path: Path, tiers: Mapping[str, Marks], media: Sequence[str] = (), *, participants: bool = True
) -> Path:
    """Write a file of tiers named after who signs, and films, each with more attributes behind."""
    slots, body, links = "", "", ""
    for name, _, more in (film.partition(" ") for film in media):
        links += f'<MEDIA_DESCRIPTOR MEDIA_URL="file:///x/{name}" {more}/>'
    for name, marks in tiers.items():
        who = f"PARTICIPANT={quoteattr(name.split('_')[-1].split(' ')[-1])}" * participants
        body += f'<TIER LINGUISTIC_TYPE_REF="t" TIER_ID={quoteattr(name)} {who}>'
        for start, end, value in marks:
            number = f"{len(slots)}"  # new each time
            slots += f'<TIME_SLOT TIME_SLOT_ID="s{number}" TIME_VALUE="{start}"/>'
            slots += f'<TIME_SLOT TIME_SLOT_ID="e{number}" TIME_VALUE="{end}"/>'
            body += f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{number}"'
            body += f' TIME_SLOT_REF1="s{number}" TIME_SLOT_REF2="e{number}">'
            body += f"<ANNOTATION_VALUE>{escape(value)}</ANNOTATION_VALUE>"
            body += "</ALIGNABLE_ANNOTATION></ANNOTATION>"
        body += "</TIER>"
    path.write_text(
        f'<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="milliseconds">{links}</HEADER>'
        f"<TIME_ORDER>{slots}</TIME_ORDER>{body}</ANNOTATION_DOCUMENT>",
        encoding="utf-8",
    )
    return path
