"""The recipe of a corpus: parameters that fit its texts, clips and landmarks."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any

from pydantic import Field

from signloom.config import FrameRate, check_shape, load_params, shape
from signloom.corpus.landmarks import FEATURES
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS, Clip, is_single_word
from signloom.corpus.words import KnownSentences, find_words, is_unspaced
from signloom.errors import ClipError, count_of
from signloom.translation.options import USUAL_NGRAM
from signloom_tools.importing.dealing import shuffled_takes
from signloom_tools.importing.new_corpus import MANIFEST, imported_groups

Sections = dict[str, dict[str, object]]
PROBED = 30  # videos that are opened for their length
STEPS = 1000  # of training, about; with fewer a model of few clips learns too little
FRAMES = 1200  # of a batch of these steps; with glosses twice as many steps of half
# Times as many steps where signs in their order are all that is wanted, and where single ones are.
RECOGNISING, SINGLE = 2.3, 0.075
EPOCHS = (40, 300)  # fewest and most; of single signs the fewest are a quarter
SMALL_SIGNS = 800  # train clips of single signs below which a small model was measured to do
DECIDING = 100  # dev or test clips, with which a share of them is known to ±10 points
WRITABLE = 0.9  # least share of train clips whose characters CTC has to have room for
SLOW = 20  # frames a second below which the convolutions of glosses halve the rate only once
CUT = 1.1  # and how much longer they must be: rests are cut before a model reads a clip
_GUESSED_S = {True: 1.5, False: 4.0}  # of single signs and sentences whose length is not given
RECOMBINED = 200  # different sentences below which new ones of their pieces were measured to help
SIGN_WEIGHT = 0.2  # of what the signs say against a sentence
SMALL = 400  # train clips of sentences below which one training is a draw
SEEDS = [1, 2, 3]  # of these sentences, and of single signs
FEW = 50  # train clips below which sentences are also learnt by heart (studies/little/README.md)
NEW_TO_DEV = 0.5  # share of dev's sentences that train has, below which dev's loss cannot say when
TO_THE_END = 170  # and train clips without glosses (studies/little/README.md); with glosses `FEW`

_OF_CHARACTERS = ("zh", "char")  # tokenizers of scores
_CHINESE = ("zh", "cmn", "yue")  # zh parts Chinese characters and leaves kana, Thai ... whole
_OTHER_SCRIPTS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff]")

_NAME: Any = (str | None, None)
_READ = shape(
    features=shape(fps=FrameRate),
    extract=shape(groups=Annotated[list[str], Field(min_length=1)]),
    train=(shape(seeds=(list[int], [1])), {}),
    evaluate=(
        shape(grid=(shape(beam_sizes=(list[int], [])), {}), score=(shape(tokenizer=_NAME), {})),
        {},
    ),
    report=(shape(title=_NAME), {}),
    tracking=(shape(experiment=_NAME), {}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a corpus shows of itself before anything is extracted."""

    clips: int  # in the training set
    words: float  # share of the train texts that are single words
    sentences: int  # different training texts
    known: float  # share of the dev clips whose text train has
    glosses: bool
    signs_alone: bool  # whether the texts are the glosses: signs are recognised, not translated
    seconds: float | None  # of a train clip, median; None where nothing says it
    spelt: tuple[tuple[float | None, int], ...]
    """Seconds of train clips, as far as they were looked at, and the positions that CTC needs to
    spell their characters."""
    groups: tuple[str, ...]  # of imported landmarks; empty for videos

    @property
    def are_signs(self) -> bool:
        """Whether the clips are single signs of a closed list, no sentences and no spelling."""
        return self.words >= 0.5 and self.known >= 0.5

    @property
    def are_few(self) -> bool:
        """Whether they are sentences that are soon learnt by heart."""
        return not self.are_signs and self.clips < FEW


