"""Warnings, tables and charts of landmark quality."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from signloom.corpus.manifest import SPLITS
from signloom.corpus.quality import ClipQuality
from signloom.features.targets import Target
from signloom.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    HALF,
    INK,
    ORANGE,
    PURPLE,
    RED,
    THIRD,
    build_panels,
    render_svg,
    shorten,
    style,
)
from signloom.report.charts import MAX_ROWS, Chart

GROUP_LABELS = {
    "left_hand": "left", "right_hand": "right", "any_hand": "any hand", "pose": "body",
    "lips": "lips", "face_outline": "face",
}  # fmt: skip
MAX_NAMED = 5  # clips named in a warning
MAX_SIGNERS = 40  # signers in the table; those with the most warnings are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOptions:
    """The part `report.quality` of params.yaml: what is worth a warning."""

    worst: int  # clips drawn as contact sheets, 0 or more
    min_any_hand: float  # least share of frames with a hand, 0 to 1
    min_body: float  # least share with upper body, lips, outline of the face; 0 to 1
    max_gap_s: float  # longest time without any hand, seconds
    max_jitter: float  # of either hand, palm lengths
    max_side_swaps: int  # in a clip
    max_coincident: float  # largest share of frames with both sides on one hand, 0 to 1
    min_fps: float  # least frames a second
    min_pixels: int  # least length of the picture's shorter side

    def __post_init__(self) -> None:
        for name in ("min_any_hand", "min_body", "max_coincident"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 to 1")
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 or more")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that may be wrong with a clip."""

    text: str  # of the warning, after the number of clips
    mend: str
    fails: Callable[[ClipQuality], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What the quality table says about a corpus."""

    faults: dict[str, tuple[str, ...]]  # names of the checks that a clip fails, by clip id
    warnings: list[dict[str, Any]]
    worst: list[ClipQuality]
    by_split: list[dict[str, Any]]
    by_signer: list[dict[str, Any]]
    signer_of: dict[str, str]  # by clip id
    limits: dict[str, float]  # where warnings begin, by column

    @property
    def flagged(self) -> int:
        """Clips with a warning."""
        return sum(map(bool, self.faults.values()))

    @property
    def signers_shown(self) -> list[dict[str, Any]]:
        """The rows of the table of signers: those with the largest share of warnings."""
        ordered = sorted(self.by_signer, key=lambda row: -float(row["flagged"]) / row["clips"])
        return ordered[:MAX_SIGNERS]


def assess(
    rows: Sequence[ClipQuality], targets: Sequence[Target], options: QualityOptions
) -> Assessment:
    """Find out what is wrong with how many clips, and which of them are the worst."""
    checks = build_checks(options)
    faults = find_faults(rows, checks)
    splits = table_by(rows, faults, targets, lambda target: target.split)
    signers = table_by(rows, faults, targets, lambda target: target.signer)
    order = SPLITS
    body, jitter = options.min_body, options.max_jitter
    return Assessment(
        faults=faults,
        warnings=list_warnings(faults, checks),
        worst=pick_worst(rows, faults, options.worst),
        by_split=sorted(splits, key=lambda r: (*order, r["name"]).index(r["name"])),
        by_signer=sorted(signers, key=lambda row: str(row["name"])),
        signer_of={target.clip_id: target.signer for target in targets},
        limits={
            "any_hand": options.min_any_hand, "pose": body, "lips": body, "face_outline": body,
            "any_hand_gap_s": options.max_gap_s, "left_hand_jitter": jitter,
            "right_hand_jitter": jitter, "side_swaps": float(options.max_side_swaps),
            "fps": options.min_fps,
        },
    )  # fmt: skip


def build_checks(options: QualityOptions) -> dict[str, Check]:
    """Return what a clip is checked for, by a short name; what is unknown never fails."""

    def below(limit: float, *names: str) -> Callable[[ClipQuality], bool]:
        return lambda row: any(value < limit for value in _known(row, names))

    def above(limit: float, *names: str) -> Callable[[ClipQuality], bool]:
        return lambda row: any(value > limit for value in _known(row, names))

    jitters = ("left_hand_jitter", "right_hand_jitter")
    return {
        "few hands": Check(
            f"a hand in less than {100 * options.min_any_hand:g} % of the frames",
            "look whether the hands are in the picture, lit and unblurred",
            below(options.min_any_hand, "any_hand"),
        ),
        "no body": Check(
            f"the body or face in less than {100 * options.min_body:g} % of the frames",
            "head and shoulders must be in the picture",
            below(options.min_body, "pose", "lips", "face_outline"),
        ),
        "gap": Check(
            f"no hand at all for more than {options.max_gap_s:g} s",
            "cut rest and entering out with start_s and end_s",
            above(options.max_gap_s, "any_hand_gap_s"),
        ),
        "jitter": Check(
            f"a hand that jitters by more than {options.max_jitter:g} palm lengths",
            "blur, low light or a false hand in the background",
            above(options.max_jitter, *jitters),
        ),
        "swaps": Check(
            f"left and right exchanged more than {_times(options.max_side_swaps)}",
            "a second person in the picture, or try another extract.detector",
            above(float(options.max_side_swaps), "side_swaps"),
        ),
        "coincident": Check(
            f"both sides on one hand in more than {100 * options.max_coincident:g} % of the frames",
            "try another extract.detector",
            above(options.max_coincident, "coincident"),
        ),
        "slow": Check(
            f"fewer than {options.min_fps:g} frames a second",
            "fast signing gets lost between the frames",
            below(options.min_fps, "fps"),
        ),
        "small": Check(
            f"a picture whose shorter side has less than {options.min_pixels} pixels",
            "take the recording in its full size",
            lambda row: min(row.width, row.height) < options.min_pixels,
        ),
    }


def find_faults(
    rows: Iterable[ClipQuality], checks: Mapping[str, Check]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the checks that each clip fails, by clip id."""
    return {
        row.clip_id: tuple(name for name, check in checks.items() if check.fails(row))
        for row in rows
    }


def list_warnings(
    faults: Mapping[str, Sequence[str]], checks: Mapping[str, Check]
) -> list[dict[str, Any]]:
    """Say what is wrong with how many clips, the most frequent fault first."""
    found = []
    for name, check in checks.items():
        clips = [clip_id for clip_id, failed in faults.items() if name in failed]
        if clips:
            found.append({"name": name, "clips": len(clips), "share": len(clips) / len(faults),
                          "text": check.text, "mend": check.mend,
                          "named": clips[:MAX_NAMED]})  # fmt: skip
    return sorted(found, key=lambda warning: -int(warning["clips"]))


def pick_worst(
    rows: Sequence[ClipQuality], faults: Mapping[str, Sequence[str]], count: int
) -> list[ClipQuality]:
    """Return the clips with the most faults; of equally many, those that show least."""
    ordered = sorted(rows, key=lambda row: (-len(faults[row.clip_id]), _shown(row), row.clip_id))
    return ordered[:count]


def table_by(
    rows: Sequence[ClipQuality],
    faults: Mapping[str, Sequence[str]],
    targets: Iterable[Target],
    key: Callable[[Target], str],
) -> list[dict[str, Any]]:
    """Sum the table up over clips of one kind, such as a split or a signer.

    Shares are over frames, the gap is the longest one, jitter the median of the clips'.
    """
    kind_of = {target.clip_id: key(target) for target in targets}
    groups: dict[str, list[ClipQuality]] = {}
    for row in rows:
        groups.setdefault(kind_of.get(row.clip_id, "not in the manifest"), []).append(row)
    return [
        {
            "name": name,
            "clips": len(found),
            "minutes": sum(row.seconds for row in found) / 60,
            **{group: share_of(found, group) for group in GROUP_LABELS},
            "gap_s": max(_column(found, "any_hand_gap_s"), default=None),
            "jitter": median(_jitters(found)) if _jitters(found) else None,
            "swaps": sum(_column(found, "side_swaps")),
            "coincident": share_of(found, "coincident"),
            "flagged": sum(bool(faults[row.clip_id]) for row in found),
        }
        for name, found in groups.items()
    ]


def share_of(rows: Sequence[ClipQuality], name: str) -> float | None:
    """Share of all frames, from the shares of the clips; None if no clip has it."""
    found = [(getattr(row, name), row.frames) for row in rows if getattr(row, name) is not None]
    frames = sum(count for _, count in found)
    return sum(share * count for share, count in found) / frames if frames else None


def describe(row: ClipQuality) -> str:
    """Return the figures of one clip as a phrase."""
    parts = [f"{row.seconds:.1f} s at {round(row.fps, 1):g} frames/s, {row.width}x{row.height}"]
    parts += [
        f"{label} {100 * value:.0f} %"
        for name, label in GROUP_LABELS.items()
        if name != "any_hand"
        for value in _known(row, [name])
    ]
    parts += [f"longest without a hand {value:.1f} s" for value in _known(row, ["any_hand_gap_s"])]
    parts += [f"{value:g} side swaps" for value in _known(row, ["side_swaps"]) if value]
    return ", ".join(parts)


def _known(row: ClipQuality, names: Iterable[str]) -> list[float]:
    return [float(getattr(row, name)) for name in names if getattr(row, name) is not None]


def _column(rows: Iterable[ClipQuality], name: str) -> list[float]:
    return [value for row in rows for value in _known(row, [name])]


def _jitters(rows: Iterable[ClipQuality]) -> list[float]:
    return [max(found) for row in rows
            if (found := _known(row, ("left_hand_jitter", "right_hand_jitter")))]  # fmt: skip


def _shown(row: ClipQuality) -> float:
    """How much of the clip was found, 0 to 1: hands count most."""
    hands = _known(row, ["any_hand"]) + _known(row, ["left_hand", "right_hand"])
    return mean(hands or _known(row, GROUP_LABELS) or [0.0])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


MARKS = {
    "left_hand": ("<", ORANGE), "right_hand": (">", BLUE), "any_hand": ("o", INK),
    "pose": ("s", GREEN), "lips": ("d", PURPLE), "face_outline": ("v", GREY),
}  # fmt: skip
OTHERS = {
    "any_hand_gap_s": "longest time without a hand, s",
    "left_hand_jitter": "jitter of the left hand, palms",
    "right_hand_jitter": "jitter of the right hand, palms",
    "side_swaps": "side swaps",
    "fps": "frames a second",
    "seconds": "duration, s",
}
BINS = 20
TICKS = MaxNLocator(nbins=6, steps=[1, 2, 5, 10])


def draw_distributions(rows: Sequence[ClipQuality], limits: Mapping[str, float]) -> list[Chart]:
    """Histograms of the clips, one panel a figure; a dashed line where warnings begin.

    Args:
        rows: The quality table.
        limits: Where warnings begin, by the name of the column; those of shares 0 to 1.
    """
    shares = {name: f"frames with {name.replace('_', ' ')}, %" for name in MARKS}
    charts = []
    for name, title in (shares | OTHERS).items():
        scale = 100 if name in shares else 1
        values = [float(scale * v) for row in rows if (v := getattr(row, name)) is not None]
        if not values:
            continue
        label = f"Clips by {title}: {min(values):.3g} to {max(values):.3g}, median "
        label += f"{median(values):.3g}"
        with style():
            figure, (panel,) = build_panels(1, height=1.6, width=THIRD)
            _histogram(panel, values, is_share=name in shares)
            if name in limits:
                limit = scale * limits[name]
                panel.axvline(limit, color=RED, linewidth=1.2, linestyle=(0, (3, 3)))
                label += f"; warnings begin at {limit:g}"
            panel.set_title(title)
            svg = render_svg(figure)
        charts.append(Chart(name=f"quality-{name.replace('_', '-')}", svg=svg, label=label))
    return charts


def draw_signers(by_signer: Sequence[Mapping[str, Any]]) -> Chart:
    """How often each group of landmarks is found, by signer; those with the least hands."""
    names = [name for name in MARKS if any(row[name] is not None for row in by_signer)]
    first = "any_hand" if "any_hand" in names else names[0]
    shown = sorted(by_signer, key=lambda row: (row[first] or 0.0, row["name"]))[:MAX_ROWS]
    shown = sorted(shown, key=lambda row: str(row["name"]), reverse=True)
    with style():
        figure, (panel,) = build_panels(1, height=0.27 * max(len(shown), 4) + 1.4, width=HALF)
        lowest = 1.0
        for name in names:
            mark, colour = MARKS[name]
            found = [(row[name], place) for place, row in enumerate(shown) if row[name] is not None]
            lowest = min([lowest, *(share for share, _ in found)])
            panel.plot([100 * share for share, _ in found], [place for _, place in found], mark,
                       color=colour, label=name.replace("_", " "), markersize=6,
                       alpha=0.85)  # fmt: skip
        panel.set_yticks(range(len(shown)), [shorten(str(row["name"])) for row in shown])
        panel.set_ylim(-0.6, len(shown) - 0.4)
        low = 100 * lowest - 1 - 5 * (1 - lowest)
        panel.set_xlim(low, 100 + 0.02 * (100 - low))  # a mark at 100 is whole
        panel.set_xticks([tick for tick in TICKS.tick_values(low, 100) if tick <= 100])
        panel.set_title("frames in which it was found, %, by signer")
        figure.legend(loc="outside lower center", ncols=3, columnspacing=1,
                      handletextpad=0.1)  # fmt: skip
        svg = render_svg(figure)
    label = "Share of frames in which hands and body were found, by signer; the table below has it"
    return Chart(name="signers", svg=svg, label=label)


def _histogram(panel: Axes, values: Sequence[float], *, is_share: bool) -> None:
    top = 100.0 if is_share else max([*values, 1e-9])
    low = 0.0 if is_share or min(values) < top / 2 else min(values)
    if top - low < 1e-6:  # one value: a bar of its own, not one as wide as the panel
        low, top = low - 0.5, top + 0.5
        panel.set_xticks([values[0]])
    else:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    edges = [low + (top - low) * step / BINS for step in range(BINS + 1)]
    panel.hist(values, bins=edges, color=BLUE)
    panel.set_xlim(low, top)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    panel.grid(axis="x", visible=False)
