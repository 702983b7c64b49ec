import dataclasses
from pathlib import Path

import torch

from signloom.features.targets import NO_LABELS, CtcLabels
from signloom.translation.options import DECODING
from signloom.translation.recognised_signs import find_signs
from signloom.translation.translator import Translator
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.films import make_sign_cues, translate_film
from signloom_tools.translate.segmentation import cut
from signloom_tools.translate.timed import translate_timed
from tests import tiny
from tests.tiny import write_checkpoint

CPU = torch.device("cpu")
LABELS = CtcLabels(kind="glosses", names=("TEA", "MILK"))


def test_tokens_spell_the_text_of_a_model_that_reads_signs(tmp_path: Path) -> None:
    options = dataclasses.replace(DECODING, max_tokens=12)
    clips = [tiny.sequence(seed, frames=9 + seed) for seed in range(3)]
    for labels in (NO_LABELS, LABELS):
        translator = Translator.load(write_checkpoint(tmp_path / labels.kind, ctc=labels), CPU)
        for timed in translate_timed(translator, clips, options, n_best=3):
            content = to_json(timed)
            assert content["text"] == timed.translation.text
            assert len(content["alternatives"]) == 2
            assert content["score"] >= content["alternatives"][0]["score"]
            assert (content["tokens"] is None) == (labels is NO_LABELS)
            # Random bytes may end within a character, which then belongs to no token.
            spelt = "".join(token["text"] for token in content["tokens"] or ())
            assert content["text"].startswith(spelt)


def test_what_is_looked_for_stands_in_place_of_the_signs_that_are_read(tmp_path: Path) -> None:
    translator = Translator.load(write_checkpoint(tmp_path / "model", ctc=LABELS), CPU)
    film, options = tiny.sequence(frames=40), dataclasses.replace(DECODING, max_tokens=4)
    spans = [(0.0, 1.5), (2.0, 3.5)]
    expected = find_signs(translator, [cut(film, span) for span in spans], ["MILK"])
    sentences = translate_film(translator, film, spans, options, find=["MILK"])
    assert [timed.signs for _, timed in sentences] == [tuple(signs) for signs in expected]
    cues = make_sign_cues(sentences)
    assert len(cues) == sum(map(len, expected))
    assert all(cue.text == "MILK" for cue in cues)
