"""Files of events: tiers for ELAN, a table, JSON."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from signloom_tools.importing.elan import Annotation, Tier, render_elan
from signloom_tools.tiers.events import BETWEEN, RULES, TIERS, Event

CROWD = "several people are seen; the tiers are of the one who is tracked"


def to_elan(
    events: Sequence[Event], film: Path | None, folder: Path, *, is_crowded: bool = False
) -> bytes:
    """Return an .eaf file for a folder: a tier a kind, and below it how strong its events are.

    Its header has the rules, as properties.
    """
    tiers: list[Tier] = []
    for name in TIERS:
        of_tier = [event for event in events if event.tier == name]
        annotations = [
            Annotation(
                f"{name} {number}",
                round(1000 * event.start_s),
                round(1000 * event.end_s),
                event.value,
            )
            for number, event in enumerate(of_tier)
        ]
        numbers = [
            Annotation(
                f"{mark.name} strength",
                mark.start_ms,
                mark.end_ms,
                f"{event.number:.3g} {event.unit}",
                mark.name,
            )
            for mark, event in zip(annotations, of_tier, strict=True)
            if event.unit
        ]
        tiers += [
            Tier(name, annotations=annotations, vocabulary=list_values(name)),
            Tier(f"{name} strength", parent=name, annotations=numbers),
        ]
    properties = {f"signloom {rule.tier}: {rule.value}": _describe(asdict(rule)) for rule in RULES}
    properties |= {"signloom note": CROWD} if is_crowded else {}
    return render_elan(tiers, film, folder, properties=properties)


def to_csv(events: Sequence[Event], *_: object, **__: object) -> bytes:
    """Return a table as text, a row an event; what lies between events has no number."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("tier", "value", "start_s", "end_s", "number", "unit"))
    writer.writerows(_to_row(event).values() for event in events)
    return buffer.getvalue().encode()


def to_json(events: Sequence[Event], *_: object, is_crowded: bool = False) -> bytes:
    """Return JSON with the events, one a line, and the rules that found them."""
    lines = (json.dumps(_to_row(event)) for event in events)
    rules = ",\n".join(json.dumps(asdict(rule)) for rule in RULES)
    head = f'{{"is_crowded": {json.dumps(is_crowded)}, "events": [\n'
    return (head + ",\n".join(lines) + f'\n], "rules": [\n{rules}\n]}}\n').encode()


WRITERS: dict[str, Callable[..., bytes]] = {
    "elan": to_elan,
    "tiers.csv": to_csv,
    "tiers.json": to_json,
}


def list_values(tier: str) -> tuple[str, ...]:
    """Return what a tier may say."""
    values = [rule.value for rule in RULES if rule.tier == tier]
    return (*values, *((BETWEEN[tier],) if tier in BETWEEN else ()))


def _to_row(event: Event) -> dict[str, object]:
    times = {name: round(getattr(event, name), 3) for name in ("start_s", "end_s")}
    number = None if np.isnan(event.number) else float(f"{event.number:.3g}")
    return {**asdict(event), **times, "number": number}


def _describe(rule: dict[str, object]) -> str:
    return ", ".join(
        f"{name} {rule[name]}" for name in ("signal", "on", "off", "least_s", "join_s")
    )
