"""What does the camera of a MuJoCo world see of its objects?

`Scene` draws pictures and says where each named object is in them. Boxes, oriented boxes and centres of mass come from
the geometry: an object is whole even where others cover it, and ends where the picture ends. Only depth is read from
drawn pixels, from those where the object is seen.
"""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from training.dataset_format import DEPTH_PERCENTILES
from training.envs.packages import OPENGL, MissingPackageError, needed

HIDDEN_GROUP = 3  # geoms of this group and above serve collisions and are not drawn
_ROUND = 24  # points that stand for a circle
_SLICE = 0.03  # metres: meshes are described in slices of this thickness
_FINE = 4  # subpixels at which silhouettes are weighed


@dataclass(frozen=True)
class Thing:
    """An object: the geoms that show it, and the body that turns with it, if it is rigid."""

    geoms: Sequence[int]
    body: int | None = None


class Scene:
    """One camera of a model, and the objects that it watches. `data` is always a state after `mj_forward`."""

    def __init__(
        self, model: Any, camera: str, size: tuple[int, int], things: Mapping[str, Thing], fine: bool = False
    ) -> None:
        """`fine`: shadows and smooth edges as the model asks for them, at a fifth of the speed."""
        self._mujoco = needed("mujoco", "A MuJoCo world")
        self._model, self._size, self._fine = model, size, fine
        self._camera = model.camera(camera).id
        self._geoms = [
            [geom for geom in thing.geoms if model.geom_group[geom] < HIDDEN_GROUP] for thing in things.values()
        ]
        self._pieces: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # points of all pieces, and where pieces end
        for geom in (geom for geoms in self._geoms for geom in geoms):
            pieces = _pieces(self._mujoco, model, geom)
            self._pieces[geom] = np.concatenate(pieces), np.cumsum([len(piece) for piece in pieces])[:-1]
        self._bodies = [np.unique(model.geom_bodyid[list(thing.geoms)]) for thing in things.values()]
        self._turning = [thing.body for thing in things.values()]
        self._canvas: _Canvas | None = None

    def picture(self, data: Any) -> np.ndarray:
        """(H, W, 3) uint8."""
        return self._opened().picture(data)

    def depths(self, data: Any) -> np.ndarray:
        """Percentiles of the distance along the camera's axis, (n, 5); of its middle where an object is not seen."""
        seen, depth = self._opened().geoms_and_depth(data)
        rows = np.repeat(self._in_camera(data, self._places(data))[:, 2:], len(DEPTH_PERCENTILES), axis=1)
        for row, geoms in zip(rows, self._geoms, strict=True):
            pixels = depth[np.isin(seen, geoms)]
            if len(pixels):
                row[:] = np.percentile(pixels, DEPTH_PERCENTILES)
        return rows

    def outlines(self, data: Any) -> np.ndarray:
        """Box (4), oriented box (5) and centre of mass (2) of each object, (n, 11); NaN where it is out of view."""
        return np.stack([_described(self._silhouette(data, geoms)) for geoms in self._geoms])

    def poses(self, data: Any) -> np.ndarray:
        """x y z of the centre of mass, roll pitch yaw, (n, 6); the angles are NaN of what is not rigid."""
        turns = np.full((len(self._geoms), 3), np.nan)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gimbal lock", UserWarning)  # yaw is 0 there, which is as good as any
            for turn, body in zip(turns, self._turning, strict=True):
                if body is not None:
                    turn[:] = Rotation.from_matrix(data.xmat[body].reshape(3, 3)).as_euler("xyz")
        return np.concatenate([self._places(data), turns], axis=1)

    def pose_velocities(self, data: Any) -> np.ndarray:
        """Of the centres of mass, (n, 3), a second."""
        speed = np.zeros(6)
        rows = np.zeros((len(self._bodies), 3))
        for row, bodies in zip(rows, self._bodies, strict=True):
            for body in bodies:
                kind = self._mujoco.mjtObj.mjOBJ_BODY
                self._mujoco.mj_objectVelocity(self._model, data, kind, body, speed, 0)
                row += self._model.body_mass[body] * speed[3:]
            row /= self._model.body_mass[bodies].sum()
        return rows

    def velocities(self, data: Any) -> np.ndarray:
        """Of the centres of mass in the picture, (n, 2), pixels a second."""
        place = self._in_camera(data, self._places(data))
        across = self.pose_velocities(data) @ self._axes(data)
        return self._focal() * (across[:, :2] * place[:, 2:] - place[:, :2] * across[:, 2:]) / place[:, 2:] ** 2

    def _places(self, data: Any) -> np.ndarray:
        mass = self._model.body_mass
        return np.stack([np.average(data.xipos[bodies], axis=0, weights=mass[bodies]) for bodies in self._bodies])

    def _silhouette(self, data: Any, geoms: Sequence[int]) -> list[np.ndarray]:
        """Convex outlines (k, 2) of the pieces of an object in pixels, cut to the picture."""
        height, width = self._size
        last = np.array([width - 0.5, height - 0.5], np.float32)
        # What does not come as far as the middle of the outermost pixels is not drawn.
        frame = np.array([[0.5, 0.5], [last[0], 0.5], last, [0.5, last[1]]], np.float32)
        outlines = []
        for geom in geoms:
            points, ends = self._pieces[geom]
            place = self._in_camera(data, points @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom])
            pixels = self._focal() * place[:, :2] / np.maximum(place[:, 2:], 1e-3) + (width / 2, height / 2)
            for part in np.split(pixels.astype(np.float32), ends):
                hull = np.asarray(cv2.convexHull(part))[:, 0]
                if hull.min() < 0.5 or (hull > last).any():
                    area, cut = cv2.intersectConvexConvex(hull, frame)
                    if area <= 0 or cut is None:
                        continue
                    hull = np.asarray(cut)[:, 0]
                    hull = np.where(hull <= 0.5, 0, np.where(hull >= last, last + np.float32(0.5), hull))
                outlines.append(hull)
        return outlines

    def _axes(self, data: Any) -> np.ndarray:
        """Columns: to the right, down and away from the camera."""
        return np.asarray(data.cam_xmat[self._camera].reshape(3, 3) * (1, -1, -1))

    def _in_camera(self, data: Any, points: np.ndarray) -> np.ndarray:
        return np.asarray((points - data.cam_xpos[self._camera]) @ self._axes(data))

    def _focal(self) -> float:
        return float(self._size[0] / 2 / np.tan(np.radians(self._model.cam_fovy[self._camera]) / 2))

    def _opened(self) -> _Canvas:
        if self._canvas is None:
            self._canvas = _Canvas(self._mujoco, self._model, self._camera, self._size, self._fine)
        return self._canvas


