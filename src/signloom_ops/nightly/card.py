"""The model card of a version: what it was made from, its scores, its limits, in Markdown.

Everything in it is read from the files of the version, from the terms that lie in the corpus
folder and from what people judged, so the same of these gives the same bytes. Names of signers are
only in cells of tables.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.checkpoint import WEIGHTS
from signloom.config import check_shape, read_json
from signloom.corpus.manifest import SPLITS, corpus_name
from signloom.evaluation import records
from signloom.evaluation.judge import JudgementResult, Judgements
from signloom.evaluation.names import (
    GLOSS_SYSTEM_LABELS,
    SYSTEM_LABELS,
    Metric,
    System,
    metric_heading,
    metric_label,
    reads_glosses,
    shown_metrics,
)
from signloom.files import hash_file, write_file
from signloom_ops.nightly import schemas
from signloom_ops.nightly.store import FORGOTTEN

CARD = "MODEL_CARD.md"
NOT_SAID = "**not said**"
TERMS = {"Licence": "LICENSE*", "Consent": "CONSENT*"}  # of the recordings, in the corpus folder
_TERMS_LINES = 60  # of a file that are quoted
SLICES = {
    "sentence": "sentence",
    "novelty": "what is new in the sentence",
    "new_signer": "signer, seen in train or not",
    "words": "words in the sentence",
    "signer": "signer",
    "hands": "frames with a hand",
    "fps": "frames a second",
    "language": "language",
    "corpus": "corpus",
}
FEW_CLIPS = 20  # the scores of a slice with fewer mean little


def write_card(folder: Path, corpus: Path, marks: Mapping[str, Any] | None = None) -> Path:
    """Write the card of a version into its folder.

    Args:
        folder: Folder of the version, with `checkpoint/`, `evaluation/`, `version.json`, and
            `decision.json` if the gate has decided.
        corpus: Folder of the corpus; licence and consent in it are quoted.
        marks: What was noted about the version since, such as `forgotten`.

    Returns:
        The card.

    Raises:
        UserError: If the version's own files are missing or torn.
    """
    version = _read_files(folder, corpus, marks or {})
    path = folder / CARD
    write_file(path, "\n".join(_front_matter(version)) + "\n" + "\n".join(_page(version)))
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFiles:
    """What lies in the folder of a version; empty maps where a file is not there."""

    name: str  # of the folder
    corpus: Path
    facts: Mapping[str, Any]  # version.json
    spec: Mapping[str, Any]  # checkpoint.json
    scores: Mapping[str, Any]  # evaluation/scores.json
    decision: Mapping[str, Any]  # decision.json
    marks: Mapping[str, Any]  # what was noted about it since
    hashes: Mapping[str, str]  # SHA-256 of the checkpoint's files
    judgements: Sequence[JudgementResult]  # in which its model took part

    @property
    def corpus_name(self) -> str:
        """The corpus on which it was scored."""
        return self.scores.get("corpus") or corpus_name(self.corpus)

    @property
    def reads_glosses(self) -> bool:
        """Whether it is a model of glosses; else one of landmarks."""
        return reads_glosses(self.spec)


def _read_files(folder: Path, corpus: Path, marks: Mapping[str, Any]) -> VersionFiles:
    """Read what a card tells of.

    Raises:
        UserError: If checkpoint.json, scores.json or version.json is missing or torn.
    """

    def read(path: Path, kind: Any) -> Any:
        hint = "bring the version back with `dvc checkout` or `dvc pull`"
        return check_shape(read_json(path, hint=hint), kind, where=path, hint=hint)

    checkpoint, decision = folder / "checkpoint", folder / "decision.json"
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): hash_file(path) for path in files}
    return VersionFiles(
        name=folder.name,
        corpus=corpus,
        facts=read(folder / "version.json", schemas.VERSION),
        spec=read(checkpoint / "checkpoint.json", records.SPEC),
        scores=read(folder / "evaluation/scores.json", records.SCORES),
        decision=read(decision, schemas.DECISION) if decision.is_file() else {},
        marks=marks,
        hashes=hashes,
        judgements=Judgements().results_of(hashes.get(f"{checkpoint.name}/{WEIGHTS}", "")),
    )


def _front_matter(version: VersionFiles) -> Iterator[str]:
    """Yield what model hubs read; JSON is YAML."""
    splits = version.scores["splits"]
    shown = splits.get("test") or next(iter(splits.values()))
    scores = shown["systems"]["model"]
    kinds = {Metric.BLEU4: "bleu", Metric.EXACT: "accuracy"}  # what hubs call these
    metrics = [
        {"type": kinds.get(metric, metric), "name": metric_label(metric),
         "value": scores[metric]["value"]}
        for metric in shown_metrics(_headline(version.scores))
    ]  # fmt: skip
    task = {"type": "translation", "name": "Sign language translation"}
    data = {"name": version.corpus_name, "type": version.corpus_name}
    result = {"task": task, "dataset": data, "metrics": metrics}
    model = f"{version.corpus_name} version {version.name}"
    index = [{"name": model, "results": [result]}]
    yield from ("---", "library_name: signloom", "license: other")
    yield "tags: [sign-language-translation, landmarks]"
    yield f"model-index: {json.dumps(index, ensure_ascii=False)}"
    yield "---\n"


def _page(version: VersionFiles) -> Iterator[str]:
    yield f"# Model card: {escape(version.corpus_name)}, version {version.name}\n"
    yield from _warnings(version.marks)
    yield from _what_it_is(version)
    yield from _data(version)
    yield from _scores(version.scores)
    yield from _judgements(version.judgements)
    yield from _decision(version.decision)
    yield from _limits(version)
    yield from _origin(version)


def _warnings(marks: Mapping[str, Any]) -> Iterator[str]:
    for mark in marks.get(FORGOTTEN, []):
        if mark["through"] is None and set(mark["splits"]) == {"test"}:
            yield f"> {mark['clips']} of its test clips are of a person who has since withdrawn.\n"
        else:
            yield (
                "> **Withdrawn consent.** A person with whose clips this version, or the one whose "
                "weights it started from, was made has since withdrawn. Do not distribute it; "
                "train again from scratch and use that version.\n"
            )


def _what_it_is(version: VersionFiles) -> Iterator[str]:
    model, extractor = version.spec["model"], version.spec["extractor"]
    groups = ", ".join(version.spec["features"]["groups"])
    source, found = "glosses", ""
    if not version.reads_glosses:
        source = f"landmarks ({groups})"
        found = (
            f" Landmarks are found by {escape(extractor.get('detector', 'an unnamed detector'))}"
            + (f" (MediaPipe {extractor['mediapipe']})" if "mediapipe" in extractor else "")
            + (f" (LiteRT {extractor['litert']})" if "litert" in extractor else "")
            + "; those of another detector or version are refused."
        )
    yield (
        f"**What it is.** A model (family {model['family']}) from {source} to text: "
        f"{model['encoder_layers']} + {model['decoder_layers']} layers, width {model['d_model']}."
        f"{found}\n"
    )
    yield (
        "**What it is for.** Drafts of translations that a person who knows the sign language "
        "checks. Not for use where an error harms and nobody checks: medicine, courts, police, "
        "asylum, emergencies. Not for identifying, rating or watching signers. Deaf people are "
        "the experts on whether a translation is right; a score is no permission.\n"
    )


def _data(version: VersionFiles) -> Iterator[str]:
    facts = version.facts
    yield "## Data\n"
    rows = []
    for split in SPLITS:
        signers = facts.get("signers", {}).get(split, {})
        clips = facts.get("clips", {}).get(split)
        hours = facts.get("hours", {}).get(split)
        rows.append([
            split,
            len(clips) if clips is not None else NOT_SAID,
            f"{hours:.2f}" if hours is not None else NOT_SAID,
            ", ".join(f"{escape(name)} ({signers[name]})" for name in sorted(signers)) or NOT_SAID,
        ])  # fmt: skip
    yield from table(["split", "clips", "hours", "who signs (clips)"], rows)
    batches = facts.get("batches")
    told = ", ".join(map(escape, batches)) if batches else "none" if batches == [] else NOT_SAID
    yield f"Deliveries after the first clips: {told}.\n"
    yield (
        "**Who does not sign.** Everyone else. Who the signers are (region, age, first language, "
        "handedness, skin), and who is missing, only the people who recorded them can say: put it "
        "into `CONSENT.md` in the corpus folder, and it is quoted here.\n"
    )
    yield from quote_terms(version.corpus)


def _scores(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield the scores of each split with intervals, floors, slices, and the search options.

    Args:
        scores: The scores.json of an evaluation.
    """
    yield "## Scores\n"
    yield "In brackets the 95 % interval of a bootstrap over clips.\n"
    for split in sorted(scores["splits"], reverse=True):  # test before dev
        yield from _split(split, scores["splits"][split], _headline(scores))
    if seeds := scores.get("seeds"):
        yield from _seeds(seeds, is_joint=bool(scores["options"].get("together")))
    yield from _stress(scores.get("stress", []), _headline(scores))
    search = ", ".join(f"{name} {value}" for name, value in scores["decoding"].items())
    yield f"Search: {search}; weights in {scores['options']['precision']}.\n"


