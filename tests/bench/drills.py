"""Draws clips in which every handshape meets every orientation, for benchmarks.

The demo corpus has only the pairs that its signs need. Here a clip shows one handshape with both
hands, in half of the orientations, one after another; six signers of six skins take turns.
"""

from pathlib import Path

from signloom_demo.draw import DrawOptions, PlannedClip, Truth, draw_clip
from signloom_demo.grammar import Sentence
from signloom_demo.signer import TRAIN_SIGNERS
from signloom_demo.signs import HAND_SHAPES, LEXICON, ORIENTATIONS, Key, Sign

PARTS = 2  # clips of one handshape
SKINS = {
    "porcelain": "chloe",
    "beige": "anouk",
    "olive": "driss",
    "tan": "gildas",
    "brown": "fatou",
    "deep": "bakary",
}
SIGNERS = {signer.name: signer for signer in TRAIN_SIGNERS}
OPTIONS = DrawOptions(
    out=Path("drills"), seed=7, train_signers=6, dev_signers=0, test_signers=0,
    clips_per_signer=1, max_signs=1, unseen_share=0.0, fps=15.0, width=320, height=240,
)  # fmt: skip


def plan_drills() -> list[PlannedClip]:
    """The clips, named `handshape-part-skin`; their glosses are `handshape:orientation`."""
    clips = []
    for number, shape in enumerate(HAND_SHAPES):
        for part in range(PARTS):
            skin = list(SKINS)[(PARTS * number + part) % len(SKINS)]
            glosses = tuple(f"{shape}:{turn}" for turn in list(ORIENTATIONS)[part::PARTS])
            clips.append(
                PlannedClip(
                    index=len(clips),
                    clip_id=f"{shape}-{part}-{skin}",
                    signer=SIGNERS[SKINS[skin]],
                    split="train",
                    sentence=Sentence(glosses, "", "drill"),
                )
            )
    return clips


def draw_drill(clip: PlannedClip, folder: Path) -> Truth:
    """Draw one of the clips into `folder`/videos and return what is true of it."""
    for gloss in clip.sentence.glosses:
        shape, turn = gloss.split(":")
        # A little up and down, as no hand that signs is at rest; the hands apart from each other.
        keys = (Key(shape, -20.0, 3.0, turn), Key(shape, -20.0, 5.0, turn))
        LEXICON[gloss] = Sign(dominant=keys, other=keys, beats=0.5)
    return draw_clip(clip, OPTIONS, folder)
