"""The signers of the demo: ten drawn people and their rooms."""

from dataclasses import dataclass

import numpy as np

from signloom_demo.skeleton import Floats

Colour = tuple[float, float, float]  # reflectance in [0, 1]: red, green, blue


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """One person and the room behind.

    name: As in the manifest.
    skin, palm, hair, shirt: Reflectances.
    hair_style: "short", "long", "bun" or "bald".
    sleeve: How far down the forearm the sleeve reaches, 0 (elbow) to 1 (wrist).
    backdrop: "plain", "wall", "wood", "curtain" or "window".
    backdrop_colour: Its reflectance.
    size: Scale of the body and hands against the adult of `skeleton`.
    width: Scale of shoulders and trunk, on top of `size`.
    speed: Signing speed; 1 is the lexicon's.
    amplitude: Scale of the movement within a sign.
    jitter_cm: Standard deviation of where a sign is placed and of the drift of the hand.
    smoothness: How much neighbouring postures run into each other, frames (Gaussian sigma).
    left_handed: Whether the left hand is the dominant one (signs are mirrored).
    mouth, lips: Width of the mouth and thickness of the lips of a face that moves; 1 is usual.
    """

    name: str
    skin: Colour
    palm: Colour
    hair: Colour
    shirt: Colour
    hair_style: str
    sleeve: float
    backdrop: str
    backdrop_colour: Colour
    size: float
    width: float
    speed: float
    amplitude: float
    jitter_cm: float
    smoothness: float
    left_handed: bool
    mouth: float = 1.0
    lips: float = 1.0


# Skin and palm, light to dark. Palms keep less pigment than backs.
PORCELAIN = ((0.93, 0.76, 0.67), (0.97, 0.79, 0.72))
BEIGE = ((0.87, 0.66, 0.53), (0.93, 0.73, 0.62))
OLIVE = ((0.76, 0.56, 0.42), (0.87, 0.67, 0.55))
TAN = ((0.64, 0.44, 0.31), (0.80, 0.60, 0.48))
BROWN = ((0.48, 0.31, 0.21), (0.72, 0.52, 0.41))
DEEP = ((0.36, 0.23, 0.16), (0.66, 0.47, 0.37))


def _signer(
    name: str,
    tone: tuple[Colour, Colour],
    look: tuple[Colour, str, Colour, float],
    room: tuple[str, Colour],
    build: tuple[float, float],
    style: tuple[float, float, float, float],
    left_handed: bool = False,
) -> Signer:
    """Lay out one row of the table below."""
    hair, hair_style, shirt, sleeve = look
    return Signer(
        name=name,
        skin=tone[0],
        palm=tone[1],
        hair=hair,
        hair_style=hair_style,
        shirt=shirt,
        sleeve=sleeve,
        backdrop=room[0],
        backdrop_colour=room[1],
        size=build[0],
        width=build[1],
        speed=style[0],
        amplitude=style[1],
        jitter_cm=style[2],
        smoothness=style[3],
        left_handed=left_handed,
    )


BLACK, AUBURN, BLOND, GREY, CHESTNUT = (
    (0.06, 0.05, 0.05),
    (0.36, 0.15, 0.08),
    (0.78, 0.62, 0.34),
    (0.55, 0.55, 0.56),
    (0.24, 0.14, 0.09),
)
NAVY, WINE, FOREST, CHARCOAL, PLUM = (
    (0.10, 0.16, 0.34),
    (0.42, 0.07, 0.10),
    (0.09, 0.30, 0.17),
    (0.15, 0.15, 0.17),
    (0.33, 0.13, 0.36),
)
CREAM, SKY, MINT, LEMON, PETROL = (
    (0.90, 0.88, 0.80),
    (0.50, 0.70, 0.88),
    (0.58, 0.82, 0.70),
    (0.90, 0.82, 0.40),
    (0.16, 0.30, 0.42),
)