def _headline(scores: Mapping[str, Any]) -> Metric:
    return Metric(scores.get("headline", Metric.BLEU4))


def _split(split: str, found: Mapping[str, Any], headline: Metric) -> Iterator[str]:
    main = shown_metrics(headline)
    missing = f"; {len(found['missing'])} without landmarks" if found["missing"] else ""
    yield f"### {split}: {found['clips']} clips{missing}\n"
    systems = found["systems"]
    labels = GLOSS_SYSTEM_LABELS if System.COPY in systems else SYSTEM_LABELS
    # An older version may lack a metric of today.
    shown = [m for m in (*main, Metric.CER) if all(m in values for values in systems.values())]
    rows = [
        [label, *(_interval(systems[system][metric]) for metric in shown)]
        for system, label in labels.items()
        if system in systems
    ]
    yield from table(["system", *map(metric_heading, shown)], rows)
    if check := found.get("input_check") or found.get("hallucination"):  # as it was called
        yield f"{check['text']}\n"
    slices = [
        [
            SLICES[kind], escape(row["group"]), row["clips"],
            *(_interval(_of(row, metric)) for metric in main),
        ]
        for kind in SLICES
        for row in found["breakdowns"].get(kind, [])
    ]  # fmt: skip
    if slices:
        yield from table(["slice", "", "clips", *map(metric_heading, main)], slices)
    if any(row[2] < FEW_CLIPS for row in slices):
        yield (
            f"Slices of fewer than {FEW_CLIPS} clips say little; their intervals are too narrow. "
            "BLEU-4 of sentences under four words is 0 by its definition.\n"
        )
    yield f"{metric_label(headline)}: `{systems[System.MODEL][headline]['signature']}`.\n"


