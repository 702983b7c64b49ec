"""Networks of .tflite files run by PyTorch: pictures of many clips in one batch, on a GPU.

The clips run in threads, in step: what each has a network look at is gathered, and looked at once.
Nothing is converted beforehand; the files are read as LiteRT reads them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from signloom.extraction.networks import Picture, kind_of, open_interpreter, read_model, rewrite

CLIPS = 64 if torch.cuda.is_available() else 1
"""Clips that go in step, and pictures of every batch: a fixed number, since other batches may round
otherwise. On a CPU batches gain nothing."""


class TorchNetwork:
    """A network cut down to some outputs; arguments as those of `networks.Network`.

    Args:
        path: A .tflite file with one input.
        outputs: Which of its outputs are wanted, by number; None: all of them.
        low: What black becomes for it; white becomes 1.
        device: Where it runs.
    """

    def __init__(
        self, path: Path, outputs: Sequence[int] | None, low: float, device: torch.device
    ) -> None:
        content = rewrite(path.read_bytes(), outputs)
        model, schema = read_model(content)
        (graph,) = model.subgraphs
        self._device, self._wanted = device, [int(number) for number in graph.outputs]
        (self._given,) = (int(number) for number in graph.inputs)
        self.size = int(graph.tensors[self._given].shape[1])
        scale = float(np.float32(1 - low) / np.float32(255))
        levels = (np.arange(256) * scale + low).astype(np.float32)  # as LiteRT's network
        self._levels = torch.from_numpy(levels).to(device)
        names = {value: name for name, value in vars(schema.BuiltinOperator).items()}
        unpacked = [
            one for one in graph.operators
            if names[kind_of(one, model)] in ("DEQUANTIZE", "DENSIFY")
        ]  # fmt: skip
        self._constants = {
            number: torch.from_numpy(value).to(device)
            for number, value in _constants(content, model, unpacked).items()
        }
        self._steps: list[tuple[_Step, list[int], int]] = []
        for one in graph.operators:
            if one in unpacked:
                continue
            name, inputs = names[kind_of(one, model)], [int(number) for number in one.inputs]
            if name not in _STEPS:
                raise RuntimeError(f"{path.name}: its operator {name} is not known here")
            shape = [int(side) for side in graph.tensors[one.outputs[0]].shape]
            step = _STEPS[name](one.builtinOptions, shape, schema)
            self._steps.append((step, inputs, int(one.outputs[0])))
        self._last = {
            number: n for n, (_, inputs, _) in enumerate(self._steps) for number in inputs
        }

    @torch.inference_mode()
    def run(self, pictures: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for pictures, shape (pictures, size, size, 3), batch axis first."""
        given = torch.from_numpy(pictures)
        if self._device.type == "cuda":
            given = given.pin_memory().to(self._device, non_blocking=True)
        tensors = {self._given: self._levels[given.int()]}
        # In single precision as it is stored, by the same kernels every time.
        with torch.backends.cudnn.flags(benchmark=False, deterministic=True, allow_tf32=False):
            for n, (step, inputs, output) in enumerate(self._steps):
                tensors[output] = step(
                    *(tensors.get(number, self._constants.get(number)) for number in inputs)
                )
                for number in inputs:
                    if self._last[number] == n and number not in self._wanted:
                        tensors.pop(number, None)
        return [tensors[number].cpu().numpy() for number in self._wanted]


def _constants(content: bytes, model: Any, unpacked: Sequence[Any]) -> dict[int, Any]:
    """Return the constants of a network as arrays; LiteRT unpacks those that are packed."""
    (graph,) = model.subgraphs
    types = {0: np.float32, 2: np.int32}  # of TensorType
    found = {
        number: np.array(model.buffers[tensor.buffer].data).view(types[tensor.type])
        .reshape(tensor.shape)
        for number, tensor in enumerate(graph.tensors)
        if tensor.type in types and model.buffers[tensor.buffer].data is not None
    }  # fmt: skip
    numbers = [int(one.outputs[0]) for one in unpacked]
    if numbers:
        interpreter = open_interpreter(rewrite(content, None, cut_at=([], numbers)), plainly=True)
        interpreter.invoke()
        details = interpreter.get_output_details()
        for number, one in zip(numbers, details, strict=True):
            found[number] = np.array(interpreter.get_tensor(one["index"]), np.float32)
    return found


