"""A renderer of shaded rounded cones.

Every solid is the hull of two spheres. All (solid, pixel) pairs that may meet are intersected at
once in closed form; solids that nearly touch are blended, so that a chain of cones looks like one
skin. Per-pair values are single precision and stored component by component, which is what makes
this fast enough: about 2 ms for an arm.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

DISTANCE = 180.0  # camera to the plane of the body, cm
VIEW_HEIGHT = 95.0  # what the picture shows of that plane, cm

KEY_LIGHT = np.array([-0.42, 0.62, 0.66], dtype=np.float32)
FILL_LIGHT = np.array([0.7, 0.05, 0.7], dtype=np.float32)
BLEND_CM = 0.16  # depth difference at which two touching solids stop being blended
FAR = np.float32(1e9)


@dataclass(frozen=True, slots=True, eq=False)
class Solids:
    """Rounded cones, N of them.

    start, end: Centres of the two spheres, world cm, shape (N, 3).
    start_radius, end_radius: cm, shape (N,).
    colour: Reflectance in [0, 1], BGR, shape (N, 3).
    inner_colour: The same of the side that faces `inner` (palms are lighter), shape (N, 3).
    inner: Unit direction, shape (N, 3); zero where both sides are alike.
    """

    start: Floats
    end: Floats
    start_radius: Floats
    end_radius: Floats
    colour: Floats
    inner_colour: Floats
    inner: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """A pinhole camera that looks along -z.

    width, height: Picture, pixels.
    shift_x, shift_y: Where the camera is off the axis, cm.
    zoom: Magnification against the standard view.
    tilt_deg: How far the camera is turned about its axis, counter-clockwise.
    """

    width: int
    height: int
    shift_x: float = 0.0
    shift_y: float = 0.0
    zoom: float = 1.0
    tilt_deg: float = 0.0

    @property
    def focal(self) -> float:
        """Pixels per unit of slope."""
        return self.height * DISTANCE / VIEW_HEIGHT * self.zoom

    @property
    def position(self) -> Floats:
        """Where the pinhole is, world cm, shape (3,)."""
        return np.array([self.shift_x, self.shift_y, DISTANCE])

    def project(self, points: Floats) -> Floats:
        """Project world points (..., 3) to pixels (..., 2), y down."""
        offset = points - self.position
        slope = offset[..., :2] / -offset[..., 2:]
        if self.tilt_deg:
            slope = slope @ self._turn()
        centre = np.array([self.width / 2, self.height / 2])
        pixels: Floats = centre + slope * np.array([self.focal, -self.focal])
        return pixels

    def rays(self) -> Singles:
        """Unit directions through all pixel centres, row by row, shape (3, height * width)."""
        x = (np.arange(self.width) + 0.5 - self.width / 2) / self.focal
        y = -(np.arange(self.height) + 0.5 - self.height / 2) / self.focal
        grid_x, grid_y = np.meshgrid(x, y)
        if self.tilt_deg:
            turned = np.stack([grid_x, grid_y], axis=-1) @ self._turn().T
            grid_x, grid_y = turned[..., 0], turned[..., 1]
        rays = np.stack([grid_x, grid_y, -np.ones_like(grid_x)]).reshape(3, -1)
        unit: Floats = rays / np.linalg.norm(rays, axis=0)
        return unit.astype(np.float32)

    def _turn(self) -> Floats:
        """Return the rotation of the camera, which rows of slopes are multiplied with."""
        sine, cosine = np.sin(np.radians(self.tilt_deg)), np.cos(np.radians(self.tilt_deg))
        return np.array([[cosine, -sine], [sine, cosine]])


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What has been drawn so far: colour (H * W, 3) BGR in [0, 255] and distance (H * W,) cm."""

    colour: Singles
    depth: Singles


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Where rays meet solids: N pairs of a pixel and a solid.

    pixel, solid: Indices, shape (N,).
    distance: Along the ray, cm, shape (N,).
    normal: Outward unit normal, shape (3, N).
    """

    pixel: Indices
    solid: Indices
    distance: Singles
    normal: Singles

    def only(self, keep: NDArray[np.bool_]) -> "Hits":
        """The hits where `keep` is true."""
        index = np.flatnonzero(keep)
        return Hits(
            pixel=self.pixel[index],
            solid=self.solid[index],
            distance=self.distance[index],
            normal=_columns(self.normal, index),
        )


def draw(solids: Solids, under: Picture, camera: Camera, rays: Singles) -> Picture:
    """Draw solids over (and behind) what an earlier picture shows; the earlier one is kept."""
    hits = _intersect(solids, camera, rays, *_pairs(solids, camera))
    hits = hits.only(hits.distance < under.depth[hits.pixel])
    nearest = under.depth.copy()
    np.minimum.at(nearest, hits.pixel, hits.distance)
    gap = hits.distance - nearest[hits.pixel]
    hits = hits.only(gap < 4 * BLEND_CM)
    weight = np.exp((nearest[hits.pixel] - hits.distance) / np.float32(BLEND_CM))
    drawn = np.zeros(len(nearest), dtype=bool)
    drawn[hits.pixel] = True
    touched = np.flatnonzero(drawn)
    slot_of = np.zeros(len(nearest), dtype=np.int64)
    slot_of[touched] = np.arange(len(touched))
    slot = slot_of[hits.pixel]
    values = [*hits.normal, *_reflectance(solids, hits)]
    sums = np.stack([np.bincount(slot, weight * value, len(touched)) for value in values])
    normal = (sums[:3] / np.sqrt(np.maximum((sums[:3] ** 2).sum(axis=0), 1e-12))).astype(np.float32)
    reflectance = sums[3:] / np.bincount(slot, weight, len(touched))
    colour = under.colour.copy()
    colour[touched] = _shade(normal, reflectance.astype(np.float32), _columns(rays, touched)).T
    return Picture(colour=colour, depth=nearest)


def _pairs(solids: Solids, camera: Camera) -> tuple[Indices, Indices]:
    """List the (pixel, solid) pairs that may meet.

    A solid's outline lies in the hull of two discs; each of its rows gets the span of columns that
    a strip of constant radius would need there.
    """
    start, end = camera.project(solids.start), camera.project(solids.end)
    radius = np.maximum(
        _disc_radius(solids.start, solids.start_radius, camera),
        _disc_radius(solids.end, solids.end_radius, camera),
    )
    top = np.floor(np.minimum(start[:, 1], end[:, 1]) - radius)
    bottom = np.ceil(np.maximum(start[:, 1], end[:, 1]) + radius)
    top = np.clip(top, 0, camera.height).astype(np.int64)
    bottom = np.clip(bottom, 0, camera.height).astype(np.int64)
    solid, row = _ranges(top, bottom)
    (x, y), (dx, dy), reach = start[solid].T, (end - start)[solid].T, radius[solid]
    steep = np.where(np.abs(dy) < 1e-6, 1e-6, dy)
    shares = np.stack([(row + 0.5 - reach - y) / steep, (row + 0.5 + reach - y) / steep])
    columns = x + np.clip(shares, 0.0, 1.0) * dx
    left = np.clip(np.floor(columns.min(axis=0) - reach), 0, camera.width).astype(np.int64)
    right = np.clip(np.ceil(columns.max(axis=0) + reach), 0, camera.width).astype(np.int64)
    span, column = _ranges(left, right)
    return row[span] * camera.width + column, solid[span]


def _disc_radius(centre: Floats, radius: Floats, camera: Camera) -> Floats:
    """A bound on a sphere's radius in the picture, pixels; a slanting view widens it."""
    return 1.1 * radius * camera.focal / (DISTANCE - centre[:, 2] - radius) + 1.0