# Light skins wear dark shirts and dark skins light ones: MediaPipe finds hands by contrast.
# build = size, width; style = speed, amplitude, jitter in cm, smoothness in frames.
TRAIN_SIGNERS = (
    _signer(
        "anouk",
        BEIGE,
        (CHESTNUT, "long", NAVY, 0.55),
        ("wall", (0.78, 0.72, 0.62)),
        (1.00, 1.00),
        (1.00, 1.00, 0.5, 0.6),
    ),
    _signer(
        "bakary",
        DEEP,
        (BLACK, "short", CREAM, 0.50),
        ("plain", (0.25, 0.42, 0.60)),
        (1.05, 1.06),
        (0.92, 1.08, 0.6, 0.7),
    ),
    _signer(
        "chloe",
        PORCELAIN,
        (AUBURN, "bun", FOREST, 0.80),
        ("curtain", (0.55, 0.50, 0.58)),
        (0.95, 0.94),
        (1.12, 0.92, 0.4, 0.5),
        left_handed=True,
    ),
    _signer(
        "driss",
        OLIVE,
        (BLACK, "short", WINE, 0.10),
        ("wood", (0.42, 0.28, 0.16)),
        (1.03, 1.05),
        (0.95, 1.12, 0.7, 0.8),
    ),
    _signer(
        "emile",
        BEIGE,
        (GREY, "bald", CHARCOAL, 0.75),
        ("window", (0.66, 0.76, 0.82)),
        (1.04, 1.08),
        (0.85, 0.95, 0.5, 0.9),
    ),
    _signer(
        "fatou",
        BROWN,
        (BLACK, "bun", MINT, 0.30),
        ("plain", (0.82, 0.80, 0.76)),
        (0.97, 0.96),
        (1.08, 1.05, 0.6, 0.5),
    ),
    _signer(
        "gildas",
        TAN,
        (CHESTNUT, "long", SKY, 0.65),
        ("wall", (0.36, 0.40, 0.36)),
        (1.00, 1.02),
        (1.02, 0.98, 0.8, 0.6),
    ),
)
DEV_SIGNERS = (
    _signer(
        "hana",
        OLIVE,
        (BLACK, "long", PLUM, 0.45),
        ("curtain", (0.70, 0.66, 0.50)),
        (0.96, 0.95),
        (1.05, 1.00, 0.6, 0.6),
    ),
)
TEST_SIGNERS = (
    _signer(
        "ines",
        PORCELAIN,
        (BLOND, "long", PETROL, 0.60),
        ("wood", (0.58, 0.44, 0.30)),
        (0.98, 0.97),
        (0.96, 1.06, 0.7, 0.7),
    ),
    _signer(
        "joao",
        BROWN,
        (BLACK, "short", LEMON, 0.20),
        ("window", (0.40, 0.52, 0.46)),
        (1.02, 1.04),
        (1.06, 0.95, 0.6, 0.6),
        left_handed=True,
    ),
)


def backdrop(signer: Signer, width: int, height: int, rng: np.random.Generator) -> Floats:
    """Paint the room, BGR in [0, 255], shape (height, width, 3); y grows downwards."""
    y, x = np.mgrid[0:height, 0:width]
    y, x = y / height, x / width
    light = 0.9 + 0.18 * (1 - y) - 0.12 * np.abs(x - 0.4)
    if signer.backdrop == "wall":
        light = light + 0.12 * _clouds(rng, height, width, 6)
    elif signer.backdrop == "wood":
        light = light + 0.18 * _clouds(rng, height, width, 3, stretch=8)
        light = light * np.where(np.mod(y * 5, 1) < 0.03, 0.7, 1.0)
    elif signer.backdrop == "curtain":
        light = light * (0.92 + 0.1 * np.sin(x * 70 + 2 * np.sin(y * 3)))
    elif signer.backdrop == "window":
        panes = (np.abs(x - 0.82) < 0.15) & (np.abs(y - 0.25) < 0.2)
        bars = (np.abs(x - 0.82) < 0.008) | (np.abs(y - 0.25) < 0.01)
        light = np.where(panes & ~bars, light * 1.35, light)
    colour = np.array(signer.backdrop_colour[::-1])
    painted: Floats = np.clip(255 * light[..., None] * colour, 0, 255)
    return painted


def _clouds(
    rng: np.random.Generator, height: int, width: int, cells: int, stretch: int = 1
) -> Floats:
    """Smooth noise of about unit amplitude with some cells a picture; stretched sideways."""
    rows, columns = cells * stretch + 1, max(2, cells + 1)
    knots = rng.standard_normal((rows, columns))
    at_y = np.linspace(0, rows - 1.001, height)
    at_x = np.linspace(0, columns - 1.001, width)
    row, column = at_y.astype(int), at_x.astype(int)
    share_y = _ease(at_y - row)[:, None]
    share_x = _ease(at_x - column)[None]
    upper = knots[row][:, column] * (1 - share_x) + knots[row][:, column + 1] * share_x
    lower = knots[row + 1][:, column] * (1 - share_x) + knots[row + 1][:, column + 1] * share_x
    clouds: Floats = upper * (1 - share_y) + lower * share_y
    return clouds


def _ease(share: Floats) -> Floats:
    return share * share * (3 - 2 * share)
