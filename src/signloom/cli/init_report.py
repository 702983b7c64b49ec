"""What `signloom init` says: the plan of a corpus, and what to set afterwards."""

import argparse
from collections import Counter

from signloom.config import update_params
from signloom.corpus.manifest import SPLITS
from signloom.corpus.setup.build import MANIFEST, imported_groups
from signloom.corpus.setup.plan import Plan, count_reasons


def print_plan(plan: Plan) -> None:
    """Say what will be taken, what not and why."""
    print(f"{len(plan.clips)} rows taken, {len(plan.refusals)} left out")
    for split in SPLITS:
        clips = [clip for clip in plan.clips if clip.split == split]
        signers = len({clip.signer for clip in clips})
        texts = len({clip.text for clip in clips})
        print(f"  {split:<5} {len(clips)} clips, {signers} signers, {texts} different texts")
    if plan.clips:
        one = plan.clips[0]
        print(f"  first {one.clip_id}: {one.text!r} by {one.signer}")
    if plan.renamed:
        print(f"  {plan.renamed} names hold characters that a clip_id may not; they became _")
    if shared := plan.shared_signers():
        splits = Counter(" and ".join(splits) for splits in shared.values())
        parts = ", ".join(f"{count} in {names}" for names, count in splits.items())
        print(f"  signers in several splits: {parts}. Scores then say little about other signers")
    for reason, count, row in count_reasons(plan.refusals):
        detail = f": {row.detail}" if row.detail else ""
        print(f"  left out {count}: {reason} (first {row.table} line {row.line}{detail})")


def print_next(options: argparse.Namespace, plan: Plan) -> None:
    """Name the parameters to set, or set them."""
    values: dict[str, dict[str, object]] = {
        "corpus": {
            "folder": options.corpus.as_posix(),
            "manifest": MANIFEST,
            "signer_disjoint": not plan.shared_signers(),
        }
    }
    if options.text_only:
        values |= {
            "tokenize_targets": {"source": "subwords"},
            "model": {"source": "tokens", "subsampling": 1},
            "train": {"ctc_weight": 0.0},
        }
    elif not any(clip.gloss for clip in plan.clips):
        values["tokenize_targets"] = {"ctc": "characters"}  # there are no glosses to spell
    if groups := imported_groups(options.corpus):
        values["features"] = {"groups": groups}
        if "pose" not in groups:
            values["features"]["normalise"] = "picture"  # the body's place is not known
    if options.use:
        update_params(options.params, values)
        print(f"{options.params} names the corpus now; go on with `dvc repro`")
    else:
        print(f"set in {options.params} (or say --use), then `dvc repro`:")
    for section, keys in values.items():
        for key, value in keys.items():
            print(f"  {section}.{key}: {str(value).lower() if value in (True, False) else value}")