def read_facts(clips: Sequence[Clip], corpus: Path, groups: Sequence[str]) -> Facts:
    """Look at the clips of a corpus, and into some of its videos."""
    train = [clip for clip in clips if clip.split == "train"]
    dev = [clip for clip in clips if clip.split == "dev"]
    texts = {clip.text for clip in train}
    lengths = _read_lengths(train, corpus)
    known_lengths = [seconds for seconds in lengths.values() if seconds is not None]
    return Facts(
        clips=len(train),
        words=_share_of_words([clip.text for clip in train]),
        sentences=len(texts),
        known=mean(clip.text in texts for clip in dev) if dev else 0.0,
        glosses=any(clip.gloss for clip in train),
        signs_alone=all(clip.gloss == clip.text for clip in train),
        seconds=median(known_lengths) if known_lengths else None,
        spelt=tuple(
            (lengths[clip.clip_id], _spelling_positions(clip.text))
            for clip in train
            if clip.clip_id in lengths
        ),
        groups=tuple(groups),
    )


def _share_of_words(texts: Sequence[str]) -> float:
    """Return the share of texts that are single words; 0 of none."""
    return sum(map(is_single_word, texts)) / (len(texts) or 1)


def _spelling_positions(text: str) -> int:
    """Return how many positions CTC needs for characters: between equal ones stands a blank."""
    return len(text) + sum(before == after for before, after in itertools.pairwise(text))


def _read_lengths(train: Sequence[Clip], corpus: Path) -> dict[str, float | None]:
    """Return the seconds of imported clips, or of some clips of videos."""
    shards = corpus / IMPORTED_SHARDS
    if shards.is_dir():
        from signloom.corpus.shards import read_clip_frames, read_clip_rates  # pyarrow loads slowly

        frames, rates = read_clip_frames(shards), read_clip_rates(shards)
        names = [clip.clip_id for clip in train if clip.clip_id in frames]
        return {name: frames[name] / rates[name] for name in names}
    probed = train[:: math.ceil(len(train) / PROBED) or 1]
    return {clip.clip_id: _video_seconds(clip) for clip in probed}


def _video_seconds(clip: Clip) -> float | None:
    if clip.start_s is not None and clip.end_s is not None:
        return clip.end_s - clip.start_s
    if clip.video is None:
        return None
    from signloom.detection.video import Video  # PyAV loads slowly

    try:
        with Video(clip.video) as video:
            return video.duration_s
    except ClipError:
        return None  # extraction will say what is wrong with it


def warn_of_little(clips: Sequence[Clip]) -> list[str]:
    """Say what cannot be learnt from the clips of a corpus, or told by them, and what would help.

    A word that one clip shows is a word of that clip: nothing tells a model which part of it.
    """
    train = [clip.text for clip in clips if clip.split == "train"]
    dev = [clip.text for clip in clips if clip.split == "dev"]
    are_words = _share_of_words(train) >= 0.5
    warnings = _warn_of_rare_words(train, are_words=are_words)
    if are_words and dev and set(train).isdisjoint(dev):
        warnings.append(
            f"train shows none of the {len({*dev})} signs of dev, so no model can name them: give "
            "both splits clips of the same signs (--shares deals them)"
        )
    return [*warnings, *_warn_of_glosses(clips), *_warn_of_small_splits(clips)]


def _warn_of_rare_words(texts: Sequence[str], *, are_words: bool) -> list[str]:
    """Say whether most words of the training texts, or most signs, occur in one clip only."""
    counts = Counter(w for text in texts for w in ({text} if are_words else {*find_words(text)}))
    once = sum(count == 1 for count in counts.values())
    if not counts or once < 0.5 * len(counts):
        return []
    units = "signs" if are_words else "words"
    help_ = (
        "record each at least five times, by several signers"
        if are_words
        else "record each sentence several times, or more sentences of the same words"
    )
    lookup = "; `signloom lookup` finds signs that were shown once" if are_words else ""
    return [
        f"{once} of {len(counts)} {units} occur in one clip of train only, and nobody can learn "
        f"{units} from that: {help_}{lookup}"
    ]


