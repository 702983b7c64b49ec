"""The page of the study of architectures."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from pipeline.studies.charts import dots_figure, spread
from pipeline.studies.lengths import lengths_section, score_by_length
from signloom.evaluation.metrics import ScoreOptions
from signloom.report.study import Section, StudyPage, Table

Row = Mapping[str, Any]


COMMAND = "dvc repro pipeline/studies/architectures/dvc.yaml"
LENGTHS = (3, 5, 7)  # most words of each group but the last


def build_page(results: Mapping[str, Any], score: ScoreOptions) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    runs = results["corpus"]
    by_length = score_by_length(runs, score, LENGTHS)
    seeds = len({run["seed"] for run in runs})
    return StudyPage(
        title="Architectures, trained alike",
        lead=[
            "What do the architectures reach with the same data, recipe and number of epochs, and "
            "what do they cost?",
            _verdict(runs),
        ],
        sections=[_scores_section(runs, seeds), lengths_section(by_length, LENGTHS)],
        command=COMMAND,
    )


def _verdict(runs: Sequence[Row]) -> str:
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    bleu = {v: mean(_scores(runs, v, "test", "bleu4")) for v in variants}
    best, worst = max(variants, key=bleu.__getitem__), min(variants, key=bleu.__getitem__)
    return (
        f"On the corpus {best} comes first with a test BLEU-4 of {bleu[best]:.1f}, {worst} last "
        f"with {bleu[worst]:.1f}."
    )


def _scores(runs: Sequence[Row], variant: str, split: str, name: str) -> list[float]:
    return [run["scores"][split][name] for run in runs if run["variant"] == variant]


def _scores_section(runs: Sequence[Row], seeds: int) -> Section:
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    rows = []
    for variant in variants:
        own = [run for run in runs if run["variant"] == variant]
        rows.append(
            [
                variant,
                str(len(own)),
                f"{own[0]['parameters'] / 1e3:.0f} k",
                *(
                    spread(_scores(runs, variant, split, name))
                    for split in ("test", "dev")
                    for name in ("bleu4", "wer")
                ),
                f"{mean(run['best_epoch'] for run in own):.0f}",
                f"{mean(run['cpu_s'] for run in own):.0f}",
                f"{mean(run['memory_mb'] for run in own):.0f}",
                f"{mean(_scores(runs, variant, 'test', 'translate_ms')):.0f}",
            ]
        )
    epochs = max(run["epochs"] for run in runs)
    return Section(
        title="On the corpus",
        text=[
            f"The budget that is equal for all: {epochs} epochs of the same clips with the same "
            f"augmentation, batches, optimiser and losses, seeds: {seeds}; beam search as "
            "configured. Each run has a process of its own with one thread. Time is processor "
            "time of training, memory the growth of the process while it trains."
        ],
        parts=[
            dots_figure(
                "scores",
                {
                    title: {v: _scores(runs, v, "test", name) for v in variants}
                    for name, title in (("bleu4", "test BLEU-4"), ("wer", "test WER, %"))
                },
                label="Test BLEU-4 and word error rate of each variant; table below",
            ),
            Table(
                caption="Means over the seeds, with standard deviations. BLEU: "
                f"{runs[0]['scores']['test']['signature']}",
                header=["", "seeds", "parameters", "test BLEU-4", "test WER", "dev BLEU-4",
                        "dev WER", "best epoch", "CPU-s", "MB", "ms a clip"],
                rows=rows,
            ),
        ],
    )  # fmt: skip