def _ranges(low: Indices, high: Indices) -> tuple[Indices, Indices]:
    """Write out integer ranges one after another: which range, and the number in it."""
    counts = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(which)) + np.repeat(low - np.cumsum(counts) + counts, counts)
    return which, number


def _columns(table: Singles, index: Indices) -> Singles:
    """Gather columns. `mode="clip"` skips a check: three times as fast as `table[:, index]`."""
    return np.take(table, index, axis=1, mode="clip")


def _dot(a: Singles, b: Singles) -> Singles:
    """Dot products of columns, (3, N) or (3,) and (3, N) to (N,)."""
    product: Singles = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return product


def _intersect(
    solids: Solids, camera: Camera, rays: Singles, pixel: Indices, solid: Indices
) -> Hits:
    """Intersect rays with rounded cones.

    Source: Inigo Quilez, "rounded cone intersection" (iquilezles.org/articles/intersectors), put
    into arrays: what depends on the solid alone is computed once per solid, in double precision.
    """
    axis = solids.end - solids.start
    offset = camera.position - solids.start
    taper = solids.start_radius - solids.end_radius
    length2, along = (axis**2).sum(axis=1), (axis * offset).sum(axis=1)
    body = np.maximum(length2 - taper**2, 1e-6)
    base = along - taper * solids.start_radius
    k0 = body * (offset**2).sum(axis=1) - length2 * solids.start_radius**2
    k0 += 2 * along * taper * solids.start_radius - along**2
    table = np.vstack([axis.T, offset.T, body, base, k0]).astype(np.float32)
    ray = _columns(rays, pixel)
    of = np.repeat(table, np.bincount(solid, minlength=len(axis)), axis=1)  # `solid` is sorted
    on_axis = _dot(of[:3], ray)
    k2 = of[6] - on_axis**2
    k1 = of[6] * _dot(of[3:6], ray) - on_axis * of[7]
    root = k1**2 - of[8] * k2
    hit = np.flatnonzero(root >= 0)  # the infinite cone holds both spheres: a miss is final
    pixel, solid, on_axis = pixel[hit], solid[hit], on_axis[hit]
    ray, of = _columns(ray, hit), _columns(of, hit)
    k2 = np.where(np.abs(k2[hit]) < 1e-9, np.float32(1e-9), k2[hit])
    distance = -(np.sqrt(root[hit]) + k1[hit]) / k2
    height = of[7] + distance * on_axis
    normal = of[6] * (of[3:6] + distance * ray) - of[:3] * height
    ends = np.flatnonzero((height <= 0) | (height >= of[6]))
    distance[ends], normal[:, ends] = _caps(solids, camera, solid[ends], _columns(ray, ends))
    normal /= np.sqrt(np.maximum(_dot(normal, normal), np.float32(1e-12)))
    return Hits(pixel=pixel, solid=solid, distance=distance, normal=normal).only(distance < FAR)