def _warn_of_small_splits(clips: Sequence[Clip]) -> list[str]:
    """Say which splits have too few clips for small differences."""
    counts = Counter(clip.split for clip in clips)
    return [
        f"{split} has {count_of(counts[split], 'clip')}: a share of them is known to about "
        f"±{100 / math.sqrt(counts[split]):.0f} points, so small differences decide nothing; "
        f"{DECIDING} clips make it ±{100 / math.sqrt(DECIDING):.0f}"
        for split in ("dev", "test")
        if 0 < counts[split] < DECIDING
    ]


def warn_of_leaks(clips: Sequence[Clip]) -> list[str]:
    """Say which scores of a corpus will tell less than they seem to."""
    warnings = []
    texts = {split: {clip.text for clip in clips if clip.split == split} for split in SPLITS}
    signers = {clip.signer for clip in clips}
    are_words = _share_of_words([clip.text for clip in clips]) >= 0.5
    if len(signers) == 1:
        warnings.append(
            "everything is by one signer: a model will know this person, and no score here tells "
            "how it reads others. Record more people, or test on others' clips"
        )
    if torn := shuffled_takes(clips):
        warnings.append(
            f"takes of {torn} texts by one signer lie in several splits as they come: neighbours "
            "are nearly the same film, so scores will be too good. --by order deals them by time"
        )
    if not are_words and texts["test"] and texts["test"] <= texts["train"]:
        warnings.append(
            "train has every sentence of test: scores tell nothing about new sentences. "
            "--by sentence deals sentences"
        )
    elif not are_words and texts["test"]:
        known_sentences = KnownSentences(texts["train"])
        kinds = Counter(
            known_sentences.novelty(clip.text) for clip in clips if clip.split == "test"
        )
        listed = ", ".join(
            f"{count} of {kind}" if kind else f"{count} known"
            for kind, count in sorted(kinds.items(), key=lambda kind_count: str(kind_count[0]))
        )
        warnings.append(
            f"sentences of test, as train knows them: {listed} (a frame is what stands around a "
            "word: docs/evaluation.md)"
        )
    return warnings


def describe_uses(clips: Sequence[Clip], detector: str) -> list[str]:
    """Say what a model of imported landmarks will be able to do, and what not."""
    signs = sorted({clip.text for clip in clips if clip.split == "train"})
    signers = len({clip.signer for clip in clips})
    named = ", ".join(signs[:8]) + ", ..." * (len(signs) > 8)
    lines = [
        f"names one of {len(signs)} signs a clip ({named}), and names one whatever it is shown"
        if all(map(is_single_word, signs))
        else f"writes sentences like its {len(signs)}",
        f"knows {signers} {'person' if signers == 1 else 'people'}; expect less of others",
    ]
    if all(map(is_single_word, signs)):
        lines.append("reads no sentences: `signloom compose` makes some of takes (docs/data.md)")
    lines.append(
        f"reads films and cameras by the detector {detector}"
        if detector
        else "reads such files alone, no films: if MediaPipe found the landmarks, say with which "
        "solution (--detector holistic for MP_Data)"
    )
    return lines


def describe_outlook(clips: Sequence[Clip]) -> str:
    """Name the command that says what more people would bring, and what it costs."""
    signers = len({clip.signer for clip in clips if clip.split == "train"})
    if signers < 3:
        return f"what more people would bring can be told from 3 signers in train on, not {signers}"
    models = 3 * (int(math.log2(signers - 1)) + 1)  # of 1, 2, 4 ... signers
    return (
        "what more people would bring: `signloom outlook`, after `dvc repro tokenize_targets`; "
        f"{models} small models, about five minutes of CPU together (--steps: more, each truer)"
    )


