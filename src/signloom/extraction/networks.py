"""Networks: .tflite files run by LiteRT, without the graph around them.

LiteRT runs the files that MediaPipe's package carries with the same kernels (XNNPACK). A network is
cut down to the outputs that are asked for: the pose network's segmentation mask, which nobody
reads, is two fifths of its work.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

cv2.setNumThreads(1)  # a worker a core detects beside the others

Picture = npt.NDArray[np.uint8]
Tensor = npt.NDArray[np.float32]


class Network:
    """A network that LiteRT runs on the CPU, one picture at a time.

    Batches gain nothing: four pictures at once took 7.4 ms each for the pose, one alone 6.8.

    Args:
        path: A .tflite file with one input.
        outputs: Which of its outputs are wanted, by number; None: all of them.
        low: What black becomes for it; white becomes 1.
        threads: Of one run.
    """

    def __init__(
        self,
        path: Path,
        outputs: Sequence[int] | None = None,
        *,
        low: float = 0.0,
        threads: int = 1,
    ) -> None:
        # Here, in the processes that detect.
        from ai_edge_litert.interpreter import Interpreter

        content = rewrite(path.read_bytes(), outputs)
        self._interpreter = Interpreter(model_content=content, num_threads=threads)
        self._interpreter.allocate_tensors()
        # Multiplied and added at once, as OpenCV does for MediaPipe: rounded once.
        scale = float(np.float32(1 - low) / np.float32(255))
        self._levels = (np.arange(256) * scale + low).astype(np.float32)
        (given,) = self._interpreter.get_input_details()
        self._input = given["index"]
        self._outputs = [found["index"] for found in self._interpreter.get_output_details()]
        self.size = int(given["shape"][1])
        """Pixels of the square picture that it reads."""

    def run(self, picture: Picture) -> list[Tensor]:
        """Return the outputs for a picture, shape (size, size, 3), without their batch axis.

        Raises:
            RuntimeError: If LiteRT fails.
        """
        self._put(picture)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index)[0] for index in self._outputs]

    def _put(self, picture: Picture) -> None:
        # In place: LiteRT allows no view of its memory while it runs.
        cv2.LUT(picture, self._levels, dst=self._interpreter.tensor(self._input)()[0])


def rewrite(content: bytes, outputs: Sequence[int] | None) -> bytes:
    """Return a .tflite file with some of its outputs and only the operators that they need.

    Products with a number a channel, which the files call depthwise convolutions of 1x1, become a
    multiplication and an addition: MediaPipe's older XNNPACK rounds after both, LiteRT's once.

    Args:
        content: Of the file.
        outputs: By number; None: all.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    (graph,) = model.subgraphs
    if outputs is not None:
        graph.outputs = [graph.outputs[number] for number in outputs]
    wanted, kept = set(graph.outputs), []
    for operator in reversed(graph.operators):
        if wanted.intersection(operator.outputs):
            kept.append(operator)
            wanted.update(operator.inputs)
    graph.operators = []
    for operator in reversed(kept):
        graph.operators += _split_product(operator, model, schema) or [operator]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _split_product(operator: Any, model: Any, schema: Any) -> list[Any]:
    """Return a depthwise convolution of 1x1 as two operators, nothing for any other."""
    (graph,) = model.subgraphs
    options = operator.builtinOptions
    if not isinstance(options, schema.DepthwiseConv2DOptionsT):
        return []
    given, factors, bias = operator.inputs
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
    made = []
    for kind, inputs, output in (
        ("MUL", [given, factors], len(graph.tensors) - 1),
        ("ADD", [len(graph.tensors) - 1, bias], result),
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
        made.append(part)
    return made
