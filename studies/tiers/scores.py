"""Precision and recall of events against those that are known."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from signloom_tools.tiers.events import TIERS, Event
from signloom_tools.tiers.files import list_values

OVERLAP = 0.5  # of what two events cover together, from which on they are the same


@dataclass(slots=True)
class EventCounts:
    """How many events there are, were found, and are both; by tier and value."""

    known: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    both: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, known: Sequence[Event], found: Iterable[Event], overlap: float = OVERLAP) -> None:
        """Count the events of a film."""
        free = list(known)
        self.known.update((event.tier, event.value) for event in known)
        for event in found:
            kind = event.tier, event.value
            self.found[kind] += 1
            best = max(
                (match for match in free if (match.tier, match.value) == kind),
                key=lambda match: measure_overlap(match, event),
                default=None,
            )
            if best is not None and measure_overlap(best, event) >= overlap:
                self.both[kind] += 1
                free.remove(best)

    def to_table(self) -> str:
        """Return a row an event: how many there are, precision and recall."""
        rows = [f"{'event':24}{'known':>6}{'found':>6}{'precision':>11}{'recall':>8}"]
        for kind in ((tier, value) for tier in TIERS for value in list_values(tier)):
            known, found, both = self.known[kind], self.found[kind], self.both[kind]
            if known or found:
                precision = f"{both / found:.2f}" if found else "-"
                recall = f"{both / known:.2f}" if known else "-"
                name = ": ".join(kind)
                rows.append(f"{name:24}{known:6}{found:6}{precision:>11}{recall:>8}")
        return "\n".join(rows)


def measure_overlap(event: Event, other: Event) -> float:
    """Return the share of what two events cover together that both cover."""
    common = min(event.end_s, other.end_s) - max(event.start_s, other.start_s)
    whole = max(event.end_s, other.end_s) - min(event.start_s, other.start_s)
    return max(common, 0.0) / whole
