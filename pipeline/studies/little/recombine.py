"""Make a corpus folder of this project's clips and of new train clips: pieces of the labelled ones.

For corpora with glosses, after `dvc repro`: the model of `data/checkpoint` says where each gloss
is. Then set `corpus.folder: OUT` in params.yaml. The new clips are of several signers each.

Usage: python -m pipeline.studies.little.recombine OUT [--count 300] [--seed 1]
"""

import argparse
import dataclasses
import logging
from pathlib import Path

import torch

from pipeline.stage import run
from pipeline.studies.little.study import Teacher, copy_shards
from signloom.checkpoint import load_checkpoint
from signloom.config import load_section
from signloom.corpus.manifest import IMPORTED_SHARDS, CorpusOptions, read_manifest, write_manifest
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.importing.new_corpus import MANIFEST
from signloom.paths import CHECKPOINT, PARAMS, SHARDS

SIGNER = "several"  # of the new clips


def main() -> None:
    """Cut, recombine and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=300, help="new clips (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    given = parser.parse_args()
    if given.out.exists():
        raise UserError(f"{given.out} is there already; name a new folder")
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    checkpoint = load_checkpoint(CHECKPOINT, torch.device("cpu"))
    if checkpoint.spec.ctc.kind != "glosses":
        raise UserError(
            f"the CTC head of {CHECKPOINT} spells {checkpoint.spec.ctc.kind}, expected glosses; "
            "set tokenize_targets.ctc: glosses and train.ctc_weight above 0, and train"
        )
    sequences = read_shards(SHARDS)
    clips = [
        dataclasses.replace(clip, video=None, start_s=None, end_s=None)
        for clip in read_manifest(corpus.path, corpus.signer_disjoint)
        if clip.clip_id in sequences
    ]
    known = [clip for clip in clips if clip.split == "train" and clip.gloss]
    made, landmarks = Teacher(checkpoint, sequences).recombine(known, given.count, given.seed)
    made = [dataclasses.replace(clip, signer=SIGNER) for clip in made]
    copy_shards(SHARDS, given.out / IMPORTED_SHARDS, clips + made, {**sequences, **landmarks})
    write_manifest(given.out / MANIFEST, clips + made)
    logging.info("%s: %d clips, %d new ones", given.out, len(clips), len(made))


if __name__ == "__main__":
    run(main)
