"""The soak: weeks of deliveries and what `signloom retrain` made of each.

Question: does retraining that nobody watches get better over the weeks, and does what is bad, or
breaks, leave the champion alone? Judged on signers whom it never sees.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from signloom.config import read_json
from signloom.files import write_file
from signloom.paths import MODELS
from signloom_ops.nightly.store import ModelStore
from studies.soak.options import SoakOptions
from studies.soak.project import PARAMS, deliver, make_project, run_night

DECISIONS, NIGHTS = "decisions.jsonl", "nights"
_DRIFT = Path("reports/retrain/drift.json")


def run_soak(options: SoakOptions) -> Iterator[dict[str, Any]]:
    """Live through the nights and yield the decision of each, those of earlier runs first.

    Stopped at any time, it goes on with the week that it was in.
    """
    decisions = options.folder / DECISIONS
    known = _read_lines(decisions)
    yield from known
    if len(known) >= len(options.nights):
        return
    from studies.soak.project import HiddenTest  # loads torch

    project = make_project(options)
    hidden = HiddenTest(options, project / PARAMS)
    for week in range(len(known), len(options.nights)):
        record = _live_through(options, project, week)
        store = ModelStore(project / MODELS)
        scores = {
            name: hidden.score(version, store.checkpoint(version)) if version else None
            for name, version in (("champion", record["champion"]), ("trained", record["version"]))
        }
        known.append({**record, "hidden": scores})
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in known)
        write_file(decisions, text)
        yield known[-1]


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _live_through(options: SoakOptions, project: Path, week: int) -> dict[str, Any]:
    """Run a week's night unless an earlier run of the soak did; return what came of it."""
    night, folder = options.nights[week], options.folder / NIGHTS
    kept = folder / f"{week:02d}.json"
    if not kept.is_file():
        deliver(options, project, week)
        folder.mkdir(exist_ok=True)
        found = run_night(project, night, folder / f"{week:02d}.log")
        drift = project / _DRIFT
        found["drift"] = read_json(drift, hint="") if drift.is_file() else None
        write_file(kept, json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    found = read_json(kept, hint=f"remove {options.folder}")
    told = describe_night(found)
    delivered = sum(len(one.signers) * one.clips for one in night.deliveries)
    flaws = sorted({one.flaw for one in night.deliveries} - {"none"})
    return {"week": week, "event": night.event, "flaws": flaws, "delivered": delivered, **told}


def describe_night(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a night did and decided, from what it wrote of itself.

    Args:
        found: `run_night`'s, with `drift`: the content of drift.json.
    """
    last = found["summaries"][-1]
    steps = [step for summary in found["summaries"] for step in summary["steps"]]
    ingests = [step for step in steps if step["name"] == "ingest"]
    checks = [step for step in steps if step["name"] == "drift" and "level" in step]
    findings = found["drift"]["findings"] if checks else []
    return {
        "ingested": sum(step.get("clips", 0) for step in ingests),
        # A night that went on after a power cut met the same files again.
        "rejected": len(ingests[-1].get("rejects", ())) if ingests else 0,
        "drift": {
            "level": checks[-1]["level"] if checks else None,
            "findings": [
                {key: finding[key] for key in ("check", "level", "what")}
                for finding in findings
                if finding["level"] != "ok"
            ],
        },
        "was_killed": found["was_killed"],
        "exit_code": found["exit_code"],
        "outcome": last["outcome"],
        "verdict": last["verdict"],
        "champion": last["champion"],
        "version": last["version"],
        "seconds": found["seconds"],
    }
