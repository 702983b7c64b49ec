"""The page of the study of architectures."""

from statistics import mean

from signloom.evaluation.metrics import ScoreOptions
from studies.charts import Groups, Row, build_table, group
from studies.sentences import lengths_section, score_by_length, score_columns, score_dots
from studies.study_page import Section, StudyPage

COMMAND = "python -m studies.architectures.run"
LENGTHS = (3, 5, 7)  # most words of each group but the last


def build_page(results: Row, score: ScoreOptions) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    groups = group(results["corpus"])
    by_length = score_by_length(results["corpus"], score, LENGTHS)
    bleu = {v: mean(row["scores"]["test"]["bleu4"] for row in rows) for v, rows in groups.items()}
    best, worst = max(bleu, key=bleu.__getitem__), min(bleu, key=bleu.__getitem__)
    return StudyPage(
        title="Architectures, trained alike",
        lead=[
            "What do the architectures reach with the same data, recipe and number of epochs, and "
            "what do they cost?",
            f"On the corpus {best} comes first with a test BLEU-4 of {bleu[best]:.1f}, {worst} "
            f"last with {bleu[worst]:.1f}.",
        ],
        sections=[_scores_section(groups), lengths_section(by_length, LENGTHS)],
        command=COMMAND,
    )


def _scores_section(groups: Groups) -> Section:
    runs = next(iter(groups.values()))
    return Section(
        title="On the corpus",
        text=[
            f"The budget that is equal for all: {max(run['epochs'] for run in runs)} epochs of the "
            "same clips with the same augmentation, batches, optimiser and losses, seeds: "
            f"{len(runs)}; beam search as configured. Each run has a process of its own with one "
            "thread. Time is processor time of training, memory the growth of the process while "
            "it trains."
        ],
        parts=[
            score_dots(groups),
            build_table(
                "Means over the seeds, with standard deviations. BLEU: "
                f"{runs[0]['scores']['test']['signature']}",
                groups,
                {
                    **score_columns(),
                    "best epoch": lambda rows: f"{mean(r['best_epoch'] for r in rows):.0f}",
                    "CPU-s": lambda rows: f"{mean(r['cpu_s'] for r in rows):.0f}",
                    "MB": lambda rows: f"{mean(r['memory_mb'] for r in rows):.0f}",
                    "ms a clip": lambda rows: (
                        f"{mean(r['scores']['test']['translate_ms'] for r in rows):.1f}"
                    ),
                },
            ),
        ],
    )
