"""The model card of a version: what it was made from, its scores, its limits, in Markdown.

Everything in it is read from the files of the version, from the terms that lie in the corpus
folder and from what people judged, so the same of these gives the same bytes. Names of signers are
only in cells of tables. The text is in card.md.jinja.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.checkpoint import WEIGHTS
from signloom.config import check_shape, read_json
from signloom.corpus.manifest import SPLITS, corpus_name
from signloom.errors import count_of
from signloom.evaluation.judgements import JudgementResult, Judgements
from signloom.evaluation.metric_names import (
    GLOSS_SYSTEM_LABELS,
    SYSTEM_LABELS,
    Metric,
    System,
    metric_heading,
    metric_label,
    reads_glosses,
    shown_metrics,
)
from signloom.evaluation.schemas import SCORES, SPEC
from signloom.files import hash_file, write_file
from signloom.report.pages import render_markdown
from signloom_ops.nightly import schemas

CARD = "MODEL_CARD.md"
NOT_SAID = "**not said**"
TERMS = {"Licence": "LICENSE", "Consent": "CONSENT"}  # how files of the corpus folder begin
_TERMS_LINES = 60  # of a file that are quoted
Row = list[object]  # cells of a table, in Markdown


def write_card(folder: Path, corpus: Path, marks: Mapping[str, Any] | None = None) -> Path:
    """Write the card of a version into its folder.

    Args:
        folder: Folder of the version, with `checkpoint/`, `evaluation/`, `version.json`, and
            `decision.json` if the gate has decided.
        corpus: Folder of the corpus; licence and consent in it are quoted.
        marks: What was noted about the version since, such as `forgotten`.

    Raises:
        UserError: If the version's own files are missing or torn.
    """
    version = _read_files(folder, marks or {})
    facts, spec, scores = version.facts, version.spec, version.scores
    headline = Metric(scores.get("headline", Metric.BLEU4))
    name = scores.get("corpus") or corpus_name(corpus)
    page = render_markdown(
        "card.md.jinja",
        package="signloom_ops.nightly",
        text=escape,
        version=version,
        facts=facts,
        spec=spec,
        scores=scores,
        not_said=NOT_SAID,
        corpus_name=name,
        reads_glosses=reads_glosses(spec),
        index=json.dumps(_index(name, version, headline), ensure_ascii=False),
        data=[_data_row(facts, split) for split in SPLITS],
        terms=[(title, start, _quote(corpus, start)) for title, start in TERMS.items()],
        headline=metric_label(headline),
        splits=[  # test before dev
            _split(split, scores["splits"][split], headline)
            for split in sorted(scores["splits"], reverse=True)
        ],
        seeds=_seeds(scores.get("seeds")),
        limits=list(_limits(version)),
        origin=_origin(version),
    )
    path = folder / CARD
    write_file(path, page)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFiles:
    """What lies in the folder of a version; empty maps where a file is not there."""

    name: str  # of the folder
    facts: Mapping[str, Any]  # version.json
    spec: Mapping[str, Any]  # checkpoint.json
    scores: Mapping[str, Any]  # evaluation/scores.json
    decision: Mapping[str, Any]  # decision.json
    marks: Mapping[str, Any]  # what was noted about it since
    hashes: Mapping[str, str]  # SHA-256 of the checkpoint's files
    judgements: Sequence[JudgementResult]  # in which its model took part


def _read_files(folder: Path, marks: Mapping[str, Any]) -> VersionFiles:
    """Read the files that a card is made of.

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
        facts=read(folder / "version.json", schemas.VERSION),
        spec=read(checkpoint / "checkpoint.json", SPEC),
        scores=read(folder / "evaluation/scores.json", SCORES),
        decision=read(decision, schemas.DECISION) if decision.is_file() else {},
        marks=marks,
        hashes=hashes,
        judgements=Judgements().results_of(hashes.get(f"{checkpoint.name}/{WEIGHTS}", "")),
    )


def _index(corpus: str, version: VersionFiles, headline: Metric) -> list[dict[str, Any]]:
    """Return what model hubs read; JSON is YAML."""
    splits = version.scores["splits"]
    scores = (splits.get("test") or next(iter(splits.values())))["systems"]["model"]
    kinds = {Metric.BLEU4: "bleu", Metric.EXACT: "accuracy"}  # what hubs call these
    metrics = [
        {
            "type": kinds.get(metric, metric),
            "name": metric_label(metric),
            "value": scores[metric]["value"],
        }
        for metric in shown_metrics(headline)
    ]
    task = {"type": "translation", "name": "Sign language translation"}
    result = {"task": task, "dataset": {"name": corpus, "type": corpus}, "metrics": metrics}
    return [{"name": f"{corpus} version {version.name}", "results": [result]}]