def _stress(found: Sequence[Mapping[str, Any]], headline: Metric) -> Iterator[str]:
    """Yield what changes of real life cost on test, or on dev where there is no test."""
    split = max((row["split"] for row in found), default="")
    rows = [row for row in found if row["split"] == split]
    if rows:
        worst = min(rows, key=lambda row: float(row["score"]))
        yield (
            f"**Films of real life.** Under {len(rows) - 1} changes of the {split} clips "
            f"(stillness, pauses, speed, camera, lost hands) {metric_label(headline)} is "
            f"{worst['score']:.1f} at worst ({worst['change']}), {rows[0]['score']:.1f} without; "
            f"of what is said without a warning at most {max(r['wrong'] for r in rows):.0f} % is "
            "wrong.\n"
        )


def _seeds(seeds: Mapping[str, Any], *, is_joint: bool) -> Iterator[str]:
    yield f"### Over the seeds {', '.join(seeds['names'])}\n"
    rows = [
        [split, *(f"{m['mean']:.1f} ± {m['std']:.1f}" for m in metrics.values())]
        for split, metrics in sorted(seeds["splits"].items(), reverse=True)
    ]
    rows += [
        [f"{split}, all as one", *map(_interval, metrics.values())]
        for split, metrics in sorted(seeds.get("together", {}).items(), reverse=True)
    ]
    names = next(iter(seeds["splits"].values()))
    header = ["split", *(metric_heading(name) for name in names)]
    yield from table(header, rows)
    whose = "those of all seeds as one model" if is_joint else "the first seed's"
    yield f"Mean and standard deviation; the tables above are {whose}.\n"


def _judgements(found: Sequence[JudgementResult]) -> Iterator[str]:
    if found:
        yield "## Judged by people\n"
        yield "They saw the video and the sentences of two systems, not knowing which is whose.\n"
        yield from bullets(escape(f"A {one.a}, B {one.b}: {one}") + "." for one in found)


def _decision(decision: Mapping[str, Any]) -> Iterator[str]:
    yield "## Decision\n"
    if not decision:
        yield "The gate was not asked about this version.\n"
        return
    yield f"{escape(decision['verdict'])}.\n"
    yield from bullets(map(escape, decision.get("reasons", [])))


