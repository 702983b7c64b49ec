"""The page of the soak."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from signloom.report import canvas
from signloom.report.canvas import BLUE, GREEN, GREY, MUTED, ORANGE, PURPLE
from signloom_tools.evaluate.study_page import Figure, Section, StudyPage, StudyTable

COMMAND = "make soak"
Week = Mapping[str, Any]
_ENDINGS = {
    "promoted": "new champion", "refused": "the gate refused it", "data_refused": "data refused",
    "nothing_new": "nothing new",
}  # fmt: skip
_FLAWS = {
    "swapped": "red and blue swapped", "mirrored": "mirrored", "lazy": "hands lost",
}  # fmt: skip


def build_page(weeks: Sequence[Week]) -> StudyPage:
    """Say what became of each week's delivery, and of the champion.

    Args:
        weeks: See `studies.soak.study.run_soak`.
    """
    return StudyPage(
        title="Twelve weeks of retraining",
        lead=[
            "Every week drawn signers record clips, every night after it `signloom retrain` runs, "
            "and nobody watches. Does the model get better, and does what is bad, or breaks, leave "
            "the champion alone? Judged on people whom no night ever sees.",
            *_verdict(weeks),
        ],
        sections=[_weeks_section(weeks), _findings_section(weeks)],
        command=COMMAND,
    )


def draw_weeks(weeks: Sequence[Week]) -> str:
    """Draw the hidden score of the champion and of each model trained, by week, as SVG."""
    numbers = [week["week"] for week in weeks]
    with canvas.style():
        figure, (panel,) = canvas.build_panels(1, height=4.2)
        for part, colour, label in (
            ("all", BLUE, "champion, all sentences"),
            ("new", PURPLE, "champion, sentences with a word of week 3"),
        ):
            champion = [_score(week, "champion", part) for week in weeks]
            panel.step(numbers, champion, where="post", color=colour, label=label)
        for outcome, mark, colour, label in (
            ("promoted", "o", GREEN, "trained and promoted"),
            ("refused", "X", ORANGE, "trained and refused"),
        ):
            own = [w for w in weeks if w["outcome"] == outcome and w["hidden"]["trained"]]
            panel.plot([w["week"] for w in own], [_score(w, "trained", "all") for w in own], mark,
                       color=colour, label=label)  # fmt: skip
        panel.set_ylim(0, 119)
        panel.set_yticks(range(0, 101, 20))
        for week in weeks:
            if week["event"]:
                bad = week["outcome"] == "data_refused"
                panel.axvline(week["week"], color=ORANGE if bad else GREY, linewidth=1,
                              linestyle=(0, (2, 3)), zorder=0)  # fmt: skip
                panel.text(week["week"] + 0.08, 117, week["event"], rotation=90, va="top",
                           color=ORANGE if bad else MUTED, fontsize=9)  # fmt: skip
        panel.set_xticks(numbers)
        panel.set_xlabel("week (0: the founding stock; a dotted line in orange: data refused)")
        panel.set_title("chrF on the hidden test, mean of the seeds")
        panel.legend(loc="lower right")
        return canvas.render_svg(figure)


def _score(week: Week, who: str, part: str) -> float:
    scores = week["hidden"][who]
    return scores[part]["chrf"] if scores and part in scores else float("nan")


def _verdict(weeks: Sequence[Week]) -> list[str]:
    crowned = [week for week in weeks if week["hidden"]["champion"]]
    if not crowned:
        return ["No model became champion."]
    first, last = crowned[0], crowned[-1]
    falls = [
        str(week["week"])
        for before, week in itertools.pairwise(crowned)
        if _score(week, "champion", "all") < _score(before, "champion", "all")
    ]
    endings = [week["outcome"] for week in weeks]
    return [
        f"By week {last['week']} the champion went from chrF "
        f"{_score(first, 'champion', 'all'):.1f} to {_score(last, 'champion', 'all'):.1f} (BLEU-4 "
        f"{first['hidden']['champion']['all']['bleu4']:.1f} to "
        f"{last['hidden']['champion']['all']['bleu4']:.1f}) on the hidden test; it fell in "
        f"{'week ' + ', '.join(falls) if falls else 'no week'}. {endings.count('promoted')} of the "
        f"models became champion, the gate refused {endings.count('refused')}.",
        _on_flaws(weeks),
        *_on_cuts(weeks),
    ]


def _on_flaws(weeks: Sequence[Week]) -> str:
    flawed = [week for week in weeks if week["flaws"]]
    taken = [week for week in flawed if week["outcome"] != "data_refused"]
    text = f"Of {len(flawed)} bad deliveries the data checks refused {len(flawed) - len(taken)}."
    for week in taken:
        became = "became champion" if week["outcome"] == "promoted" else "did not become champion"
        text += (
            f" That of week {week['week']} was taken in; the model trained with it {became}, and "
            "later models learnt from its clips, too."
        )
    return text


def _on_cuts(weeks: Sequence[Week]) -> list[str]:
    return [
        f"In week {week['week']} all processes of the night were killed as it trained. The same "
        f"command then ended with exit code {week['exit_code']}: {week['verdict']}."
        for week in weeks
        if week["was_killed"]
    ]


def _weeks_section(weeks: Sequence[Week]) -> Section:
    rows: list[list[str]] = []
    for week in weeks:
        champion, trained = week["hidden"]["champion"], week["hidden"]["trained"]
        rows.append(
            [
                str(week["week"]),
                str(week["event"] or "–"),
                f"{week['delivered']} / {week['ingested']}",
                str(week["drift"]["level"] or "–"),
                str(week["exit_code"]),
                str(_ENDINGS.get(week["outcome"], week["outcome"])),
                f"{trained['all']['chrf']:.1f}" if trained else "–",
                f"{week['champion']}: {champion['all']['chrf']:.1f}" if champion else "–",
                f"{champion['new']['chrf']:.1f}" if champion and "new" in champion else "–",
                f"{week['seconds']:.0f}",
            ]
        )
    return Section(
        title="Week by week",
        text=[
            "The champion's score on the hidden test, and that of each model trained. All its "
            "sentences count, those with words that nobody signs before week 3 too."
        ],
        parts=[
            Figure(name="weeks", svg=draw_weeks(weeks), caption="",
                   label="Hidden chrF of the champion and of each trained model by week"),
            StudyTable(
                caption="Decisions of the nights; chrF on the hidden test",
                header=["week", "event", "clips sent / taken in", "data check", "exit code",
                        "ending", "trained", "champion", "new words", "seconds"],
                rows=rows,
            ),
        ],
    )  # fmt: skip


def _findings_section(weeks: Sequence[Week]) -> Section:
    rows = [
        [str(week["week"]), finding["level"], finding["check"], finding["what"]]
        for week in weeks
        for finding in week["drift"]["findings"]
    ]
    flaws = [f"week {w['week']}: {_FLAWS[flaw]}" for w in weeks for flaw in w["flaws"]]
    return Section(
        title="What the data checks said",
        text=[f"Deliveries that were bad on purpose: {'; '.join(flaws) or 'none'}."],
        parts=[
            StudyTable(
                caption="Warnings and stops by week",
                header=["week", "level", "check", "finding"],
                rows=rows or [["–", "–", "–", "none"]],
            )
        ],
    )
