"""The smallest of everything, for tests: D = 16, H = 2, V = 20."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from signloom.checkpoint import Checkpoint, CheckpointSpec, build_from_spec, save_checkpoint
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, Layout
from signloom.corpus.shards import write_shards
from signloom.features.augment import AugmentOptions
from signloom.features.features import FeatureOptions
from signloom.features.rests import find_signing, take_frames
from signloom.features.sources import Clips, LandmarkSource
from signloom.features.targets import NO_LABELS, CtcLabels, Target, write_labels, write_targets
from signloom.features.tokenizer import Tokenizer
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.paths import PARAMS, SHARDS, TOKENS
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.options import TrainOptions
from signloom.training.train import RunOptions
from signloom.translation.options import DecodingOptions
from signloom.tune.space import ConfirmOptions, TrialLimits, TuneOptions

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("SIGNLOOM_SHARED", ROOT.parent / "shared")) / "data"
INPUT_WIDTH = 6
VOCAB = 20
EOS = 2  # of the models that have to know it

MODEL = ModelOptions(
    family="transformer",
    source="landmarks",
    d_model=16,
    heads=2,
    encoder_layers=2,
    decoder_layers=2,
    d_ff=24,
    dropout=0.0,
    subsampling=1,
    conv_kernel=3,
)
FEATURES = FeatureOptions(
    fps=10.0, groups=("hands", "pose"), normalise="body", differences=1, max_gap_s=0.3
)
NO_AUGMENT = AugmentOptions(**{option.name: 0.0 for option in dataclasses.fields(AugmentOptions)})
AUGMENT = AugmentOptions(
    stretch=0.3,
    rotate_deg=10.0,
    scale=0.2,
    hand_shift=0.05,
    hand_scale=0.1,
    noise=0.01,
    mirror=0.5,
    hand_drop=0.5,
    time_mask=0.5,
    max_span=0.4,
)
TRAIN = TrainOptions(
    seeds=[3],
    device="cpu",
    epochs=2,
    patience=5,
    max_frames=80,
    cache_mb=100,
    learning_rate=0.003,
    warmup_steps=4,
    label_smoothing=0.1,
    ctc_weight=0.3,
    token_drop=0.1,
)


def shared(name: str) -> Path:
    """Return other people's data; skip the test where they are absent."""
    if not (SHARED / name).exists():
        pytest.skip(f"needs {SHARED / name}; set SIGNLOOM_SHARED to the folder above data/")
    return SHARED / name


def model(seed: int = 0, *, ctc_labels: int = 5, **changes: object) -> Seq2Seq:
    """Build a tiny model in evaluation mode."""
    torch.manual_seed(seed)
    options = dataclasses.replace(MODEL, **changes)
    built = build_model(
        options, input_width=INPUT_WIDTH, vocab_size=VOCAB, ctc_labels=ctc_labels, eos=EOS
    )
    return built.eval()


def decoding(**changes: Any) -> DecodingOptions:
    """Return options of a greedy search; keyword arguments change them."""
    return DecodingOptions(**{"beam_size": 1, "length_penalty": 1.0, "max_tokens": 12, **changes})