class _Canvas:
    """Where OpenGL draws. One pass of colours gives a picture, one pass of geom numbers also gives depth."""

    def __init__(self, mujoco: Any, model: Any, camera: int, size: tuple[int, int], fine: bool) -> None:
        self._mujoco, self._model, self._fine = mujoco, model, fine
        height, width = size
        model.vis.global_.offheight, model.vis.global_.offwidth = height, width
        if not fine:
            model.vis.quality.offsamples = 0
        try:
            self._gl = _drawing_library(mujoco).GLContext(width, height)
            self._gl.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # OpenGL bindings raise whatever they like
            raise MissingPackageError(f"MuJoCo cannot draw here ({error}). {OPENGL}") from error
        # At exit before mujoco gives up its display, for it asked earlier; otherwise as soon as nobody draws any more.
        atexit.register(weakref.finalize(self, _closed, self._gl, self._context))
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = mujoco.MjvScene(model, model.ngeom + 100)
        self._option, self._rect = mujoco.MjvOption(), mujoco.MjrRect(0, 0, width, height)
        self._view = mujoco.MjvCamera()
        self._view.type, self._view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera

    def picture(self, data: Any) -> np.ndarray:
        picture = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        self._draw(data, picture, None, numbers=False)
        return np.ascontiguousarray(picture[::-1])

    def geoms_and_depth(self, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """The geom seen in each pixel, (H, W), -1 where none is, and its distance (H, W)."""
        shape = (self._rect.height, self._rect.width)
        colours, buffer = np.empty((*shape, 3), np.uint8), np.empty(shape, np.float32)
        self._draw(data, colours, buffer, numbers=True)
        geom_of = np.full(self._scene.ngeom + 1, -1)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.segid >= 0 and geom.objtype == self._mujoco.mjtObj.mjOBJ_GEOM:
                geom_of[geom.segid + 1] = geom.objid
        number = colours @ np.array([1, 2**8, 2**16])
        near, far = (limit * self._model.stat.extent for limit in (self._model.vis.map.znear, self._model.vis.map.zfar))
        # The depth buffer holds 1 at the near plane and 0 at the far one, linear in 1 / distance.
        return geom_of[number[::-1]], near * far / (near + buffer[::-1].astype(float) * (far - near))

    def _draw(self, data: Any, colours: np.ndarray, depth: np.ndarray | None, numbers: bool) -> None:
        mujoco = self._mujoco
        self._gl.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, self._option, None, self._view, everything, self._scene)
        flags = self._scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = self._fine
        flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = numbers
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(colours, depth, self._rect, self._context)