def _warn_of_glosses(clips: Sequence[Clip]) -> list[str]:
    """Say which glosses cannot be learnt or read, and which clips have none."""
    signs = {split: Counter[str]() for split in ("train", "dev", "test")}
    without = 0
    for clip in clips:
        glosses = (clip.gloss or "").split()
        signs[clip.split].update({*glosses})
        without += not glosses
    if without == len(clips):
        return []
    warnings, train = [], signs["train"]
    if without:
        warnings.append(
            f"{without} of {len(clips)} clips have no glosses: signs are learnt from the others, "
            "and scored on the others"
        )
    once = sum(count == 1 for count in train.values())
    if train and once >= 0.5 * len(train):
        warnings.append(
            f"{once} of {len(train)} glosses occur in one clip of train only, and nobody can learn "
            "signs from that: record each at least five times"
        )
    tested = {*signs["dev"], *signs["test"]}
    if unseen := sorted(tested - {*train}):
        warnings.append(
            f"{len(unseen)} of {len(tested)} glosses of dev and test occur in no clip of train, so "
            f"no model can read them ({', '.join(unseen[:3])}{', ...' * (len(unseen) > 3)}): each "
            "counts as an error"
        )
    return warnings


def read_params(path: Path) -> dict[str, Any]:
    """Read the parameters that the chosen values join.

    Raises:
        UserError: If the file cannot be read, or a value that decides something is none.
    """
    values: dict[str, Any] = check_shape(load_params(path), _READ, where=path, hint="correct it")
    return values


def choose_values(
    clips: Sequence[Clip],
    corpus: Path,
    params: Mapping[str, Any],
    *,
    signer_disjoint: bool,
    text_only: bool = False,
) -> tuple[Sections, list[str]]:
    """Return all parameters that a new corpus sets, and the reasons of its recipe.

    Args:
        params: The parameters file, for what is not changed here.
        signer_disjoint: Whether every signer is in one split.
        text_only: Whether it is a corpus of glosses and sentences.

    Returns:
        Values by section and key; a sentence for each choice.
    """
    recipe: Sections = {
        "tokenize_targets": {"source": "subwords", "ctc": "none"},
        "model": {"source": "glosses", "subsampling": 1},
        "train": {"ctc_weight": 0.0},
    }
    reasons: list[str] = []
    if not text_only:
        recipe, reasons = _choose_for_landmarks(clips, corpus, params)
    owned = {"folder": corpus.as_posix(), "manifest": MANIFEST, "signer_disjoint": signer_disjoint}
    values: Sections = {"corpus": owned, **recipe}
    if params.get("tune", {}).get("trials"):  # of the demo, whose space fits the demo
        values["tune"] = {"trials": 0}
        reasons = [
            *reasons,
            "tune.trials 0: no search for better parameters; tune.trials: 20, for "
            "one of 20 trials, switches it on (docs/tuning.md)",
        ]
    if params.get("train", {}).get("portable"):  # slower, so that all see the demo's numbers
        values["train"] = {**values.get("train", {}), "portable": False}
    # What another corpus was called is not this one's name.
    for section, key in (("report", "title"), ("tracking", "experiment")):
        if params.get(section, {}).get(key):
            values[section] = {key: ""}
    values["evaluate"], more = _choose_reading(
        clips, str(recipe["tokenize_targets"]["ctc"]), params
    )
    return values, [*reasons, *more]


def _choose_reading(
    clips: Sequence[Clip], ctc: str, params: Mapping[str, Any]
) -> tuple[dict[str, object], list[str]]:
    """Return the section `evaluate`, what CTC spells being known, and the reasons of it."""
    grid, score = (params.get("evaluate", {}).get(key, {}) for key in ("grid", "score"))
    dev = sum(clip.split == "dev" for clip in clips)
    reasons: list[str] = []
    ngram: list[float] = []  # chosen on dev
    if ctc == "glosses" and dev < DECIDING:
        if all(clip.gloss == clip.text for clip in clips):
            ngram = [*USUAL_NGRAM]
        reasons.append(
            f"n-gram of signs: the usual weights, since dev has {count_of(dev, 'clip')} and would "
            "choose by chance; "
            "`signloom outlook --folds 4 --use` asks the clips of train (docs/recognition.md)"
        )
    # An internal language model is right in a decoder that has learnt its sentences by heart, as
    # the demo's; holding sentences against signs is right nearly everywhere. 24 and 40 dev clips
    # chose wrongly for one of three models of the demo and of coffee orders.
    may_choose = grid.get("beam_sizes") and dev >= DECIDING
    values: dict[str, object] = {
        "together": ctc == "texts",  # single signs, which have three seeds
        "decoding": {"internal_lm_weight": 0.0},
        "grid": {
            "internal_lm_weights": [0.0, 0.1, 0.3] if may_choose else [],
            "sign_weights": [SIGN_WEIGHT, 0.0] if may_choose else [SIGN_WEIGHT],
            "ngram": ngram,
        },
    }
    now = score.get("tokenizer")
    if (tokenizer := _choose_tokenizer(clips, now)) != now:
        values["score"] = {"tokenizer": tokenizer}
        have = "have" if tokenizer == "13a" else "have no"
        reasons.append(
            f"evaluate.score.tokenizer {tokenizer}: these texts {have} spaces between words"
        )
    return values, reasons


