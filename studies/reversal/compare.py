"""The families of document 004's course on the reduced lab, each with three seeds, as a table.

Usage: python -m studies.reversal.compare
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from pipeline.stage import run
from studies.reversal.lab import REDUCED, read_lab, run_lab

SEEDS = (1, 2, 3)
PLAIN = ("model.attention=none",)
ONE_WAY = ("model.bidirectional=false",)
POST = ("model.norm=post", "model.encoder_norm=false", "model.decoder_norm=false")
TWO_LAYERS = ("model.encoder_layers=2", "model.decoder_layers=2")
# By the course's number and a name: family and what else is changed.
MODELS: dict[tuple[str, str], tuple[str, ...]] = {
    ("T1", "RNN, one way, no attention"): ("rnn", *PLAIN, *ONE_WAY),
    ("", "GRU, one way, no attention"): ("gru", *PLAIN, *ONE_WAY),
    ("", "LSTM, one way, no attention"): ("lstm", *PLAIN, *ONE_WAY),
    ("T2", "RNN, both ways, no attention"): ("rnn", *PLAIN),
    ("", "GRU, both ways, no attention"): ("gru", *PLAIN),
    ("", "LSTM, both ways, no attention"): ("lstm", *PLAIN),
    ("T3", "RNN, both ways, additive (Bahdanau)"): ("rnn",),
    ("", "GRU, both ways, additive"): ("gru",),
    ("", "LSTM, one way, additive"): ("lstm", *ONE_WAY),
    ("T4", "encoder-only, 1 layer"): ("encoder_only",),
    ("", "encoder-only, 2 layers"): ("encoder_only", *TWO_LAYERS),
    ("", "decoder-only, 1 layer"): ("decoder_only",),
    ("", "decoder-only, 2 layers"): ("decoder_only", *TWO_LAYERS),
    ("T5", "Transformer as in document 004 (post-norm, no last norms)"): ("transformer", *POST),
}


def compare(
    models: Mapping[tuple[str, str], Sequence[str]],
    seeds: Sequence[int] = SEEDS,
    changes: Sequence[str] = (),
) -> Iterator[str]:
    """Train each model with each seed; yield the lines of a table of the means, in Markdown."""
    yield "| | model | exact match | of 3 symbols | of 6 symbols |"
    yield "|---|---|---|---|---|"
    for (number, name), (family, *others) in models.items():
        assignments = (*REDUCED, f"model.family={family}", *others, *changes)
        labs = [read_lab((*assignments, f"train.seeds=[{seed}]")) for seed in seeds]
        results = [run_lab(lab, log=lambda record: None) for lab in labs]
        exact = 100 * statistics.mean(result.exact for result in results)
        lengths = [
            f"{100 * statistics.mean(result.by_length.get(n, 0.0) for result in results):.0f} %"
            for n in (3, 6)
        ]
        yield f"| {number} | {name} | {exact:.1f} % | {' | '.join(lengths)} |"


def main() -> None:
    """Print the table."""
    for line in compare(MODELS):
        print(line, flush=True)


if __name__ == "__main__":
    run(main)
