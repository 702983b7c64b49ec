"""Networks: .tflite files run by LiteRT, without the graph around them.

LiteRT runs the files that MediaPipe's package carries with the same kernels (XNNPACK). A network is
cut down to the outputs that are asked for: the pose network's segmentation mask, which is not
read, is two fifths of its work.
"""

import copy
import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

cv2.setNumThreads(1)  # a worker a core detects at the same time as the others

LIDS, IRIS = 16, 5  # landmarks of the edges of an eye's lids, which come first, and of its iris

Picture = npt.NDArray[np.uint8]
Tensor = npt.NDArray[np.float32]


class Network:
    """A network that LiteRT runs on the CPU, one picture at a time.

    Batches gain nothing: four pictures together took 7.4 ms each for the pose, one alone 6.8.

    Args:
        path: A .tflite file with one input.
        outputs: Which of its outputs are wanted, by number; None: all of them.
        low: What black becomes for it; white becomes 1.
    """

    def __init__(
        self, path: Path, outputs: tuple[int, ...] | None = None, *, low: float = 0.0
    ) -> None:
        self._interpreter = _open(_rewritten(path, outputs))
        # Multiplied and added in one step, as OpenCV does for MediaPipe: rounded once.
        self._scale = np.float32(1 - low) / np.float32(255)
        self._levels = (np.arange(256) * float(self._scale) + low).astype(np.float32)
        self._is_shifted = low != 0
        (input_details,) = self._interpreter.get_input_details()
        self._given = _memory(self._interpreter, input_details["index"])[0]
        output_details = self._interpreter.get_output_details()
        self._found = [
            _memory(self._interpreter, details["index"])[0] for details in output_details
        ]
        self.size = int(input_details["shape"][1])
        """Pixels of the square picture that it reads."""

    def run(self, picture: Picture) -> list[Tensor]:
        """Return the outputs for a picture, shape (size, size, 3), without their batch axis.

        They lie in the network's memory: the next run writes over them.

        Raises:
            RuntimeError: If LiteRT fails.
        """
        if self._is_shifted:
            cv2.LUT(picture, self._levels, dst=self._given)
        else:  # in half the time
            np.multiply(picture, self._scale, out=self._given, dtype=np.float32)
        self._interpreter.invoke()
        return self._found


class MeshNetwork:
    """The face network with attention, whose three kinds of own operators LiteRT does not know.

    It is run in two parts, and what lies between them is done here, after MediaPipe's
    landmarks_to_transform_matrix.cc, transform_tensor_bilinear.cc and transform_landmarks.cc: the
    coarse face says where lips and eyes are, these are cut out of the features, turned level, and
    their landmarks are put back.

    Args:
        path: face_landmark_with_attention.tflite.
    """

    def __init__(self, path: Path) -> None:
        from flatbuffers import flexbuffers

        content = path.read_bytes()
        model, _ = _read(content)
        (graph,) = model.subgraphs
        frames, cuts, moves = (
            [o for o in graph.operators if model.operatorCodes[o.opcodeIndex].customCode == name]
            for name in (
                b"Landmarks2TransformMatrix",
                b"TransformTensorBilinear",
                b"TransformLandmarks",
            )
        )
        self._frames = [flexbuffers.Loads(bytes(frame.customOptions)) for frame in frames]
        between = [frame.outputs[0] for frame in frames] + [cut.outputs[0] for cut in cuts]
        outputs = [graph.outputs[0], graph.outputs[-1], cuts[0].inputs[0]]
        outputs += [frame.inputs[0] for frame in frames]
        put = [number for move in moves for number in move.inputs]
        cut_at = list(graph.inputs), outputs
        self._whole = _open(rewrite(content, None, cut_at=cut_at))
        self._parts = _open(rewrite(content, None, cut_at=(between, put)))
        self.size = int(self._whole.get_input_details()[0]["shape"][1])
        """Pixels of the square picture that it reads."""

    def run(self, picture: Picture) -> list[Tensor]:
        """Return 478 landmarks, pixels of the picture, and the logit that it is a face.

        Those of the irises come last and have the mean depth of their lids
        (landmarks_refinement_calculator.cc).

        Args:
            picture: Shape (size, size, 3).

        Raises:
            RuntimeError: If LiteRT fails.
        """
        pixels = (picture.astype(np.float32) * (np.float32(1) / np.float32(255)))[None]
        mesh, presence, features, *meshes = _run(self._whole, [pixels])
        matrices = [
            _level(mesh[0], frame) for mesh, frame in zip(meshes, self._frames, strict=True)
        ]
        outputs = _run(
            self._parts,
            [matrix[None] for matrix in matrices]
            + [_cut_level(features[0], matrix)[None] for matrix in matrices],
        )
        lips, right, left = [frame["subset_idxs"] for frame in self._frames]
        points = np.concatenate([mesh.reshape(-1, 3), np.zeros((2 * IRIS, 3), np.float32)])
        irises = [slice(-2 * IRIS, -IRIS), slice(-IRIS, None)]
        for where, part, matrix in zip(
            (lips, right, irises[0], left, irises[1]), outputs[::2], outputs[1::2], strict=True
        ):
            points[where, :2] = part[0] @ matrix[0, :2, :2].T + matrix[0, :2, 3]
        for iris, eye in zip(irises, (right, left), strict=True):
            points[iris, 2] = points[eye[:LIDS], 2].mean(dtype=np.float64)
        return [points, presence]


