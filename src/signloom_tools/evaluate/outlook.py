"""A learning curve over signers: models of few and of more signers, tested on signers left out."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from signloom.devices import pick_device
from signloom.errors import UserError
from signloom.evaluation.judge import Estimate
from signloom.evaluation.metrics import INTERVAL, FloatArray, ScoreOptions, score_corpus
from signloom.evaluation.names import Metric, headline_metric
from signloom.evaluation.systems import plain_texts
from signloom.features.sources import SourceSequence, open_source
from signloom.features.targets import Target, read_labels, read_targets
from signloom.features.tokenizer import Tokenizer
from signloom.progress import progress_file
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.run import RunOptions, from_scratch, prepare, train
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator

LEAST = 3  # signers of train: one to learn from, two, and one to be tested on
STEPS = 3600  # of all models together: about five CPU-minutes on the demo
RESAMPLES = 2000
WIDE = 30.0  # points: a wider interval is reported as unknown
GREEDY = dataclasses.replace(DECODING, beam_size=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookResult:
    """What a model of some signers gets right of a signer whom it has not seen."""

    signers: int  # that it learnt from
    share: float  # of their takes
    draw: int
    signer: str  # who was left out
    right: float  # of single words the texts, of sentences the words: 100 - WER; 0 to 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A learning curve, each figure with its 95 % interval."""

    curve: Mapping[int, Estimate]  # by the number of signers
    doubling: Estimate  # points that twice as many signers have brought, mean of the steps
    takes: Estimate | None  # points that twice as many takes by the same signers have brought
    expected: Mapping[int, Estimate]  # with more signers than there are

    def lines(self) -> list[str]:
        """Return what a person reads."""
        found = [
            f"with {count:>2} signers {one.value:.0f} % ({one.low:.0f} to {one.high:.0f})"
            for count, one in self.curve.items()
        ]
        doubling = "each doubling of the signers, and of the takes with them, has brought"
        takes = "twice the takes by the same people bring"
        found += [
            f"{source} {one.value:.0f} points ({one.low:.0f} to {one.high:.0f})"
            for source, one in ((doubling, self.doubling), (takes, self.takes))
            if one is not None
        ]
        for count, one in self.expected.items():
            if one.high - one.low > WIDE:
                found.append(
                    f"with {count} signers anything from {one.low:.0f} to {one.high:.0f} % is "
                    "possible: these signers are too few to tell"
                )
            else:
                found.append(f"with {count} we would expect {one.low:.0f} to {one.high:.0f} %")
        if self.doubling.low <= 0:
            found.append("whether more people help cannot be told from these: test on more of them")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model that is to be trained, and on whom it is tested."""

    draw: int
    known: tuple[str, ...]
    share: float
    left_out: tuple[str, ...]


def plan_trainings(signers: Sequence[str], draws: int, seed: int) -> list[Training]:
    """Choose who is learnt from and who is left out.

    In each draw fewer signers are part of more, and all of its models are tested on the same ones.

    Args:
        signers: Of train.
        draws: Orders of the signers.
        seed: Decides them.

    Raises:
        UserError: If there are too few.
    """
    names = sorted({*signers})
    if len(names) < LEAST:
        raise UserError(
            f"train has {len(names)} signers; an outlook needs {LEAST} or more, since it tests on "
            "those it leaves out. Record more people first"
        )
    most = 2 ** int(math.log2(len(names) - 1))
    generator = np.random.default_rng(seed)
    plan = []
    for draw in range(draws):
        order = [names[number] for number in generator.permutation(len(names))]
        sizes = [2**power for power in range(int(math.log2(most)) + 1)]
        plan += [
            Training(
                draw=draw, known=tuple(order[:size]), share=share, left_out=tuple(order[most:])
            )
            for size, share in [*((size, 1.0) for size in sizes), (most, 0.5)]
        ]
    return plan


def measure_outlook(
    files: TrainingFiles, options: RunOptions, scoring: ScoreOptions, *,
    draws: int, steps: int | None, seed: int,
) -> list[OutlookResult]:  # fmt: skip
    """Train and test the models of `plan_trainings`.

    Dev chooses the epoch, as ever; neither it nor test is tested on.

    Args:
        files: The corpus, as the stages left it.
        options: The project's; trained from scratch.
        scoring: Says what a word is.
        draws: Orders of the signers.
        steps: Of each training, about; None: its share of `STEPS`.
        seed: Decides all.

    Raises:
        UserError: If there are too few signers, or clips without landmarks.
    """
    source = open_source(options.model.source, shards=files.shards, targets=files.targets)
    targets = read_targets(files.targets)
    sequences = source.read(targets, files.shards)
    targets = [one for one in targets if one.clip_id in sequences]
    of_train = [one for one in targets if one.split == "train"]
    dev = [one for one in targets if one.split == "dev"]
    words = headline_metric(one.text for one in of_train) == Metric.EXACT
    plan = plan_trainings([one.signer for one in of_train], draws, seed)
    results = []
    for training in tqdm(plan, "training", unit=" models", file=progress_file()):
        generator = np.random.default_rng((seed, training.draw))
        known = [
            one for who in training.known for one in _some(of_train, who, training.share, generator)
        ]
        clips = source.open_clips([*known, *dev], files.shards, cache_mb=options.train.cache_mb)
        data = TrainingData(
            train=clips[0], dev=clips[1], tokenizer=Tokenizer.load(files.tokenizer),
            labels=read_labels(files.labels),
        )  # fmt: skip
        own = _at_steps(data, options, steps or STEPS // len(plan), seed + training.draw)
        checkpoint, _ = train(data, own, provenance={}, log=lambda record: None)
        translator = Translator(checkpoint, pick_device(own.train.device))
        longest = max(len(one.ids) for one in of_train)
        for who in training.left_out:
            tested = [one for one in of_train if one.signer == who]
            right = _score(translator, tested, sequences, longest, scoring, words=words)
            results.append(
                OutlookResult(signers=len(training.known), share=training.share, draw=training.draw,
                       signer=who, right=right)
            )  # fmt: skip
    return results


def _some(
    targets: Sequence[Target], who: str, share: float, generator: np.random.Generator
) -> list[Target]:
    own = [one for one in targets if one.signer == who]
    kept = generator.permutation(len(own))[: max(1, round(share * len(own)))]
    return [own[number] for number in sorted(kept.tolist())]


def _at_steps(data: TrainingData, options: RunOptions, steps: int, seed: int) -> RunOptions:
    """Return the options with as many epochs as make that many steps, none of which is skipped."""
    plain = from_scratch(options)
    plain = dataclasses.replace(plain, train=dataclasses.replace(plain.train, seeds=[seed]))
    epochs = math.ceil(steps / prepare(data, plain, provenance={})[1].steps)
    section = dataclasses.replace(plain.train, epochs=epochs, patience=epochs)
    return dataclasses.replace(plain, train=section)


def _score(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence],
    longest: int, scoring: ScoreOptions, *, words: bool,
) -> float:  # fmt: skip
    greedy = dataclasses.replace(GREEDY, max_tokens=min(longest, GREEDY.max_tokens))
    clips = [sequences[one.clip_id] for one in targets]
    texts = plain_texts(translator.translate(clips, greedy))
    scores = score_corpus(texts, [one.text for one in targets], scoring)
    return scores[Metric.EXACT].value if words else max(0.0, 100 - scores[Metric.WER].value)


def have_signers(files: TrainingFiles) -> int:
    """Return how many signers train has."""
    return len({one.signer for one in read_targets(files.targets) if one.split == "train"})


def draw_outlook(results: Sequence[OutlookResult], have: int, seed: int) -> Outlook:
    """Sum results up, with intervals over draws and over the signers left out.

    Expected is what a line over the logarithm of the number of signers gives, in log odds below a
    ceiling: some people sign something else, and no number of others teaches that. Nothing is known
    of it but that it lies between the best and 100.

    Args:
        results: Of two sizes or more.
        have: Signers of train.
        seed: Of the resamples.
    """
    sizes = sorted({one.signers for one in results})
    units = sorted({(one.draw, one.signer) for one in results})
    table = {(one.signers, one.share, one.draw, one.signer): one.right for one in results}
    values = np.array([[table[size, 1.0, *unit] for size in sizes] for unit in units])
    halves = np.array([table.get((sizes[-1], 0.5, *unit), np.nan) for unit in units])
    # As many are left out in every draw.
    draws = len({draw for draw, _ in units})
    tested = len(units) // draws
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, draws, (RESAMPLES, draws, 1))
    within = generator.integers(0, tested, (RESAMPLES, draws, tested))
    rows = (chosen * tested + within).reshape(RESAMPLES, -1)
    means, centre, gains = values[rows].mean(axis=1), values.mean(axis=0), values[:, -1] - halves
    logs = np.log2(sizes)
    return Outlook(
        curve={size: _estimate(centre[n], means[:, n]) for n, size in enumerate(sizes)},
        doubling=_estimate(
            (centre[-1] - centre[0]) / logs[-1], (means[:, -1] - means[:, 0]) / logs[-1]
        ),
        takes=(
            None if np.isnan(halves).any() else _estimate(gains.mean(), gains[rows].mean(axis=1))
        ),
        expected={
            count: _expect(logs, means, math.log2(count), generator)
            for count in (have, 2 * have)
            if count > sizes[-1]
        },
    )


def _expect(
    logs: FloatArray, means: FloatArray, at: float, generator: np.random.Generator
) -> Estimate:
    """Return what a line in log odds gives, below a ceiling that is drawn for each resample."""
    best = means.max(axis=1)
    ceilings = best + (2 * generator.random(len(means))).clip(0, 1) * (100 - best) + 1
    shares = (means / ceilings[:, None]).clip(0.02, 0.98)
    odds = _line(logs, np.log(shares / (1 - shares)), at)
    found = (ceilings / (1 + np.exp(-odds))).clip(0, 100)
    return _estimate(float(np.median(found)), found)


def _line(logs: FloatArray, rows: FloatArray, at: float) -> FloatArray:
    slope, start = np.polyfit(logs, rows.T, 1)
    return np.asarray(start + slope * at)


def _estimate(value: float, resampled: FloatArray) -> Estimate:
    low, high = np.quantile(resampled, INTERVAL)
    return Estimate(value=float(value), low=float(low), high=float(high))


def to_map(outlook: Outlook, results: Sequence[OutlookResult]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {**dataclasses.asdict(outlook), "results": [dataclasses.asdict(one) for one in results]}