def _drawing_library(mujoco: Any) -> Any:
    """The one that MUJOCO_GL names, even if mujoco was imported before it was set and has chosen another."""
    library = os.environ.get("MUJOCO_GL", "")
    return needed(f"mujoco.{library}", "MuJoCo") if library in ("egl", "osmesa") else mujoco


def _closed(gl: Any, context: Any) -> None:
    gl.make_current()
    context.free()
    gl.free()


def _described(outlines: list[np.ndarray]) -> np.ndarray:
    """Box, oriented box and centre of mass (11,) of a silhouette made of convex outlines."""
    if not outlines:
        return np.full(11, np.nan)
    points = np.concatenate(outlines)
    low, high = points.min(axis=0), points.max(axis=0)
    if (high <= low).any():
        return np.full(11, np.nan)
    centre, (width, height), degrees = cv2.minAreaRect(points)
    angle = np.radians(degrees) + (np.pi / 2 if height > width else 0)
    angle = (angle + np.pi / 2) % np.pi - np.pi / 2
    return np.array(
        [*low, *high, *centre, max(width, height), min(width, height), angle, *_balance(outlines, low, high)]
    )


def _balance(outlines: list[np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The middle of all that the outlines cover."""
    corner = np.floor(low)
    columns, rows = (np.ceil((high - corner) * _FINE)).astype(int) + 1
    covered = np.zeros((rows, columns), np.uint8)
    for outline in outlines:
        cv2.fillConvexPoly(covered, np.rint((outline - corner) * _FINE).astype(np.int32), 1)
    moments = cv2.moments(covered, binaryImage=True)
    return corner + (np.array([moments["m10"], moments["m01"]]) / moments["m00"]) / _FINE


def _pieces(mujoco: Any, model: Any, geom: int) -> list[np.ndarray]:
    """Points (k, 3) in a geom's own frame, piece by piece; the geom is what their hulls cover together."""
    kind, size = model.geom_type[geom], model.geom_size[geom]
    shapes = mujoco.mjtGeom
    if kind == shapes.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        points = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]].astype(float)
        return _slices(points, model.mesh_face[model.mesh_faceadr[mesh] :][: model.mesh_facenum[mesh]])
    if kind == shapes.mjGEOM_BOX:
        return [size * np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T]
    turn = np.arange(_ROUND) * 2 * np.pi / _ROUND
    rings = np.linspace(-np.pi / 2, np.pi / 2, _ROUND // 2 + 1)[:, None]
    ball = np.stack(
        np.broadcast_arrays(np.cos(rings) * np.cos(turn), np.cos(rings) * np.sin(turn), np.sin(rings)), axis=-1
    )
    if kind == shapes.mjGEOM_SPHERE:
        return [ball.reshape(-1, 3) * size[0]]
    if kind == shapes.mjGEOM_CAPSULE:
        return [np.concatenate([ball.reshape(-1, 3) * size[0] + (0, 0, end) for end in (-size[1], size[1])])]
    raise ValueError(f"The outline of the geom {model.geom(geom).name!r} is not known.")


def _slices(points: np.ndarray, faces: np.ndarray) -> list[np.ndarray]:
    """A mesh in slices across its longest side: a bent link is not convex, a slice of it nearly is."""
    axis = int(np.ptp(points, axis=0).argmax())
    along = points[:, axis]
    edges = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    cuts = np.linspace(along.min(), along.max(), max(1, round(np.ptp(along) / _SLICE)) + 1)
    rims = [points[:0]] * len(cuts)
    for number, cut in enumerate(cuts[1:-1], 1):
        first, last = edges[(along[edges] > cut).any(axis=1) & (along[edges] < cut).any(axis=1)].T
        share = (cut - along[first]) / (along[last] - along[first])
        rims[number] = points[first] + share[:, None] * (points[last] - points[first])
    slices = []
    for number, (low, high) in enumerate(pairwise(cuts)):
        part = np.concatenate([points[(along >= low) & (along <= high)], rims[number], rims[number + 1]])
        if len(part) > 4:  # a mesh of separate rings has nothing in between
            slices.append(part[ConvexHull(part, qhull_options="QJ").vertices])  # QJ: a flat part has a hull as well
    return slices
