"""Recombined sentences: where clips are cut, which glosses change places, what the command says."""

import itertools
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from signloom.checkpoint import save_checkpoint
from signloom.config import load_params
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip, read_manifest, write_manifest
from signloom.corpus.shards import read_shards
from signloom.features.targets import read_targets
from signloom.paths import CHECKPOINT, SHARDS
from signloom.training.train import prepare
from signloom.translation.labels import find_positions
from signloom_tools.cli.main import main
from signloom_tools.importing.recombine import Contexts, cut_clip
from tests.tiny import run_options, write_project


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1]])
def test_labels_lie_where_the_likeliest_of_all_paths_puts_them(labels: list[int]) -> None:
    log_probs = np.log(np.random.default_rng(len(labels)).dirichlet(np.ones(3), 6))

    def spell(path: tuple[int, ...]) -> list[int]:
        return [label for label, _ in itertools.groupby(path) if label]

    paths = [path for path in itertools.product(range(3), repeat=6) if spell(path) == labels]
    best = max(paths, key=lambda path: sum(log_probs[m, label] for m, label in enumerate(path)))
    runs = [[*run] for _, run in itertools.groupby(range(6), key=best.__getitem__)]
    assert find_positions(log_probs.astype(np.float32), labels) == [
        (run[0], run[-1]) for run in runs if best[run[0]]
    ]


def test_cuts_of_a_clip_follow_each_other_and_hold_every_frame() -> None:
    cuts = cut_clip("a", [(0, 8), (16, 20), (28, 36)], frames=40)
    assert [cut.frames for cut in cuts] == [slice(0, 12), slice(12, 24), slice(24, 40)]


def test_a_gloss_is_exchanged_for_those_whose_words_stand_in_like_company() -> None:
    lines = {
        "TEA LARGE": "a large tea",
        "MILK LARGE": "a large milk",
        "TEA SMALL": "a small tea",
        "MILK": "a milk",
        "HELLO TEA LARGE": "hello a large tea",
    }
    clips = [
        Clip(clip_id=gloss, video=None, text=text, signer="s", split="train", gloss=gloss)
        for gloss, text in lines.items()
    ]
    contexts = Contexts(clips)
    assert contexts.words == {
        name: name.lower() for name in ("TEA", "LARGE", "MILK", "SMALL", "HELLO")
    }
    assert contexts.partners == {
        "TEA": ["MILK"],
        "MILK": ["TEA"],
        "LARGE": ["SMALL"],
        "SMALL": ["LARGE"],
        "HELLO": [],
    }


def test_new_sentences_are_grammatical_and_many() -> None:
    sizes, goods = ("", "SMALL ", "LARGE "), ("TEA", "MILK", "WATER")
    phrases = {"": "", "I GET CAN": "can i get "}
    language = {
        f"{good} {size}{ask}".strip(): f"{phrases[ask]}a {size.lower()}{good.lower()}"
        for good, size, ask in itertools.product(goods, sizes, phrases)
    }
    lines = [
        "TEA SMALL",
        "TEA",
        "MILK SMALL I GET CAN",
        "MILK LARGE I GET CAN",
        "WATER I GET CAN",
        "WATER LARGE",
        "TEA I GET CAN",
        "MILK",
    ]
    clips = [
        Clip(clip_id=g, video=None, text=language[g], signer="s", split="train", gloss=g)
        for g in lines
    ]
    contexts, generator = Contexts(clips), np.random.default_rng(1)
    sentences = {
        tuple(map(" ".join, contexts.vary(clip.gloss.split(), clip.text.split(), generator)))
        for clip in clips * 50
        if clip.gloss
    }
    assert sentences <= set(language.items())
    assert len(sentences) > 12


def test_the_command_makes_a_corpus_of_a_project_and_of_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"either --takes .* or --recombine"):
        main(["compose", "new"])
    files = write_project(Path("data"))
    checkpoint, _ = prepare(files.load(cache_mb=10), run_options(ctc_weight=0.3), provenance={})
    save_checkpoint(CHECKPOINT, checkpoint)
    shutil.copytree(files.shards, SHARDS)
    clips = [
        Clip(
            clip_id=target.clip_id,
            video=Path("corpus/a.mp4"),
            text=target.text,
            signer=target.split,
            split=target.split,
            gloss=f"{target.gloss} {target.gloss}",
            box="0 0 1 1",
        )
        for target in read_targets(files.targets)
    ]
    Path("corpus").mkdir()
    Path("corpus/a.mp4").touch()
    write_manifest(Path("corpus/manifest.tsv"), clips)
    Path("params.yaml").write_text(
        "corpus: {folder: corpus, manifest: manifest.tsv, signer_disjoint: true}\n"
    )
    main(["compose", "new", "--recombine", "5", "--dry-run"])
    output = capsys.readouterr().out
    assert "nothing was written" in output
    assert re.search(
        r"reads \d+% of the glosses of these \d+ train clips wrong\nso it hardly knows where",
        output,
    )
    main(["compose", "new", "--recombine", "5", "--use"])
    assert load_params(Path("params.yaml"))["corpus"]["folder"] == "new"
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("new", "corpus"))
    new_clips = read_manifest(Path("new/manifest.tsv"), signer_disjoint=True)
    fresh = [clip for clip in new_clips if clip.signer == "several"]
    assert len(fresh) == 5
    assert len(new_clips) == len(clips) + 5
    assert read_shards(Path("new") / IMPORTED_SHARDS).keys() == {clip.clip_id for clip in new_clips}
    with pytest.raises(SystemExit, match=r"already|there"):
        main(["compose", "new", "--recombine", "5"])
