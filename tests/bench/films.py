"""How well films are cut into sentences, and what that costs their translations.

Usage: python -m tests.bench.films [--minutes 5] [--out reports/benchmarks]

Needs the demo (`make demo`) and its segmenter (`signloom train-segmenter`). A film of each signer
of test, whom neither model has seen: sentences of test signed anew, with rests of 0.5 to 3 s
between them, before one camera; extracted like any video. A sentence is found if both of its ends
are within 0.3 s. BLEU-4 is of the sentences in order, beside that of the same film cut where the
sentences truly lie. Last, captions that are off by up to 5 s are moved to the sentences that were
learnt to be found: all by as much, more and more, each by itself, and with one sentence in 20 not
found; their durations are off by up to a fifth.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from signloom.config import load_params, load_section, parse_options
from signloom.evaluation.metrics import ScoreOptions, score_corpus
from signloom.extraction.extract import extract_video, options_of_fingerprint
from signloom.features.sources import LandmarkSource
from signloom.files import write_file
from signloom.paths import CHECKPOINT, PARAMS
from signloom.translation.options import DECODING
from signloom.translation.segmentation import Span, align_cues, segment_by_rest, share_found
from signloom.translation.segmenter import Segmenter, find_segmenter
from signloom.translation.timed import translate_film
from signloom.translation.translator import Translator
from signloom_demo.draw import DrawOptions, plan_clips
from tests.films import draw_film

SENTENCES_A_MINUTE = 12.4
WITHIN_S = 0.3


def main() -> None:
    """Print a table and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    options = parser.parse_args()
    draw = load_section(Path("data/demo/params.yaml"), "draw", DrawOptions)
    translator = Translator.load(CHECKPOINT)
    path = find_segmenter(CHECKPOINT)
    if not isinstance(translator.source, LandmarkSource) or path is None:
        raise SystemExit("run `make demo` and `signloom train-segmenter` first")
    segmenter = Segmenter.load(path, translator.source.extractor)
    detector = options_of_fingerprint(translator.source.extractor, "", "")
    test = [clip for clip in plan_clips(draw) if clip.split == "test"]
    rows: list[dict[str, Any]] = []
    for seed, signer in enumerate(sorted({clip.signer.name for clip in test})):
        rng = np.random.default_rng(seed)
        own = [clip for clip in test if clip.signer.name == signer]
        count = round(SENTENCES_A_MINUTE * options.minutes)
        order = [own[int(i)] for _ in range(count) for i in rng.permutation(len(own))][:count]
        with tempfile.TemporaryDirectory() as folder:
            video = Path(folder) / "film.mp4"
            truth = draw_film(
                video, [clip.sentence.glosses for clip in order],
                rng.uniform(0.5, 3.0, count - 1).tolist(), own[0].signer, draw, seed,
            )  # fmt: skip
            film = extract_video(video, detector, threads=2)
        references = [clip.sentence.text for clip in order]
        found: dict[str, list[Span]] = {
            "where they are": truth, "by rest": segment_by_rest(film),
            "learnt": segmenter.segment(film),
        }  # fmt: skip
        for name, spans in found.items():
            texts = [one.text for one in translate_film(translator, film, spans, DECODING)]
            rows.append({
                "signer": signer, "cut": name, "seconds": round(film.seconds, 1),
                "sentences": len(truth), "cues": len(spans),
                "found": share_found(spans, truth, WITHIN_S),
                "bleu4": bleu(texts, spans, references, truth),
            })  # fmt: skip
        rows += [{"signer": signer, "off": name, "aligned": share}
                 for name, share in aligned(found["learnt"], truth, rng)]  # fmt: skip
    lines = [
        "| film of | seconds | sentences | cut | cues | both ends within 0.3 s | BLEU-4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (row for row in rows if "cut" in row):
        lines.append(
            f"| {row['signer']} | {row['seconds']} | {row['sentences']} | {row['cut']} | "
            f"{row['cues']} | {100 * row['found']:.1f} % | {row['bleu4']:.2f} |"
        )
    lines += ["", "| film of | captions off | within 0.3 s |", "|---|---|---|"]
    lines += [
        f"| {row['signer']} | {row['off']} | {100 * row['aligned']:.1f} % |"
        for row in rows if "off" in row
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    write_file(options.out / "films.md", text)
    write_file(options.out / "films.json", json.dumps(rows, indent=1) + "\n")
    print(text)


def aligned(
    spans: list[Span], truth: list[Span], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Yield how captions were displaced, and the share that came back to within 0.3 s."""
    count, places = len(truth), np.array(truth)
    ways = {
        "all by as much": np.full(count, rng.uniform(-5, 5)),
        "more and more": np.linspace(*rng.uniform(-5, 5, 2), count),
        "each by itself": rng.uniform(-5, 5, count),
        "and sentences not found": np.linspace(*rng.uniform(-5, 5, 2), count),
    }
    for name, off_s in ways.items():
        starts = places[:, 0] + off_s
        ends = starts + (places[:, 1] - places[:, 0]) * rng.uniform(0.8, 1.25, count)
        known = [one for one in spans if "not found" not in name or rng.random() > 0.05]
        cues = list(zip(starts.tolist(), ends.tolist(), strict=True))
        pairs = zip(align_cues(cues, known), truth, strict=True)
        yield name, float(np.mean([share_found([one], [true], WITHIN_S) for one, true in pairs]))


def bleu(texts: list[str], spans: list[Span], references: list[str], truth: list[Span]) -> float:
    """Return BLEU-4 of what each true sentence got: the cues whose middle lies in it."""
    got = [
        " ".join(t for t, (a, b) in zip(texts, spans, strict=True) if start <= (a + b) / 2 < end)
        for start, end in truth
    ]
    section = load_params(PARAMS)["evaluate"]["score"]
    options = parse_options(section, ScoreOptions, where="evaluate.score")
    return score_corpus(got, references, options)["bleu4"].value


if __name__ == "__main__":
    main()