def _data_row(facts: Mapping[str, Any], split: str) -> Row:
    signers = facts.get("signers", {}).get(split, {})
    clips, hours = facts.get("clips", {}).get(split), facts.get("hours", {}).get(split)
    return [
        split,
        len(clips) if clips is not None else NOT_SAID,
        f"{hours:.2f}" if hours is not None else NOT_SAID,
        ", ".join(f"{escape(name)} ({signers[name]})" for name in sorted(signers)) or NOT_SAID,
    ]


def _quote(corpus: Path, start: str) -> list[dict[str, Any]]:
    """Return the files of a corpus folder about the use of its recordings, with their lines."""
    quotes = []
    for path in (path for path in sorted(corpus.glob(f"{start}*")) if path.is_file()):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        shown, more = lines[:_TERMS_LINES], len(lines[_TERMS_LINES:])
        quotes.append({"name": path.name, "hash": hash_file(path), "lines": shown, "more": more})
    return quotes


def _split(split: str, scores: Mapping[str, Any], headline: Metric) -> dict[str, Any]:
    """Return a split's table of systems."""
    main, systems = shown_metrics(headline), scores["systems"]
    labels = GLOSS_SYSTEM_LABELS if System.COPY in systems else SYSTEM_LABELS
    # An older version may lack a metric of today.
    shown = [m for m in (*main, Metric.CER) if all(m in values for values in systems.values())]
    check = scores.get("input_check") or scores.get("hallucination")  # as it was called
    return {
        "name": split,
        "clips": scores["clips"],
        "missing": len(scores["missing"]),
        "metrics": [metric_heading(metric) for metric in shown],
        "systems": [
            [label, *(_interval(systems[system][metric]) for metric in shown)]
            for system, label in labels.items()
            if system in systems
        ],
        "check": check["text"] if check else "",
        "signature": systems[System.MODEL][headline]["signature"],
    }


def _seeds(seeds: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the table over seeds."""
    if not seeds:
        return {}
    rows = [
        [split, *(f"{m['mean']:.1f} ± {m['std']:.1f}" for m in metrics.values())]
        for split, metrics in sorted(seeds["splits"].items(), reverse=True)
    ]
    rows += [
        [f"{split}, all as one", *map(_interval, metrics.values())]
        for split, metrics in sorted(seeds.get("together", {}).items(), reverse=True)
    ]
    metrics = list(map(metric_heading, next(iter(seeds["splits"].values()))))
    return {"metrics": metrics, "rows": rows}


def _limits(version: VersionFiles) -> Iterator[str]:
    signers = version.facts.get("signers", {})
    if train := signers.get("train"):
        tested_signers = sorted(
            {name for split in ("dev", "test") for name in signers.get(split, {})}
        )
        familiar = [name for name in tested_signers if name in train]
        tested = (
            f"{len(familiar)} of the {len(tested_signers)} signers it was tested on are among "
            "them, so the scores say little about others"
            if familiar
            else f"it was tested on {count_of(len(tested_signers), 'other')}"
        )
        yield f"It has learned from {count_of(len(train), 'signer')}; {tested}."
    yield "It knows the words of its training sentences; others it can at best spell in bytes."
    if reads_glosses(version.spec):
        yield "It reads glosses, no videos: what glosses leave out is lost."
    else:
        yield from _limits_of_landmarks(version.spec["features"])
    yield (
        "It writes fluent sentences even where it has understood nothing. Some of these "
        "`signloom translate` marks as unsure; the others can be wrong, too."
    )


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


def _origin(version: VersionFiles) -> list[Row]:
    facts, provenance = version.facts, version.spec["provenance"]
    start, text = provenance.get("start"), provenance.get("text_model")
    model = []
    if text:
        licence = escape(text["licence"] or NOT_SAID)
        model.append(f"{escape(text['folder'])} ({text['sha256']}), licence: {licence}")
    return [
        ["commit", facts.get("git_commit", NOT_SAID)],
        ["dvc.lock", facts.get("dvc_lock", NOT_SAID)],
        ["weights it started from", f"{start['folder']} ({start['sha256']})" if start else "none"],
        *(["text model", line] for line in model),
        *([f"data: {name}", digest] for name, digest in sorted(provenance.get("data", {}).items())),
        *([path, digest] for path, digest in version.hashes.items()),
        [
            "libraries",
            ", ".join(f"{k} {v}" for k, v in sorted(provenance.get("libraries", {}).items())),
        ],
    ]


def _interval(score: Mapping[str, float]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def escape(text: object) -> str:
    """Return text that stays text in Markdown, on one line and in one cell of a table."""
    line = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        line = line.replace(sign, f"\\{sign}")
    return line