def _choose_tokenizer(clips: Sequence[Clip], now: str | None) -> str | None:
    """Return what parts the texts of a corpus in words for its scores."""
    words = Counter(word for clip in clips for word in find_words(clip.text))
    if 2 * sum(count for word, count in words.items() if is_unspaced(word)) <= words.total():
        return "13a" if now in _OF_CHARACTERS else now
    are_chinese = all(
        (clip.language or "zh").startswith(_CHINESE) and not _OTHER_SCRIPTS.search(clip.text)
        for clip in clips
    )
    return now if now in _OF_CHARACTERS else "zh" if are_chinese else "char"


def _choose_for_landmarks(
    clips: Sequence[Clip], corpus: Path, params: Mapping[str, Any]
) -> tuple[Sections, list[str]]:
    """Return the recipe of a corpus of videos, landmarks or another network's features."""
    groups = imported_groups(corpus)
    if groups != [FEATURES]:
        recipe, reasons = choose_recipe(read_facts(clips, corpus, groups), params)
        source = "landmarks"
    else:
        from signloom.corpus.shards import read_clip_rates  # pyarrow loads slowly

        rates = Counter(read_clip_rates(corpus / IMPORTED_SHARDS).values())
        rate, source = rates.most_common(1)[0][0], "features"
        params = {**params, "features": {**params["features"], "fps": rate}}
        recipe, reasons = choose_recipe(read_facts(clips, corpus, []), params)
        recipe["features"]["fps"] = rate
        recipe["augment"] |= {"scale": 0.15, "feature_shift": 0.25}
        recipe["features"]["right_handed"] = False
        of_landmarks = ("mirror", "normalise", "right_handed")
        reasons = [reason for reason in reasons if not reason.startswith(of_landmarks)]
    recipe["tokenize_targets"] |= {"source": "none"}
    recipe["model"] |= {"source": source}
    return recipe, reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecipeRule:
    """Parameters of corpora of some kind, and why."""

    when: Callable[[Facts, str], bool]  # of the facts and what CTC spells
    values: Sections
    why: Sequence[str] = ()