def _level(points: Tensor, frame: Any) -> Tensor:
    """Return the matrix that puts a cut-out where its landmarks are, shape (4, 4)."""
    left, right = points[frame["left_rotation_idx"]], points[frame["right_rotation_idx"]]
    angle = np.arctan2(right[1] - left[1], right[0] - left[0]) - frame["target_rotation_radians"]
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[cos, -sin], [sin, cos]], np.float32)
    marks = points[frame["subset_idxs"], :2] @ turn  # level
    low, high = marks.min(axis=0), marks.max(axis=0)
    cells = np.array([frame["output_width"], frame["output_height"]], np.float32)
    scale = np.array([frame["scale_x"], frame["scale_y"]], np.float32) * (high - low) / cells
    matrix = np.eye(4, dtype=np.float32)
    matrix[:2, :2] = turn * scale
    matrix[:2, 3] = turn @ ((low + high) / 2) - matrix[:2, :2] @ (cells / 2)
    return matrix


def _cut_level(features: Tensor, matrix: Tensor, cells: int = 16) -> Tensor:
    """Return a square of features between whose cells is read, shape (cells, cells, channels)."""
    y, x = np.mgrid[:cells, :cells].astype(np.float32) + np.float32(0.5)
    at = np.stack([x, y], axis=-1) @ matrix[:2, :2].T + matrix[:2, 3] - np.float32(0.5)
    last = np.array(features.shape[1::-1]) - 1
    inside = np.all((at >= 0) & (at <= last), axis=-1)
    first = np.floor(at).astype(int).clip(0, last)
    after = np.minimum(first + 1, last)
    across, down = np.moveaxis((at - first)[..., None], 2, 0)
    upper, lower = (
        (1 - across) * features[row, first[..., 0]] + across * features[row, after[..., 0]]
        for row in (first[..., 1], after[..., 1])
    )
    cut = (1 - down) * upper + down * lower
    return np.where(inside[..., None], cut, 0).astype(np.float32)


def _open(content: bytes) -> Any:
    # Here, in the processes that detect.
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    return interpreter


def _memory(interpreter: Any, index: int) -> Tensor:
    """Return the memory of a tensor, which stays where it is: sizes never change."""
    view = interpreter.tensor(index)()  # LiteRT does not run while such a view of its own lives
    start = ctypes.cast(view.ctypes.data, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(start, view.shape)


def _run(interpreter: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    for details, tensor in zip(interpreter.get_input_details(), tensors, strict=True):
        interpreter.set_tensor(details["index"], tensor)
    interpreter.invoke()
    return [
        interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()
    ]


def _read(content: bytes) -> tuple[Any, Any]:
    """Return a .tflite file as objects, and their module."""
    from ai_edge_litert import schema_py_generated as schema

    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0)), schema


