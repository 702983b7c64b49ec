import dataclasses
from pathlib import Path

import numpy as np
import torch

from signloom.features.targets import CtcLabels
from signloom.translation.options import DECODING
from signloom.translation.signs import find_signs
from signloom.translation.translator import Alignment, Translator
from signloom_tools.translate.films import make_sign_cues, translate_film
from signloom_tools.translate.segmentation import cut
from signloom_tools.translate.timed import time_tokens, to_json, translate_timed
from tests import tiny
from tests.tiny import write_checkpoint

CPU = torch.device("cpu")


def test_a_token_lasts_from_a_quarter_to_three_quarters_of_its_attention() -> None:
    weights = np.array(
        [
            [0, 0, 1, 0, 0],  # all in one place: that position and the time around it
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [1, 0, 0, 0, 0],  # at the start nothing is before 0
            [0, 0, 0, 0, 1],  # and nothing after the end of the clip
            [0, 1, 0, 0, 0],  # adds no text: an end of sentence
        ],
        np.float32,
    )
    alignment = Alignment(tokens=("a", "b", "c", "d", ""), step_s=0.2, weights=weights)
    found = time_tokens(alignment, 0.85)
    assert [token.text for token in found] == ["a", "b", "c", "d"]
    times = [(token.start_s, token.end_s) for token in found]
    np.testing.assert_allclose(times, [(0.3, 0.5), (0.1, 0.7), (0, 0.1), (0.7, 0.85)], atol=1e-6)


def test_tokens_spell_the_text_and_lie_in_the_clip(tmp_path: Path) -> None:
    translator = Translator.load(write_checkpoint(tmp_path / "model"), CPU)
    options = dataclasses.replace(DECODING, max_tokens=12)
    clips = [tiny.sequence(seed, frames=9 + seed) for seed in range(3)]
    for clip, timed in zip(
        clips, translate_timed(translator, clips, options, n_best=3), strict=True
    ):
        content = to_json(timed)
        assert content["text"] == timed.translation.text
        assert len(content["alternatives"]) == 2
        assert content["score"] >= content["alternatives"][0]["score"]
        assert all(0 <= t["start_s"] <= t["end_s"] <= clip.seconds for t in content["tokens"])
        # Random bytes may end within a character, which then belongs to no token.
        said = "".join(token["text"] for token in content["tokens"])
        assert content["text"].startswith(said)


def test_a_model_that_looks_at_no_frame_has_no_times(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", family="lstm", attention="none")
    options = dataclasses.replace(DECODING, max_tokens=4)
    (timed,) = translate_timed(Translator.load(folder, CPU), [tiny.sequence()], options, n_best=1)
    assert to_json(timed)["tokens"] is None


def test_what_is_looked_for_stands_in_place_of_the_signs_that_are_read(tmp_path: Path) -> None:
    labels = CtcLabels(kind="glosses", names=("TEA", "MILK"))
    translator = Translator.load(write_checkpoint(tmp_path / "model", ctc=labels), CPU)
    film, options = tiny.sequence(frames=40), dataclasses.replace(DECODING, max_tokens=4)
    spans = [(0.0, 1.5), (2.0, 3.5)]
    expected = find_signs(translator, [cut(film, span) for span in spans], ["MILK"])
    sentences = translate_film(translator, film, spans, options, find=["MILK"])
    assert [timed.signs for _, timed in sentences] == [tuple(signs) for signs in expected]
    cues = make_sign_cues(sentences)
    assert len(cues) == sum(map(len, expected))
    assert all(cue.text == "MILK" for cue in cues)