_RULES = (
    _RecipeRule(when=lambda facts, ctc: ctc == "none", values={"train": {"ctc_weight": 0.0}}),
    _RecipeRule(
        when=lambda facts, ctc: ctc == "glosses",
        values={
            "model": {"dropout": 0.2, "ctc_feedback": True},
            "train": {"max_frames": FRAMES // 2},
        },
        why=("ctc_feedback: the decoder looks at the signs that CTC reads, too",),
    ),
    _RecipeRule(
        when=lambda facts, ctc: facts.are_signs,
        values={
            "model": {
                "family": "convolution",
                "dropout": 0.4,
                "encoder_layers": 3,
                "decoder_layers": 0,
            },
            "features": {"right_handed": True},
            "augment": {"mirror": 0.0, "hand_drop": 0.1},
            "train": {"learning_rate": 0.003},
        },
        why=(
            "convolution, 3 layers and no decoder, dropout 0.4: single signs of others are read "
            "better, and are learnt in less than half of the time (docs/results.md)",
            "right_handed: clips whose left hand leads are read as a mirror shows them, in "
            "training and afterwards, so none is mirrored by chance",
            "patience 0, no early stop: a few people in dev do not say when signs are read best",
        ),
    ),
    _RecipeRule(
        when=lambda facts, ctc: facts.are_signs and facts.clips < SMALL_SIGNS,
        values={"model": {"d_model": 64, "d_ff": 128}},
    ),
    _RecipeRule(
        when=lambda facts, ctc: facts.are_few,
        values={"model": {"dropout": 0.3}, "augment": {"mirror": 0.1, "hand_drop": 0.0}},
        why=(
            f"dropout 0.3: fewer than {FEW} train clips are soon learnt by heart",
            "mirror 0.1, no hands hidden in training: of so few clips the changes would be learnt",
        ),
    ),
    _RecipeRule(  # docs/recognition.md
        when=lambda facts, ctc: ctc == "glosses" and facts.signs_alone,
        values={
            "model": {
                "family": "convolution",
                "d_model": 96,
                "d_ff": 192,
                "dropout": 0.4,
                "encoder_layers": 3,
                "decoder_layers": 0,
                "ctc_feedback": False,
            },
            "train": {"learning_rate": 0.003, "max_frames": FRAMES},
        },
        why=(
            "convolution, width 96, 3 layers and no decoder, dropout 0.4: the texts are "
            "the glosses, so what CTC reads is what is wanted (docs/results.md)",
            "patience 0, no early stop: the loss of dev rises long before signs are read best",
        ),
    ),
)


def choose_recipe(facts: Facts, params: Mapping[str, Any]) -> tuple[Sections, list[str]]:
    """Return parameters for a corpus of landmarks or videos, and why.

    The keys are the same for every corpus, so that nothing of another one's recipe stays.

    Args:
        facts: What the corpus shows of itself.
        params: The parameters file, for what is not changed here.

    Returns:
        Values by section and key; a sentence for each choice.
    """
    signs, fps = facts.are_signs, params["features"]["fps"]
    frames = (facts.seconds or _GUESSED_S[signs]) * fps
    kind = "single signs" if signs else "words, each its own" if facts.words >= 0.5 else "sentences"
    length = f"{frames:.0f} frames long" if facts.seconds else "of unknown length"
    reasons = [f"{facts.clips} train clips, {kind}, {length} at the features' rate"]
    labels, positions = _choose_labels(facts, fps, reasons)
    groups = list(facts.groups or params["extract"]["groups"])
    values: Sections = {
        "tokenize_targets": {"ctc": labels},
        "features": {"groups": groups, "normalise": "body", "right_handed": False},
        "model": {
            "d_model": 128,
            "d_ff": 256,
            "dropout": 0.1,
            "subsampling": positions,
            "ctc_feedback": False,
            "family": "transformer",
            "positions": "sinusoidal",
            "encoder_layers": 2,
            "decoder_layers": 2,
        },
        # Without any mirrored clip no left-handed signer is understood; a tenth is enough for that.
        "augment": {"mirror": 0.3, "hand_drop": 0.4},
        "train": {
            "seeds": _choose_seeds(facts, params, reasons),
            "ctc_weight": 0.3,
            "max_frames": FRAMES,
            "learning_rate": 0.002,
        },
    }
    if "pose" not in groups:
        reasons.append(
            f"normalise body: without a pose a clip is centred and scaled by its "
            f"{groups[0].replace('_', ' ')}, wherever in the picture that is"
        )
    for rule in _RULES:
        if rule.when(facts, labels):
            reasons += rule.why
            for section, chosen in rule.values.items():
                values[section] |= chosen
    is_recognised = labels == "glosses" and facts.signs_alone
    if labels == "glosses" and not is_recognised:
        reasons.append(_choose_recombining(facts))
    values["train"] |= _choose_epochs(facts, frames, values["train"], reasons, is_recognised)
    return values, reasons


def _choose_seeds(facts: Facts, params: Mapping[str, Any], reasons: list[str]) -> list[int]:
    seeds = list(params.get("train", {}).get("seeds", [1]))
    if (not facts.are_signs and facts.clips >= SMALL) or len(seeds) >= len(SEEDS):
        return seeds
    reasons.append(
        "seeds 1, 2 and 3, read as an ensemble, each trained for a third of the time: one model of "
        "single signs of others is a draw (docs/results.md)"
        if facts.are_signs
        else f"seeds 1, 2 and 3: with fewer than {SMALL} clips of sentences one training is a draw "
        "(140 of BOSTON-104: 22, 24 and 38 % gloss errors), so the report gives the mean of "
        "three; train.seeds: [1] takes a third of the time"
    )
    return SEEDS


def _choose_recombining(facts: Facts) -> str:
    """Say whether new sentences are to be made of the pieces, which needs a first model."""
    measured = "coffee orders, % word errors without and with: 60 15, 12; 150 10, 9; 300 8, 10"
    if facts.sentences >= RECOMBINED:
        return f"no recombining: {facts.sentences} different sentences are many ({measured})"
    if facts.known > 0.9:
        return "no recombining: dev has hardly a sentence that train lacks"
    return (
        "after a first `dvc repro` make new sentences of the pieces, `signloom compose --recombine "
        f"600`: {facts.sentences} different ones are few ({measured}); docs/data.md"
    )


def _choose_labels(facts: Facts, fps: float, reasons: list[str]) -> tuple[str, int]:
    """Return what CTC spells, and the frames of an encoder position that leave room for it."""
    if facts.are_signs:
        reasons += [
            "ctc texts: the whole text is one label, since a sign spells no letters",
            "subsampling 2: short clips keep enough positions",
        ]
        return "texts", 2
    if facts.glosses:
        # Convolutions read worse from 15 positions a second than from 7 (docs/results.md).
        step = 2 if facts.signs_alone and fps < SLOW else 4
        reasons.append(f"ctc glosses, subsampling {step}: the signs in their order are known")
        return "glosses", step
    lengths = [
        ((seconds or _GUESSED_S[False]) * fps, needed)
        for seconds, needed in facts.spelt
        if seconds or facts.seconds is None
    ]
    for step in (4, 2, 1):
        fits = [needed * CUT <= math.ceil(frames / step) for frames, needed in lengths]
        if sum(fits) >= WRITABLE * len(fits):
            break
    room = (
        f"the characters of {sum(fits)} of {len(fits)} train clips have room"
        + " (clips of unknown length)" * (facts.seconds is None)
    )
    if sum(fits) < WRITABLE * len(fits):
        reasons.append(f"ctc none: {room} even without subsampling, and there are no glosses")
        return "none", 4
    reasons.append(f"ctc characters, subsampling {step}: there are no glosses, and {room}")
    return "characters", step


def _choose_epochs(
    facts: Facts, frames: float, train: Mapping[str, Any], reasons: list[str], is_recognised: bool
) -> dict[str, object]:
    """Return as many epochs as make about `STEPS` steps of `FRAMES` frames, of glosses more."""
    total = facts.clips * frames  # of an epoch
    steps = (RECOGNISING if is_recognised else SINGLE if facts.are_signs else 1) * STEPS
    fewest = EPOCHS[0] // 4 if facts.are_signs else EPOCHS[0]
    epochs = int(round(min(max(steps / max(1.0, total / FRAMES), fewest), EPOCHS[1]), -1))
    steps = max(1.0, total / train["max_frames"]) * epochs
    reasons.append(f"{epochs} epochs: about {steps:,.0f} steps of training")
    fewest_judged = FEW if facts.glosses else TO_THE_END
    is_new_to_dev = not facts.are_signs and facts.clips < fewest_judged and facts.known < NEW_TO_DEV
    if is_new_to_dev:
        reasons.append(
            f"patience 0, the last epoch is kept: with fewer than {fewest_judged} train clips, and "
            "sentences that are new in dev, dev's loss only rises (docs/training.md)"
        )
    to_the_end = is_recognised or facts.are_signs or is_new_to_dev
    return {"epochs": epochs, "patience": 0 if to_the_end else max(10, int(0.3 * epochs))}