def _caps(solids: Solids, camera: Camera, solid: Indices, ray: Singles) -> tuple[Singles, Singles]:
    """Intersect with the two spheres: nearest distance (FAR for a miss) and normal."""
    best = np.full(len(solid), FAR)
    normal = np.zeros((3, len(solid)), dtype=np.float32)
    for centre, radius in ((solids.start, solids.start_radius), (solids.end, solids.end_radius)):
        offset = camera.position - centre
        table = np.vstack([offset.T, (offset**2).sum(axis=1) - radius**2]).astype(np.float32)
        of = _columns(table, solid)
        on_ray = _dot(of[:3], ray)
        root = on_ray**2 - of[3]
        distance = np.where(root > 0, -on_ray - np.sqrt(np.maximum(root, 0)), FAR)
        nearer = distance < best
        best = np.where(nearer, distance, best)
        normal = np.where(nearer, of[:3] + distance * ray, normal)
    return best, normal


def _reflectance(solids: Solids, hits: Hits) -> Singles:
    """Colour of the skin at each hit: back of the hand, palm, or between; shape (3, N)."""
    table = np.vstack([solids.inner.T, solids.colour.T, solids.inner_colour.T])
    of = _columns(table.astype(np.float32), hits.solid)
    share = np.clip(_dot(of[:3], hits.normal) * 1.6 + 0.2, 0.0, 1.0)
    return of[3:6] + share * (of[6:9] - of[3:6])


def _shade(normal: Singles, reflectance: Singles, rays: Singles) -> Singles:
    """Light each pixel: wrapped key and fill light, darker grazing edges; BGR in [0, 255]."""
    # Not `@`: a BLAS may round otherwise with another number of threads.
    key = np.clip((_dot(KEY_LIGHT, normal) + 0.35) / 1.35, 0.0, 1.0)
    fill = np.clip((_dot(FILL_LIGHT, normal) + 0.5) / 1.5, 0.0, 1.0)
    facing = np.clip(-_dot(normal, rays), 0.0, 1.0)
    edge = 0.5 + 0.5 * np.minimum(facing * 1.6, 1.0)
    light = (0.2 + 0.76 * key + 0.24 * fill) * edge
    colour: Singles = np.clip(255.0 * reflectance * light, 0.0, 255.0)
    return colour
