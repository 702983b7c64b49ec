"""ELAN files (.eaf): tiers of annotations in time, read and written.

Format: https://www.mpi.nl/tools/elan/EAF_Annotation_Format_3.0_and_ELAN.pdf
"""

import mimetypes
import os
import xml.etree.ElementTree as ET
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NoReturn
from urllib.parse import quote, unquote, urlsplit

from signloom.errors import UserError
from signloom.grouping import group_pairs

_CHUNK_CHARACTERS = 1 << 16
_CONSTRAINTS = {  # ELAN's own words; it expects all four in every file
    "Time_Subdivision": "Time subdivision of parent annotation's time interval, no time gaps "
    "allowed within this interval",
    "Symbolic_Subdivision": "Symbolic subdivision of a parent annotation. Annotations refering to "
    "the same parent are ordered",
    "Symbolic_Association": "1-1 association with a parent annotation",
    "Included_In": "Time alignable annotations within the parent annotation's time interval, gaps "
    "are allowed",
}
_ANY_LANGUAGE = {  # of a vocabulary, as ELAN writes it
    "LANG_DEF": "http://cdb.iso.org/lg/CDB-00130975-001",
    "LANG_ID": "und",
    "LANG_LABEL": "undetermined (und)",
}
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A value of a tier from one time to another."""

    name: str  # its id in the file
    start_ms: int  # milliseconds from the start of the annotated film
    end_ms: int  # likewise
    value: str  # as typed
    parent: str = ""  # id of the annotation that it describes; empty: none


@dataclass(frozen=True, slots=True)
class Tier:
    """A line of annotations, in the order of time."""

    name: str  # unique in the file
    participant: str = ""  # who signs or speaks; empty: not said
    language: str = ""  # id of the language of the values; empty: not said
    parent: str = ""  # the tier whose annotations these describe; empty: none
    annotations: Sequence[Annotation] = field(default_factory=list)
    """None overlaps another one where ELAN wrote the file."""
    vocabulary: Sequence[str] = ()
    """What the annotations may say; empty: anything. Not read."""


@dataclass(frozen=True, slots=True)
class Elan:
    """A file: its tiers, whose times are those of its first film, and its films."""

    tiers: Sequence[Tier]
    media: Mapping[str, int]  # relative path: ms by which times are later than in the first film


class _Tree(ET.TreeBuilder):
    """Builds the tree of a document that declares nothing of its own, entities least of all."""

    def doctype(self, *_: object) -> NoReturn:
        raise UserError("declares a document type, which may hold a bomb of entities")


def read_elan(path: Path, text: str) -> Elan:
    """Read an .eaf file.

    Raises:
        UserError: If it is no whole ELAN file, or declares entities; no entity is ever expanded.
    """
    parser = ET.XMLParser(target=_Tree())
    try:
        for start in range(0, len(text), _CHUNK_CHARACTERS):
            parser.feed(text[start : start + _CHUNK_CHARACTERS])
        root = parser.close()
        if root.tag != "ANNOTATION_DOCUMENT":
            raise UserError(f"is {root.tag!r} and no ANNOTATION_DOCUMENT")
        return _read_document(root)
    except ET.ParseError as error:
        raise UserError(
            f"{path}: broken XML ({error}); open it in ELAN and save it again"
        ) from None
    except KeyError as error:
        raise UserError(
            f"{path}: its annotations refer to {error}, which is not there; open it in ELAN and "
            "save it again"
        ) from None
    except (UserError, ValueError, ArithmeticError) as error:
        raise UserError(f"{path}: {error}; expected a file that ELAN saved") from None


def _read_document(root: ET.Element) -> Elan:
    header = root.find("HEADER")
    units = "milliseconds" if header is None else header.get("TIME_UNITS", "milliseconds")
    if units != "milliseconds":
        raise UserError(f"its times are {units}, expected milliseconds")
    media = [] if header is None else header.findall("MEDIA_DESCRIPTOR")
    films = _media_paths(media)  # none need begin with the annotations
    origin_ms = next(iter(films.values()), 0)
    slots: dict[str, int | None] = {}
    for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
        value = slot.get("TIME_VALUE")
        slots[slot.attrib["TIME_SLOT_ID"]] = None if value is None else int(value) + origin_ms
    tiers = root.findall("TIER")
    aligned = {
        tier.attrib["TIER_ID"]: [
            (annotation.attrib["TIME_SLOT_REF1"], annotation.attrib["TIME_SLOT_REF2"], annotation)
            for annotation in tier.iterfind("ANNOTATION/ALIGNABLE_ANNOTATION")
        ]
        for tier in tiers
    }
    times = _interpolate(slots, [[piece[:2] for piece in tier] for tier in aligned.values()])
    annotations: dict[str, Annotation] = {}
    for pieces in aligned.values():
        for first, last, annotation in pieces:
            name = annotation.attrib["ANNOTATION_ID"]
            # An interval that some tools write the wrong way round is for its reader to refuse.
            annotations[name] = Annotation(name, times[first], times[last], _value(annotation))
    _place_references(tiers, annotations)
    elan_tiers = [
        Tier(
            tier.attrib["TIER_ID"],
            tier.get("PARTICIPANT", "").strip(),
            tier.get("LANG_REF") or "",
            tier.get("PARENT_REF") or "",
            sorted(
                (
                    annotations[annotation.attrib["ANNOTATION_ID"]]
                    for annotation in tier.iterfind("ANNOTATION/*")
                ),
                key=lambda annotation: (annotation.start_ms, annotation.end_ms),
            ),
        )
        for tier in tiers
    ]
    return Elan(elan_tiers, {path: own_ms - origin_ms for path, own_ms in films.items()})


def _value(annotation: ET.Element) -> str:
    return annotation.findtext("ANNOTATION_VALUE") or ""


def _interpolate(
    slots: Mapping[str, int | None], tiers: Sequence[Sequence[tuple[str, str]]]
) -> dict[str, int]:
    """Give every slot a time: ELAN leaves out those within a chain, which divide it evenly."""
    times = {name: value for name, value in slots.items() if value is not None}
    for pieces in tiers:
        after = dict(pieces)
        for first in [name for name in after if name in times]:
            chain = {first: None}  # keeps the order and finds circles
            last = after[first]
            while last not in times and last in after and last not in chain:
                chain[last] = None
                last = after[last]
            if last in times:
                step = (times[last] - times[first]) / len(chain)
                times.update({n: round(times[first] + i * step) for i, n in enumerate(chain)})
    # What hangs in no chain lies between its neighbours in the list of slots.
    order = list(slots)
    timed = [(index, times[name]) for index, name in enumerate(order) if name in times]
    if order and not timed:
        raise UserError("no time slot has a time")
    where = [index for index, _ in timed]
    for index in set(range(len(order))) - set(where):
        at = bisect(where, index)
        (i, low), (j, high) = timed[max(at - 1, 0)], timed[min(at, len(timed) - 1)]
        share = (index - i) / (j - i) if j != i else 0.0
        times[order[index]] = round(low + share * (high - low))
    return times


def _place_references(tiers: Sequence[ET.Element], annotations: dict[str, Annotation]) -> None:
    """Add the annotations that have no times of their own: they share those of their parents."""
    waiting = group_pairs(
        ((tier.attrib["TIER_ID"], annotation.attrib["ANNOTATION_REF"]), annotation)
        for tier in tiers
        for annotation in tier.iterfind("ANNOTATION/REF_ANNOTATION")
    )
    while waiting:
        ready = [key for key in waiting if key[1] in annotations]
        if not ready:
            raise KeyError(next(iter(waiting))[1])
        for key in ready:
            parent, pieces = annotations[key[1]], _in_order(waiting.pop(key))
            step = (parent.end_ms - parent.start_ms) / len(pieces)
            for i, annotation in enumerate(pieces):
                name, first = annotation.attrib["ANNOTATION_ID"], parent.start_ms
                edges = round(first + step * i), round(first + step * (i + 1))
                annotations[name] = Annotation(name, edges[0], edges[1], _value(annotation), key[1])


def _in_order(pieces: list[ET.Element]) -> list[ET.Element]:
    """Return the annotations of one parent as they follow each other."""
    after = {piece.get("PREVIOUS_ANNOTATION", ""): piece for piece in pieces}
    chain: list[ET.Element] = []
    name = ""
    while (piece := after.pop(name, None)) is not None:
        chain.append(piece)
        name = piece.attrib["ANNOTATION_ID"]
    return chain if len(chain) == len(pieces) else pieces


def _media_paths(descriptors: Sequence[ET.Element]) -> dict[str, int]:
    """Return what is left of the films' addresses inside, and where annotations begin there, ms."""
    origins = {}
    for descriptor in descriptors:
        url = descriptor.get("RELATIVE_MEDIA_URL") or descriptor.get("MEDIA_URL") or ""
        path = unquote(urlsplit(url).path if url.startswith("file:") else url).replace("\\", "/")
        parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..", ".")]
        if parts and "\0" not in path:
            origins[str(PurePosixPath(*parts))] = int(descriptor.get("TIME_ORIGIN", "0"))
    return origins


