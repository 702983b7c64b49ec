"""Linear attention in the encoder beside softmax: does it learn, and what does a pass cost?

`python -m studies.linear_attention.run` prints a table: exact match on the reversal lab with
three seeds, and the CPU time to encode one sequence of each length. Some five minutes of a CPU.

Katharopoulos et al. (2020), "Transformers are RNNs": softmax(q k) v becomes phi(q) (phi(k) v) with
phi(x) = elu(x) + 1, whose cost grows with the length and not with its square.
"""

import dataclasses
import logging
import time
from statistics import mean, median

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from pipeline.stage import run
from signloom.models.attention import MultiHeadAttention, Packing
from signloom.models.registry import build_model
from signloom.models.seq2seq import Seq2Seq
from studies.reversal.lab import read_lab, run_lab

SEEDS = (1, 2, 3)
LENGTHS = (64, 256, 1_024, 4_096)
REPEATS = 5  # of each time; the median is printed


class LinearAttention(MultiHeadAttention):
    """Self-attention both ways whose cost is linear in the length."""

    def attend_self(
        self,
        x: Float[Tensor, "B M D"],
        *,
        valid: Bool[Tensor, "B M"],
        is_causal: bool,
        distances: Float[Tensor, "N D"] | None,
        maps: list[Tensor] | None = None,
        packing: Packing | None = None,
    ) -> Float[Tensor, "B M D"] | Float[Tensor, "N D"]:
        """Mix the real positions; it has no maps, since no weight of a pair is ever computed."""
        if is_causal or not (distances is None and maps is None and packing is None):
            raise ValueError("linear attention here is both ways, and knows no distances and maps")
        pair = self.project(x)
        query = functional.elu(self._split(self.query(x))) + 1
        keys = (functional.elu(pair.keys) + 1) * valid[:, None, :, None]
        summed = keys.transpose(2, 3) @ pair.values
        total = query @ keys.sum(dim=2)[..., None]
        tiny = torch.finfo(x.dtype).tiny  # of a clip without real positions
        attended = query @ summed / total.clamp(min=tiny)
        mixed: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return mixed


def linearise(model: Seq2Seq) -> None:
    """Give the encoder of a Transformer linear attention; its weights stay as they are."""
    for module in model.get_submodule("encoder").modules():
        if type(module) is MultiHeadAttention:
            module.__class__ = LinearAttention


def main() -> None:
    """Train both kinds, time both kinds, print what came out."""
    logging.info("| attention | seed | exact match, % | CPU-s |\n|---|---|---|---|")
    for name, prepare in (("softmax", None), ("linear", linearise)):
        accuracies = []
        for seed in SEEDS:
            lab = read_lab([f"train.seeds=[{seed}]"])
            result = run_lab(lab, log=lambda record: None, prepare=prepare)
            accuracies.append(100 * result.exact)
            logging.info(f"| {name} | {seed} | {accuracies[-1]:.1f} | {result.cpu_s:.0f} |")
        logging.info(f"| {name} | mean | {mean(accuracies):.1f} | |")
    logging.info("\n| positions | softmax, CPU ms | linear, CPU ms |\n|---|---|---|")
    lab = read_lab([])
    models = [
        build_model(lab.model, input_width=21, vocab_size=21, ctc_labels=0, eos=2).eval()
        for _ in range(2)
    ]
    linearise(models[1])
    for length in LENGTHS:
        times = [f"{1000 * seconds_to_encode(model, length):.1f}" for model in models]
        logging.info(f"| {length:,} | {' | '.join(times)} |")
    logging.info(f"\n{dataclasses.asdict(lab.model)}, {torch.get_num_threads()} threads")


@torch.inference_mode()
def seconds_to_encode(model: Seq2Seq, length: int) -> float:
    """Return the median CPU time to encode one sequence of tokens."""
    src, valid = torch.ones(1, length, dtype=torch.int64), torch.ones(1, length, dtype=torch.bool)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        model.encode(src, valid)
        seconds.append(time.process_time() - start)
    return median(seconds[1:])


if __name__ == "__main__":
    run(main)