def source(seed: int, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random features (B, S, F) and their validity (B, S)."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randn(len(lengths), max(lengths), INPUT_WIDTH, generator=generator)
    valid = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    return src * valid[..., None], valid


def sequence(seed: int = 0, frames: int = 12, **changes: object) -> LandmarkSequence:
    """Return a smooth clip in which a signer's hands move; everything is present."""
    generator = np.random.default_rng(seed)
    points = np.empty((frames, HANDS_POSE.points, 3), dtype=np.float32)
    path = np.cumsum(generator.normal(0, 0.01, (frames, 1, 3)), axis=0)
    for hand, x in (("left_hand", 0.65), ("right_hand", 0.35)):
        marks = HANDS_POSE.slice(hand)
        shape = generator.normal(0, 0.03, (1, marks.stop - marks.start, 3))
        points[:, marks] = np.array([x, 0.6, 0.0]) + shape + path
    body = HANDS_POSE.slice("pose")
    names = HANDS_POSE.groups[HANDS_POSE.group("pose")].landmarks
    points[:, body] = generator.uniform(0.3, 0.7, (1, len(names), 3))
    points[:, HANDS_POSE.index("pose", "left_shoulder")] = (0.62, 0.45, 0)
    points[:, HANDS_POSE.index("pose", "right_shoulder")] = (0.38, 0.45, 0)
    present = np.ones((frames, len(HANDS_POSE.groups)), dtype=np.bool_)
    base = LandmarkSequence(points=points, present=present, fps=10.0, width=320, height=240)
    return dataclasses.replace(base, **changes)


def clip(layout: Layout, seed: int = 0, frames: int = 12) -> LandmarkSequence:
    """Return a smooth clip of any layout: a jumble of points that drift together."""
    generator = np.random.default_rng(seed)
    shape = generator.uniform(0.3, 0.7, (1, layout.points, 3))
    path = np.cumsum(generator.normal(0, 0.01, (frames, layout.points, 3)), axis=0)
    present = np.ones((frames, len(layout.groups)), dtype=np.bool_)
    points = (shape + path).astype(np.float32)
    return LandmarkSequence(
        points=points, present=present, fps=10.0, width=320, height=240, layout=layout
    )


def lose(clip: LandmarkSequence, group: str, frames: slice) -> LandmarkSequence:
    """Return the clip with a group absent in some frames."""
    points, present = clip.points.copy(), clip.present.copy()
    points[frames, clip.layout.slice(group)] = np.nan
    present[frames, clip.layout.group(group)] = False
    return dataclasses.replace(clip, points=points, present=present)


def trim_rests(clip: LandmarkSequence, rest_s: float) -> LandmarkSequence:
    """Return the clip without the stillness before and after its signing, as a model reads it."""
    return take_frames(clip, *find_signing(clip, rest_s))


def halve(clip: LandmarkSequence) -> LandmarkSequence:
    """Return the clip in half precision, as `extract` hands it over."""
    return dataclasses.replace(clip, points=clip.points.astype(np.float16).astype(np.float32))


SENTENCES = ("je vais", "tu vas", "je mange", "tu manges")


class Example(NamedTuple):
    """A clip in memory."""

    target: Target
    sequence: Any


def examples_of(clips: Clips) -> list[Example]:
    """Return the clips of a split, one by one."""
    return [*map(Example, clips.targets, clips.read(range(len(clips))))]


def training_data(clips: int = 8) -> TrainingData:
    """Return a corpus in which each sentence has its own movement."""
    tokenizer = Tokenizer.build(SENTENCES, "pruned")

    def example(number: int, split: str) -> Example:
        kind = number % len(SENTENCES)
        ids = [tokenizer.bos, *tokenizer.encode(SENTENCES[kind]), tokenizer.eos]
        target = Target(
            clip_id=f"{split}{number}",
            split=split,
            signer=split,
            text=SENTENCES[kind],
            ids=ids,
            gloss=f"G{kind}",
            labels=[kind + 1] if split == "train" else [],
        )
        return Example(target, sequence(kind, frames=10 + number % 3))

    provenance = {"name": "tiny"}
    return TrainingData(
        train=hold_clips([example(number, "train") for number in range(clips)], provenance),
        dev=hold_clips([example(number, "dev") for number in range(4)], provenance),
        tokenizer=tokenizer,
        labels=CtcLabels(kind="glosses", names=tuple(f"G{k}" for k in range(len(SENTENCES)))),
    )


def run_options(**changes: object) -> RunOptions:
    """Return options for a tiny run; keyword arguments change the section `train`."""
    return RunOptions(
        features=FEATURES, augment=AUGMENT, model=MODEL, train=dataclasses.replace(TRAIN, **changes)
    )


def tune_options(*, seed: int, trials: int, epochs: int, space: dict[str, Any]) -> TuneOptions:
    """Return the options of a small search."""
    return TuneOptions(
        seed=seed,
        trials=trials,
        epochs=epochs,
        objectives=("dev_loss",),
        storage="sqlite:///optuna.db",
        workers=1,
        heartbeat_s=5,
        limits=TrialLimits(),
        confirm=ConfirmOptions(top=0, seeds=1),
        tokenizer="13a",
        first=[],
        space=space,
    )


def write_project(folder: Path) -> TrainingFiles:
    """Write a project's params.yaml and the corpus of `training_data` as the stages would."""
    data = training_data()
    examples = sorted(
        examples_of(data.train) + examples_of(data.dev), key=lambda example: example.target.clip_id
    )
    files = TrainingFiles(shards=folder / SHARDS, tokens=folder / TOKENS)
    files.shards.parent.mkdir(parents=True)
    sequences = {example.target.clip_id: example.sequence for example in examples}
    write_clips(files.shards, sequences, '{"detector": "tiny"}')
    write_targets(files.targets, [example.target for example in examples])
    data.tokenizer.save(files.tokenizer)
    write_labels(files.labels, data.labels)
    space = {
        "model.norm": {"choices": ["pre", "post"]},
        "train.learning_rate": {"low": 0.001, "high": 0.02, "log": True},
    }
    tune = dataclasses.asdict(tune_options(seed=1, trials=2, epochs=2, space=space))
    options = dataclasses.asdict(run_options())
    del options["model"]["conv_kernel"]  # of the Conformer alone
    content = {
        **options,
        "tune": {**tune, "objectives": list(tune["objectives"])},
        "tracking": {"enabled": False, "experiment": "tiny"},
    }
    (folder / PARAMS).write_text(json.dumps(content, indent=1))  # JSON is YAML
    return files


def write_clips(
    folder: Path,
    clips: Mapping[str, LandmarkSequence],
    extractor: str = "{}",
    frames_per_shard: int = 1000,
) -> int:
    """Write clips of one layout as `extract` does."""
    return write_shards(
        folder,
        {name: len(clip.points) for name, clip in clips.items()},
        clips.__getitem__,
        layout=next(iter(clips.values())).layout,
        extractor=extractor,
        frames_per_shard=frames_per_shard,
    )


def checkpoint(tokenizer: Tokenizer | None = None, *, seed: int = 1, **of: Any) -> Checkpoint:
    """Return a tiny model with drawn weights; keyword arguments change its spec."""
    plain = CheckpointSpec(
        model=MODEL,
        features=FEATURES,
        source=LandmarkSource(layout=HANDS_POSE, extractor={}),
        ctc=NO_LABELS,
        provenance={},
    )
    spec = dataclasses.replace(plain, **of)
    tokenizer = tokenizer or Tokenizer.build(SENTENCES, "pruned")
    torch.manual_seed(seed)
    return Checkpoint(spec=spec, model=build_from_spec(spec, tokenizer).eval(), tokenizer=tokenizer)


def write_checkpoint(
    folder: Path,
    *,
    extractor: dict[str, Any] | None = None,
    layout: Layout = HANDS_POSE,
    features: FeatureOptions = FEATURES,
    ctc: CtcLabels = NO_LABELS,
    **changes: object,
) -> Path:
    """Write a tiny model with drawn weights; without an extractor, one of videos."""
    from signloom.extraction.extract import extractor_fingerprint
    from tests.extraction import OPTIONS

    extractor = extractor or json.loads(extractor_fingerprint(OPTIONS.detector_options))
    tiny_checkpoint = checkpoint(
        model=dataclasses.replace(MODEL, **changes),
        features=features,
        ctc=ctc,  # type: ignore[arg-type]
        source=LandmarkSource(layout=layout, extractor=extractor),
    )
    save_checkpoint(folder, tiny_checkpoint)
    return folder


def hold_clips(examples: Sequence[Example], extractor: Mapping[str, Any] | None = None) -> Clips:
    """Return examples of landmarks as clips."""
    sequences = [e.sequence for e in examples if isinstance(e.sequence, LandmarkSequence)]
    assert len(sequences) == len(examples) > 0
    return Clips(
        targets=[example.target for example in examples],
        frames=[len(sequence.points) for sequence in sequences],
        fps=[sequence.fps for sequence in sequences],
        source=LandmarkSource(layout=sequences[0].layout, extractor=dict(extractor or {})),
        read=lambda numbers: [sequences[number] for number in numbers],
    )


def write_params(folder: Path, text: str) -> Path:
    path = folder / "params.yaml"
    path.write_text(text)
    return path