def render_elan(
    tiers: Sequence[Tier],
    film: Path | None,
    folder: Path,
    *,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return an .eaf file that ELAN opens, always the same for the same tiers.

    Args:
        tiers: Parents before their children, whose annotations each name another parent. The
            names of annotations are given anew.
        film: The film that is annotated, linked by its path as seen from the folder.
        folder: Of the file.
        properties: Facts for its header.
    """
    root = ET.Element(
        "ANNOTATION_DOCUMENT",
        {
            "AUTHOR": "signloom",
            "DATE": "1970-01-01T00:00:00+00:00",
            "FORMAT": "3.0",
            "VERSION": "3.0",
            f"{{{_XSI}}}noNamespaceSchemaLocation": _SCHEMA,
        },
    )
    ET.register_namespace("xsi", _XSI)
    header = ET.SubElement(root, "HEADER", {"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"})
    if film is not None:
        address = f"./{quote(Path(os.path.relpath(film, folder)).as_posix())}"
        kind = mimetypes.guess_type(film.name)[0] or "video/*"
        media = {"MEDIA_URL": address, "MIME_TYPE": kind, "RELATIVE_MEDIA_URL": address}
        ET.SubElement(header, "MEDIA_DESCRIPTOR", media)
    for name, text in properties.items():
        ET.SubElement(header, "PROPERTY", {"NAME": name}).text = text
    slots = _write_times(ET.SubElement(root, "TIME_ORDER"), tiers)
    names: dict[str, str] = {}
    for index, tier in enumerate(tiers):
        kind = "detail" if tier.parent else tier.name if tier.vocabulary else "sentence"
        attributes = {
            "LINGUISTIC_TYPE_REF": kind,
            "TIER_ID": tier.name,
            "PARENT_REF": tier.parent,
            "PARTICIPANT": tier.participant,
            "LANG_REF": tier.language,
        }
        row = ET.SubElement(
            root, "TIER", {key: value for key, value in attributes.items() if value}
        )
        for number, annotation in enumerate(tier.annotations):
            name = names[annotation.name] = f"a{len(names) + 1}"
            if tier.parent:
                kind, refers = "REF_ANNOTATION", {"ANNOTATION_REF": names[annotation.parent]}
            else:
                kind = "ALIGNABLE_ANNOTATION"
                refers = {
                    "TIME_SLOT_REF1": slots[True, index, number],
                    "TIME_SLOT_REF2": slots[False, index, number],
                }
            cell = ET.SubElement(
                ET.SubElement(row, "ANNOTATION"), kind, {"ANNOTATION_ID": name, **refers}
            )
            ET.SubElement(cell, "ANNOTATION_VALUE").text = annotation.value
    for name, constraint in (("sentence", {}), ("detail", {"CONSTRAINTS": "Symbolic_Association"})):
        aligned = "false" if constraint else "true"
        ET.SubElement(
            root,
            "LINGUISTIC_TYPE",
            {
                "GRAPHIC_REFERENCES": "false",
                "LINGUISTIC_TYPE_ID": name,
                "TIME_ALIGNABLE": aligned,
                **constraint,
            },
        )
    closed = [tier for tier in tiers if tier.vocabulary]
    for tier in closed:
        ET.SubElement(
            root,
            "LINGUISTIC_TYPE",
            {
                "CONTROLLED_VOCABULARY_REF": tier.name,
                "GRAPHIC_REFERENCES": "false",
                "LINGUISTIC_TYPE_ID": tier.name,
                "TIME_ALIGNABLE": "true",
            },
        )
    if closed:
        ET.SubElement(root, "LANGUAGE", _ANY_LANGUAGE)
    for language in sorted({tier.language for tier in tiers} - {""}):
        ET.SubElement(root, "LANGUAGE", {"LANG_ID": language, "LANG_LABEL": language})
    for name, meaning in _CONSTRAINTS.items():
        ET.SubElement(root, "CONSTRAINT", {"STEREOTYPE": name, "DESCRIPTION": meaning})
    for number, tier in enumerate(closed):
        vocabulary = ET.SubElement(root, "CONTROLLED_VOCABULARY", {"CV_ID": tier.name})
        ET.SubElement(vocabulary, "DESCRIPTION", {"LANG_REF": _ANY_LANGUAGE["LANG_ID"]})
        for index, value in enumerate(tier.vocabulary):
            entry = ET.SubElement(vocabulary, "CV_ENTRY_ML", {"CVE_ID": f"cve{number}_{index}"})
            attributes = {"DESCRIPTION": "", "LANG_REF": _ANY_LANGUAGE["LANG_ID"]}
            ET.SubElement(entry, "CVE_VALUE", attributes).text = value
    ET.indent(root)
    return ET.tostring(root, encoding="UTF-8", xml_declaration=True) + b"\n"


def _write_times(order: ET.Element, tiers: Sequence[Tier]) -> dict[tuple[bool, int, int], str]:
    """Write the times of the tiers that have some of their own.

    Returns:
        Ids: of the start (True) or end, number of the tier and of the annotation in it.
    """
    # A slot for each edge, as ELAN has it: annotations that share one would be moved together.
    edges = sorted(
        (time_ms, is_start, index, number)
        for index, tier in enumerate(tiers)
        for number, annotation in enumerate(() if tier.parent else tier.annotations)
        for is_start, time_ms in ((True, annotation.start_ms), (False, annotation.end_ms))
    )
    slots = {edge[1:]: f"ts{index}" for index, edge in enumerate(edges, start=1)}
    for edge in edges:
        slot = {"TIME_SLOT_ID": slots[edge[1:]], "TIME_VALUE": str(edge[0])}
        ET.SubElement(order, "TIME_SLOT", slot)
    return slots
