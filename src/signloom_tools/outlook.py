"""Models of parts of the training set: a learning curve over signers, and cross-validation."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from signloom.devices import pick_device
from signloom.errors import UserError, count_of
from signloom.evaluation.compare import enlarge
from signloom.evaluation.metric_names import GLOSS_WER, LEAST_SIGNERS, Metric, headline_metric
from signloom.evaluation.metrics import (
    INTERVAL,
    Estimate,
    FloatArray,
    Score,
    ScoreOptions,
    Statistics,
    count_gloss_wer,
    score_corpus,
    score_statistics,
)
from signloom.evaluation.recognition import (
    HeldOutLabels,
    count_signed,
    drop_new,
    glosses_of,
    read_lines,
)
from signloom.evaluation.systems import plain_texts
from signloom.features.sources import Source, SourceSequence, open_source
from signloom.features.targets import NO_LABELS, Target, read_labels, read_targets
from signloom.features.tokenizer import Tokenizer
from signloom.progress import progress_file
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.train import RunOptions, from_scratch, prepare, train
from signloom.translation.options import DECODING, SignSearch
from signloom.translation.translator import Translator

STEPS = 3600  # of all models together: about five CPU-minutes on the demo
RESAMPLES = 2000
WIDE = 30.0  # points: a wider interval is reported as unknown
GREEDY = replace(DECODING, beam_size=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookResult:
    """What a model of some signers gets right of a signer whom it has not seen."""

    signers: int  # that it learnt from
    draw: int
    signer: str  # who was left out
    right: float  # of single words the texts, of sentences the words: 100 - WER; 0 to 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A learning curve, each figure with its 95 % interval."""

    curve: Mapping[int, Estimate]  # by the number of signers
    doubling: Estimate  # points that twice as many signers have brought, mean of the steps
    expected: Mapping[int, Estimate]  # with more signers than there are

    def lines(self) -> list[str]:
        """Return what a person reads."""
        lines = [
            f"with {count:>2} signers {estimate.value:.0f} % "
            f"({estimate.low:.0f} to {estimate.high:.0f})"
            for count, estimate in self.curve.items()
        ]
        gain = self.doubling
        lines.append(
            "each doubling of the signers, and of the takes with them, has brought "
            f"{gain.value:.0f} points ({gain.low:.0f} to {gain.high:.0f})"
        )
        for count, estimate in self.expected.items():
            if estimate.high - estimate.low > WIDE:
                lines.append(
                    f"with {count} signers anything from {estimate.low:.0f} to "
                    f"{estimate.high:.0f} % is possible: these signers are too few to tell"
                )
            else:
                lines.append(
                    f"with {count} we would expect {estimate.low:.0f} to {estimate.high:.0f} %"
                )
        if self.doubling.low <= 0:
            lines.append("whether more people help cannot be told from these: test on more of them")
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model that is to be trained, and on whom it is tested."""

    draw: int
    known: tuple[str, ...]
    left_out: tuple[str, ...]


def plan_trainings(signers: Sequence[str], draws: int, seed: int) -> list[Training]:
    """Choose who is learnt from and who is left out.

    In each draw fewer signers are part of more, and all of its models are tested on the same ones.

    Args:
        signers: Of the training set.
        draws: Orders of the signers.
        seed: Decides them.

    Raises:
        UserError: If there are too few.
    """
    names = sorted({*signers})
    if len(names) < LEAST_SIGNERS:
        raise UserError(
            f"train has {count_of(len(names), 'signer')}; an outlook needs {LEAST_SIGNERS} or "
            "more, since it tests on those it leaves out. Record more people first"
        )
    most = 2 ** int(math.log2(len(names) - 1))
    generator = np.random.default_rng(seed)
    plan = []
    for draw in range(draws):
        order = [names[number] for number in generator.permutation(len(names))]
        sizes = [2**power for power in range(int(math.log2(most)) + 1)]
        plan += [
            Training(draw=draw, known=tuple(order[:size]), left_out=tuple(order[most:]))
            for size in sizes
        ]
    return plan


def measure_outlook(
    files: TrainingFiles,
    options: RunOptions,
    scoring: ScoreOptions,
    *,
    draws: int,
    steps: int | None,
    seed: int,
) -> list[OutlookResult]:
    """Train and test the models of `plan_trainings`.

    Dev chooses the epoch, but with `train.patience: 0`; neither it nor test is tested on.

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
    source, sequences, of_train, dev = _read(files, options)
    words = headline_metric(target.text for target in of_train) == Metric.EXACT
    plan = plan_trainings([target.signer for target in of_train], draws, seed)
    results = []
    for training in tqdm(plan, "training", unit=" models", file=progress_file()):
        known_targets = [target for target in of_train if target.signer in training.known]
        data = _gather(files, options, source, [*known_targets, *dev])
        run_options = _at_steps(data, options, steps or STEPS // len(plan), seed + training.draw)
        translator = _learn(data, run_options)
        longest = max(len(target.ids) for target in of_train)
        for who in training.left_out:
            tested = [target for target in of_train if target.signer == who]
            right = _score(translator, tested, sequences, longest, scoring, words=words)
            results.append(
                OutlookResult(
                    signers=len(training.known), draw=training.draw, signer=who, right=right
                )
            )
    return results


def _read(
    files: TrainingFiles, options: RunOptions
) -> tuple[Source, Mapping[str, SourceSequence], list[Target], list[Target]]:
    """Return the source of a corpus, its clips by name, and the train and dev targets."""
    source = open_source(options.model.source, shards=files.shards, targets=files.targets)
    targets = read_targets(files.targets)
    sequences = source.read(targets, files.shards)
    readable = [target for target in targets if target.clip_id in sequences]
    train, dev = (
        [target for target in readable if target.split == name] for name in ("train", "dev")
    )
    return source, sequences, train, dev


def _gather(
    files: TrainingFiles, options: RunOptions, source: Source, targets: Sequence[Target]
) -> TrainingData:
    train, dev = source.open_clips(targets, files.shards, cache_mb=options.train.cache_mb)
    return TrainingData(
        train=train,
        dev=dev,
        tokenizer=Tokenizer.load(files.tokenizer),
        labels=read_labels(files.labels),
    )


def _learn(data: TrainingData, options: RunOptions) -> Translator:
    checkpoint, _ = train(data, options, provenance={}, log=lambda record: None)
    return Translator(checkpoint, pick_device(options.train.device))


def read_folds(
    files: TrainingFiles, options: RunOptions, count: int
) -> tuple[Translator, list[HeldOutLabels]]:
    """Read each training clip by a model of the other folds, fold by fold with another seed.

    Dev decides the epoch. Where it decides none (`train.patience: 0`), its clips are dealt as well,
    except those with a sign that train lacks. New sentences of train's pieces are left out.

    Raises:
        UserError: If the model reads no signs, or there are too few clips.
    """
    source, sequences, dealt, dev = _read(files, options)
    if not options.train.patience:
        dealt, dev = [*dealt, *dev], []
    labels = read_labels(files.labels) if options.train.ctc_weight else NO_LABELS
    dealt = [
        replace(target, split="train", labels=spelt)
        for target in drop_new(sorted(dealt, key=lambda target: target.clip_id))
        if (spelt := labels.spell(target.text, target.gloss))
    ]
    if labels.kind != "glosses" or not 1 < count <= len(dealt):
        raise UserError(
            f"--folds: found {count} of {len(dealt)} clips with glosses, and CTC for "
            f"{labels.kind}; expected 2 or more, at most the clips, and tokenize_targets.ctc "
            "glosses"
        )
    seeds, reads = options.train.seeds, []
    order = np.random.default_rng(seeds[0]).permutation(len(dealt)).tolist()
    for fold in tqdm(range(count), "training", unit=" models", file=progress_file()):
        held_out = [dealt[number] for number in order[fold::count]]
        names = {target.clip_id for target in held_out}
        train_targets = [target for target in dealt if target.clip_id not in names]
        stopping_targets = dev or [replace(target, split="dev") for target in held_out]
        train_options = replace(options.train, seeds=[seeds[fold % len(seeds)]], start_from="")
        data = _gather(files, options, source, [*train_targets, *stopping_targets])
        translator = _learn(data, replace(options, train=train_options))
        read = translator.label_log_probs([sequences[target.clip_id] for target in held_out])
        reads.append(HeldOutLabels(read, held_out, count_signed(translator, train_targets)))
    return translator, reads


def score_folds(
    translator: Translator,
    folds: Sequence[HeldOutLabels],
    search: SignSearch,
    scoring: ScoreOptions,
) -> Score:
    """Return the error rate of the signs of all folds, read by a search."""
    references = glosses_of([target for fold in folds for target in fold.targets])
    counted = count_gloss_wer(read_lines(translator, folds, search), references, scoring)
    return score_statistics(Statistics(parts=(counted,)), scoring)[GLOSS_WER]


def _at_steps(data: TrainingData, options: RunOptions, steps: int, seed: int) -> RunOptions:
    """Return the options with as many epochs as make that many steps, none of which is skipped."""
    plain = from_scratch(options)
    plain = replace(plain, train=replace(plain.train, seeds=[seed]))
    epochs = math.ceil(steps / prepare(data, plain, provenance={})[1].steps)
    section = replace(plain.train, epochs=epochs, patience=epochs if plain.train.patience else 0)
    return replace(plain, train=section)


def _score(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    longest: int,
    scoring: ScoreOptions,
    *,
    words: bool,
) -> float:
    greedy = replace(GREEDY, max_tokens=min(longest, GREEDY.max_tokens))
    clips = [sequences[target.clip_id] for target in targets]
    texts = plain_texts(translator.translate(clips, greedy))
    scores = score_corpus(texts, [target.text for target in targets], scoring)
    return scores[Metric.EXACT].value if words else max(0.0, 100 - scores[Metric.WER].value)


def have_signers(files: TrainingFiles) -> int:
    """Return how many signers train has."""
    return len({target.signer for target in read_targets(files.targets) if target.split == "train"})


def draw_outlook(results: Sequence[OutlookResult], have: int, seed: int) -> Outlook:
    """Sum results up, with intervals over draws and over the signers left out.

    Expected is what a line over the logarithm of the number of signers gives, in log odds below a
    ceiling: some people sign something else, and no number of others teaches that. Nothing is known
    of it but that it lies between the best and 100.

    Args:
        results: Of two sizes or more.
        have: Signers in the training set.
        seed: Of the resamples.
    """
    sizes = sorted({result.signers for result in results})
    units = sorted({(result.draw, result.signer) for result in results})
    table = {(result.signers, result.draw, result.signer): result.right for result in results}
    values = np.array([[table[size, *unit] for size in sizes] for unit in units])
    # As many are left out in every draw.
    draws = len({draw for draw, _ in units})
    tested = len(units) // draws
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, draws, (RESAMPLES, draws, 1))
    within = generator.integers(0, tested, (RESAMPLES, draws, tested))
    rows = (chosen * tested + within).reshape(RESAMPLES, -1)
    means, centre = values[rows].mean(axis=1), values.mean(axis=0)
    logs = np.log2(sizes)
    doubling = _estimate(
        (centre[-1] - centre[0]) / logs[-1], (means[:, -1] - means[:, 0]) / logs[-1]
    )
    people = len({signer for _, signer in units})
    ends = enlarge(doubling.value, (doubling.low, doubling.high), people)
    low, high = (min(max(end, -100.0), 100.0) for end in ends)
    return Outlook(
        curve={size: _estimate(centre[n], means[:, n]) for n, size in enumerate(sizes)},
        doubling=replace(doubling, low=low, high=high),
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
    expected = (ceilings / (1 + np.exp(-odds))).clip(0, 100)
    return _estimate(float(np.median(expected)), expected)


def _line(logs: FloatArray, rows: FloatArray, at: float) -> FloatArray:
    slope, start = np.polyfit(logs, rows.T, 1)
    return np.asarray(start + slope * at)


def _estimate(value: float, resampled: FloatArray) -> Estimate:
    low, high = np.quantile(resampled, INTERVAL)
    return Estimate(value=float(value), low=float(low), high=float(high))


def to_map(outlook: Outlook, results: Sequence[OutlookResult]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        **dataclasses.asdict(outlook),
        "results": [dataclasses.asdict(result) for result in results],
    }