# Operators. Tensors are (pictures, rows, columns, channels), as the files have them: what PyTorch
# calls channels last, so nothing is moved for its convolutions.

_Step = Callable[..., Tensor]


def _activated(step: _Step, options: Any, schema: Any) -> _Step:
    kinds = schema.ActivationFunctionType
    after: dict[int, Callable[[Tensor], Tensor]] = {
        kinds.RELU: functional.relu, kinds.RELU6: functional.relu6,
    }  # fmt: skip
    kind = options.fusedActivationFunction
    if kind == kinds.NONE:
        return step
    return lambda *tensors: after[kind](step(*tensors))


def _padded(x: Tensor, window: Sequence[int], strides: Sequence[int], options: Any,
            schema: Any, value: float = 0.0) -> Tensor:  # fmt: skip
    """Return (pictures, channels, rows, columns) with what the padding SAME adds around it."""
    x = x.permute(0, 3, 1, 2)
    if options.padding != schema.Padding.SAME:
        return x
    pads: list[int] = []
    for side, length, stride in zip(x.shape[2:], window, strides, strict=True):
        total = max((-(-side // stride) - 1) * stride + length - side, 0)
        pads = [total // 2, total - total // 2, *pads]  # the last axis first
    return functional.pad(x, pads, value=value) if any(pads) else x


def _convolution(options: Any, _: Sequence[int], schema: Any) -> _Step:
    strides = options.strideH, options.strideW
    is_depthwise = isinstance(options, schema.DepthwiseConv2DOptionsT)

    def step(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        groups = x.shape[3] if is_depthwise else 1
        weights = weights.permute(3, 0, 1, 2) if is_depthwise else weights.permute(0, 3, 1, 2)
        x = _padded(x, weights.shape[2:], strides, options, schema)
        return functional.conv2d(x, weights, bias, strides, groups=groups).permute(0, 2, 3, 1)

    return _activated(step, options, schema)


def _pool(options: Any, _: Sequence[int], schema: Any) -> _Step:
    window, strides = (
        (options.filterHeight, options.filterWidth),
        (options.strideH, options.strideW),
    )

    def step(x: Tensor) -> Tensor:
        x = _padded(x, window, strides, options, schema, -torch.inf)
        return functional.max_pool2d(x, window, strides).permute(0, 2, 3, 1)

    return step


def _resize(options: Any, shape: Sequence[int], _: Any) -> _Step:
    assert (options.halfPixelCenters, options.alignCorners) == (True, False), "not as PyTorch's"
    return lambda x, _: functional.interpolate(
        x.permute(0, 3, 1, 2), shape[1:3], mode="bilinear"
    ).permute(0, 2, 3, 1)


def _depth_to_space(_: Any, shape: Sequence[int], __: Any) -> _Step:
    _, rows, columns, channels = shape

    def step(x: Tensor) -> Tensor:
        found = x.reshape(*x.shape[:3], rows // x.shape[1], columns // x.shape[2], channels)
        return found.transpose(2, 3).reshape(-1, rows, columns, channels)

    return step


def _slice(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    bounds = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    return x[(slice(None), *[slice(*one) for one in bounds][1:])]


_Maker = Callable[[Any, Sequence[int], Any], _Step]
_STEPS: dict[str, _Maker] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "MAX_POOL_2D": _pool,
    "RESIZE_BILINEAR": _resize,
    "DEPTH_TO_SPACE": _depth_to_space,
    "ADD": lambda options, _, schema: _activated(torch.add, options, schema),
    "MUL": lambda options, _, schema: _activated(torch.mul, options, schema),
    "FULLY_CONNECTED": lambda options, _, schema: _activated(functional.linear, options, schema),
    "CONCATENATION": lambda options, *_: lambda *parts: torch.cat(parts, options.axis),
    "LOGISTIC": lambda *_: torch.sigmoid,
    "RELU": lambda *_: functional.relu,
    "PRELU": lambda *_: lambda x, slope: torch.where(x < 0, x * slope, x),
    "PAD": lambda *_: lambda x, pads: functional.pad(x, pads.flip(0).flatten().tolist()),
    "MEAN": lambda options, *_: lambda x, axes: x.mean(axes.tolist(), options.keepDims),
    "RESHAPE": lambda _, shape, __: lambda x, *_: x.reshape(-1, *shape[1:]),
    "STRIDED_SLICE": lambda *_: _slice,
}  # fmt: skip


# Clips in step.


@dataclass(eq=False)
class _Look:
    """A picture that a clip has a network look at."""

    network: TorchNetwork
    picture: Picture
    outputs: list[npt.NDArray[np.float32]] = field(default_factory=list)
    error: Exception | None = None
    is_done: bool = False


class Lockstep:
    """Gathers what the threads of a process have networks look at.

    When every clip waits, the network that most of them want looks at their pictures.

    Args:
        clips: Most clips at once, and pictures in a batch.
    """

    def __init__(self, clips: int = CLIPS) -> None:
        self.clips = clips
        self._clips_at_work = 0
        self._waiting: list[_Look] = []
        self._changed = threading.Condition()

    @contextmanager
    def clip(self) -> Iterator[None]:
        """Be waited for: this thread works on a clip."""
        with self._changed:
            self._clips_at_work += 1
        try:
            yield
        finally:
            with self._changed:
                self._clips_at_work -= 1
                self._look()

    def run(self, network: TorchNetwork, picture: Picture) -> list[npt.NDArray[np.float32]]:
        """Return the outputs of a network for a picture, without their batch axis."""
        look = _Look(network, picture)
        with self._changed:
            self._waiting.append(look)
            self._look()
            self._changed.wait_for(lambda: look.is_done)
        if look.error is not None:
            raise RuntimeError(f"a network failed: {look.error}") from look.error
        return look.outputs

    def _look(self) -> None:
        if not self._waiting or len(self._waiting) < self._clips_at_work:
            return
        wanted = [look.network for look in self._waiting]
        network = max(wanted, key=wanted.count)
        looks = [look for look in self._waiting if look.network is network][: self.clips]
        self._waiting = [look for look in self._waiting if look not in looks]
        pictures = np.zeros((self.clips, network.size, network.size, 3), np.uint8)
        for n, look in enumerate(looks):
            pictures[n] = look.picture
        try:
            outputs = network.run(pictures)
            for n, look in enumerate(looks):
                look.outputs = [output[n] for output in outputs]
        except Exception as error:  # each clip tells it as its own
            for look in looks:
                look.error = error
        for look in looks:
            look.is_done = True
        self._changed.notify_all()


LOCKSTEP = Lockstep()  # of this process
_LOADING = threading.Lock()


@cache
def _load(path: Path, outputs: tuple[int, ...] | None, low: float) -> TorchNetwork:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return TorchNetwork(path, outputs, low, device)


class BatchedNetwork:
    """A network that all clips of the process share; arguments as those of `networks.Network`."""

    def __init__(
        self, path: Path, outputs: Sequence[int] | None = None, *, low: float = 0.0
    ) -> None:
        with _LOADING:
            self._network = _load(path, None if outputs is None else tuple(outputs), low)
        self.size = self._network.size

    def run(self, picture: Picture) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for a picture, shape (size, size, 3), without their batch axis."""
        return LOCKSTEP.run(self._network, picture)