def _limits(version: VersionFiles) -> Iterator[str]:
    signers, spec = version.facts.get("signers", {}), version.spec
    yield "## Limits\n"
    found = []
    if train := signers.get("train"):
        others = sorted({name for split in ("dev", "test") for name in signers.get(split, {})})
        known = [name for name in others if name in train]
        tested = (
            f"{len(known)} of the {len(others)} signers it was tested on are among them, so the "
            "scores say little about others"
            if known
            else f"it was tested on {len(others)} others"
        )
        found.append(f"It has learned from {len(train)} signers; {tested}.")
    found.append("It knows the words of its training sentences; others it can at best spell in "
                 "bytes.")  # fmt: skip
    if version.reads_glosses:
        found.append("It reads glosses, no videos: what glosses leave out is lost.")
    else:
        found += _limits_of_landmarks(spec["features"])
    found.append("It writes fluent sentences even where it has understood nothing. Some of these "
                 "`signloom translate` marks as unsure; the others can be wrong, too.")  # fmt: skip
    yield from bullets(found)


def _limits_of_landmarks(features: Mapping[str, Any]) -> Iterator[str]:
    missing = [
        name
        for groups, name in (
            ({"lips"}, "mouthing"),
            ({"face_outline", "brows", "eyes", "gaze"}, "the face"),
        )
        if groups.isdisjoint(features["groups"])
    ]
    if missing:
        yield f"It is not shown {' or '.join(missing)}; grammar that is there is lost."
    yield f"Clips are resampled to {features['fps']:g} frames a second."
    yield "One person faces the camera and signs one utterance a clip."


def _origin(version: VersionFiles) -> Iterator[str]:
    facts, made = version.facts, version.spec["provenance"]
    yield "## Made from\n"
    start, text = made.get("start"), made.get("text_model")
    rows: list[Iterable[object]] = [
        ["commit", facts.get("git_commit", NOT_SAID)],
        ["dvc.lock", facts.get("dvc_lock", NOT_SAID)],
        ["weights it started from", f"{start['folder']} ({start['sha256']})" if start else "none"],
        *(
            [
                [
                    "text model",
                    f"{escape(text['folder'])} ({text['sha256']}), licence: "
                    f"{escape(text['licence'] or NOT_SAID)}",
                ]
            ]
            if text
            else []
        ),
        *([f"data: {name}", digest] for name, digest in sorted(made.get("data", {}).items())),
        *([path, digest] for path, digest in version.hashes.items()),
        ["libraries", ", ".join(f"{k} {v}" for k, v in sorted(made.get("libraries", {}).items()))],
    ]
    yield from table(["what", "SHA-256, or name"], rows)
    source = "--glosses TEXT" if version.reads_glosses else "VIDEO"
    yield f"Translate with it: `signloom translate {source} --model {int(version.name)}`.\n"


def _of(row: Mapping[str, Any], metric: str) -> dict[str, float]:
    return {"value": row[metric], "low": row[f"{metric}_low"], "high": row[f"{metric}_high"]}


def _interval(score: Mapping[str, float]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def escape(text: object) -> str:
    """Return text that stays text in Markdown, on one line and in one cell of a table."""
    line = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        line = line.replace(sign, f"\\{sign}")
    return line


def table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield the lines of a table; cells are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)
    yield ""


def bullets(items: Iterable[str]) -> Iterator[str]:
    """Yield a list of sentences."""
    yield from (f"- {item}" for item in items)
    yield ""


def quote_terms(corpus: Path) -> Iterator[str]:
    """Yield what lies beside the recordings about their use, in Markdown."""
    for title, pattern in TERMS.items():
        files = [path for path in sorted(corpus.glob(pattern)) if path.is_file()]
        if not files:
            name = pattern.rstrip("*")
            yield f"**{title}.** {NOT_SAID}: no file `{name}` lies in the corpus folder.\n"
        for path in files:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            yield f"**{title}** (`{path.name}`, SHA-256 `{hash_file(path)[:12]}`):\n"
            yield from (f"> {line}".rstrip() for line in lines[:_TERMS_LINES])
            if len(lines) > _TERMS_LINES:
                yield f">\n> ... {len(lines) - _TERMS_LINES} more lines in the file"
            yield ""