@functools.lru_cache(maxsize=2)
def _rewritten(path: Path, outputs: tuple[int, ...] | None) -> bytes:
    """Return a file's content by `rewrite`; both hands have networks of two files."""
    return rewrite(path.read_bytes(), outputs)


def rewrite(
    content: bytes,
    outputs: Sequence[int] | None,
    *,
    cut_at: tuple[Sequence[int], Sequence[int]] | None = None,
) -> bytes:
    """Return a .tflite file with some of its outputs and only the operators that they need.

    Products with a number a channel, which the files call depthwise convolutions of 1x1, become a
    multiplication and an addition: MediaPipe's older XNNPACK rounds after both, LiteRT's once.

    Args:
        content: Of the file.
        outputs: By number; None: all.
        cut_at: Tensors that become its inputs and its outputs, instead of those that it has.
    """
    import flatbuffers

    model, schema = _read(content)
    (graph,) = model.subgraphs
    if outputs is not None:
        graph.outputs = [graph.outputs[number] for number in outputs]
    if cut_at is not None:
        graph.inputs, graph.outputs = cut_at
    for operator in graph.operators:
        operator.inputs = list(operator.inputs)  # what is in an array takes long to say
    needed, operators = set(graph.outputs), []
    for operator in reversed(graph.operators):
        if needed.intersection(operator.outputs):
            operators.append(operator)
            needed.update(set(operator.inputs).difference(graph.inputs))
    graph.operators = []
    for operator in reversed(operators):
        graph.operators += _split_product(operator, model, schema) or [operator]
    used = {graph.tensors[n].buffer for o in graph.operators for n in o.inputs if n >= 0}
    used.update(metadata.buffer for metadata in model.metadata or [])
    for number, buffer in enumerate(model.buffers):
        buffer.data = buffer.data if number in used else None
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _split_product(operator: Any, model: Any, schema: Any) -> list[Any]:
    """Return a depthwise convolution of 1x1 as two operators, nothing for any other.

    Their constants are as wide as the picture: XNNPACK works off what it repeats in steps of it.
    """
    (graph,) = model.subgraphs
    options = operator.builtinOptions
    if not isinstance(options, schema.DepthwiseConv2DOptionsT):
        return []
    source, factors, bias = operator.inputs
    if (
        list(graph.tensors[factors].shape[:3]) != [1, 1, 1]
        or (options.strideW, options.strideH, options.depthMultiplier) != (1, 1, 1)
        or options.fusedActivationFunction != schema.ActivationFunctionType.NONE
    ):
        return []
    (result,) = operator.outputs
    product = copy.copy(graph.tensors[result])
    product.name, product.buffer = product.name + b"_product", 0
    graph.tensors.append(product)
    columns, between, products = product.shape[2], len(graph.tensors) - 1, []
    for kind, inputs, output in (
        ("MUL", [source, _repeat(factors, columns, model)], between),
        ("ADD", [between, _repeat(bias, columns, model)], result),
    ):
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
        model.operatorCodes.append(code)
        part = schema.OperatorT()
        part.opcodeIndex = len(model.operatorCodes) - 1
        part.inputs, part.outputs = inputs, [output]
        name = kind.capitalize() + "Options"
        part.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        part.builtinOptions = getattr(schema, f"{name}T")()
        products.append(part)
    return products


def _repeat(number: int, columns: int, model: Any) -> int:
    """Return a new constant tensor with a constant's numbers, one a channel, for each column."""
    (graph,) = model.subgraphs
    tensor = copy.copy(graph.tensors[number])
    buffer = copy.copy(model.buffers[tensor.buffer])
    tensor.name, tensor.buffer = tensor.name + b"_repeated", len(model.buffers)
    tensor.shape = [1, 1, columns, tensor.shape[-1]]
    buffer.data = np.tile(buffer.data, columns)
    graph.tensors.append(tensor)
    model.buffers.append(buffer)
    return len(graph.tensors) - 1
