import numpy as np
import pytest

from signloom_demo.motion import perform
from signloom_demo.render import DISTANCE, FAR, VIEW_HEIGHT, Camera, Picture, Solids, draw
from signloom_demo.scene import draw_frames, pose_arms
from signloom_demo.signer import TRAIN_SIGNERS, Signer

CAMERA = Camera(width=80, height=60)


def solids(*cones: tuple[list[float], list[float], float, float, float]) -> Solids:
    """Grey cones: start, end, radii, reflectance."""
    starts, ends, start_radii, end_radii, grey = zip(*cones, strict=True)
    colour = np.repeat(np.array(grey)[:, None], 3, axis=1)
    return Solids(
        start=np.array(starts),
        end=np.array(ends),
        start_radius=np.array(start_radii),
        end_radius=np.array(end_radii),
        colour=colour,
        inner_colour=colour,
        inner=np.zeros_like(colour),
    )


def empty(camera: Camera = CAMERA) -> Picture:
    pixels = camera.width * camera.height
    return Picture(
        colour=np.zeros((pixels, 3), dtype=np.float32), depth=np.full(pixels, FAR, dtype=np.float32)
    )


def marched(cone: Solids, camera: Camera) -> np.ndarray:
    """Distances by brute force: march each ray until it is inside the hull of the spheres."""
    rays, shares = camera.rays().astype(float), np.linspace(0, 1, 61)
    centres = cone.start[0] + shares[:, None] * (cone.end[0] - cone.start[0])
    radii = cone.start_radius[0] + shares * (cone.end_radius[0] - cone.start_radius[0])
    nearest = np.full(rays.shape[1], np.inf)
    for distance in np.arange(155.0, 210.0, 0.2):
        points = camera.position + distance * rays.T
        square = (
            (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
        )
        inside = (square < radii**2).any(axis=1) & np.isinf(nearest)
        nearest[inside] = distance
    return nearest


def test_projection_keeps_the_stated_view() -> None:
    top = CAMERA.project(np.array([0.0, VIEW_HEIGHT / 2, 0.0]))
    np.testing.assert_allclose(top, [CAMERA.width / 2, 0.0], atol=1e-9)
    near = CAMERA.project(np.array([10.0, 0.0, DISTANCE / 2]))
    far = CAMERA.project(np.array([10.0, 0.0, 0.0]))
    assert near[0] - CAMERA.width / 2 == pytest.approx(2 * (far[0] - CAMERA.width / 2))


@pytest.mark.parametrize(
    ("start", "end", "radii"),
    [
        ([-10.0, -4.0, 0.0], [12.0, 6.0, 8.0], (6.0, 2.0)),
        ([0.0, 0.0, 10.0], [1.0, 0.5, -15.0], (3.0, 7.0)),  # nearly along the view
        ([5.0, -8.0, 0.0], [5.0, 9.0, 0.0], (4.0, 4.0)),
    ],
)
def test_cones_are_where_brute_force_finds_them(
    start: list[float], end: list[float], radii: tuple[float, float]
) -> None:
    cone = solids((start, end, *radii, 0.8))
    camera = Camera(width=40, height=30, zoom=3.0)
    picture = draw(cone, empty(camera), camera, camera.rays())
    expected = marched(cone, camera)
    drawn = picture.depth < FAR
    assert (drawn != np.isfinite(expected)).sum() <= 6  # outlines are missed by the steps
    compared = drawn & np.isfinite(expected)
    assert compared.sum() > 50
    # Grazing rays are inside for less than a marching step, so the median, not the maximum.
    assert np.median(np.abs(picture.depth[compared] - expected[compared])) < 0.21


def test_nearer_solids_hide_farther_ones() -> None:
    near = ([-5.0, 0.0, 20.0], [5.0, 0.0, 20.0], 5.0, 5.0, 0.9)
    far = ([-5.0, 0.0, 0.0], [5.0, 0.0, 0.0], 5.0, 5.0, 0.2)
    rays = CAMERA.rays()
    alone = draw(solids(near), empty(), CAMERA, rays)
    together = draw(solids(far, near), empty(), CAMERA, rays)
    behind = draw(solids(far), alone, CAMERA, rays)
    centre = CAMERA.width * (CAMERA.height // 2) + CAMERA.width // 2
    np.testing.assert_array_equal(together.colour[centre], alone.colour[centre])
    np.testing.assert_array_equal(behind.colour[centre], alone.colour[centre])


def frame(signer: Signer) -> np.ndarray:
    camera = Camera(width=160, height=120)
    performance = perform(["BONJOUR"], signer, 15.0, np.random.default_rng(0))
    arms = pose_arms(performance, signer)
    return next(draw_frames(arms, signer, camera, np.random.default_rng(1)))


def test_signers_look_different() -> None:
    frames = [frame(signer).astype(int) for signer in TRAIN_SIGNERS]
    for first in range(len(frames)):
        for second in range(first):
            assert np.abs(frames[first] - frames[second]).mean() > 10
