"""What flows between the calculators of MediaPipe's Holistic graph, to compare ours with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.detection.mediapipe_models import package_folder
from signloom.detection.regions import Region

_SETTINGS = {
    "model_complexity": 1,
    "smooth_landmarks": True,
    "enable_segmentation": False,
    "smooth_segmentation": False,
    "use_prev_landmarks": True,
}


class HolisticStreams:
    """Holistic's graph without the face, its subgraphs unfolded.

    Args:
        messages: Streams of regions and landmarks that are wanted.
        tensors: Streams of one tensor that are wanted, with a short name each.
    """

    def __init__(self, messages: Sequence[str], tensors: dict[str, str]) -> None:
        from mediapipe.framework import calculator_pb2
        from mediapipe.python import packet_creator, packet_getter
        from mediapipe.python._framework_bindings import (
            calculator_graph,
            resource_util,
            validated_graph_config,
        )
        from mediapipe.python.solutions import holistic  # noqa: F401  registers option types

        resource_util.set_resource_dir(str(package_folder().parent))
        folded = package_folder() / "modules/holistic_landmark/holistic_landmark_cpu.binarypb"
        unfolded = validated_graph_config.ValidatedGraphConfig()
        unfolded.initialize(binary_graph_path=str(folded))
        graph = calculator_pb2.CalculatorGraphConfig()
        graph.ParseFromString(unfolded.binary_config)
        for word in ("face", "segmentation_mask"):
            nodes = [node for node in graph.node if word not in str(node).lower()]
            del graph.node[:]
            graph.node.extend(nodes)
            for names in (graph.output_stream, graph.input_side_packet):
                for name in [name for name in names if word in name.lower()]:
                    names.remove(name)
        for name, stream in tensors.items():
            node = graph.node.add()
            node.calculator = "TensorsToFloatsCalculator"
            node.input_stream.append(f"TENSORS:{stream}")
            node.output_stream.append(f"FLOATS:{name}")
        self._found: dict[str, Any] = {}
        self._time_us = 0
        self._graph = calculator_graph.CalculatorGraph(graph_config=graph)

        def note(name: str, packet: Any) -> None:
            if packet.is_empty():
                self._found[name] = None
            elif name in tensors:
                self._found[name] = np.array(packet_getter.get_float_list(packet), np.float32)
            else:
                self._found[name] = _to_ours(packet_getter.get_proto(packet))

        for name in (*messages, *tensors):
            self._graph.observe_output_stream(name, note, True)
        packets = {name.split(":")[-1] for name in graph.input_side_packet}
        make = {bool: packet_creator.create_bool, int: packet_creator.create_int}
        self._graph.start_run({k: make[type(v)](v) for k, v in _SETTINGS.items() if k in packets})

    def run(self, rgb: npt.NDArray[np.uint8]) -> dict[str, Any]:
        """What the next frame sends through the streams."""
        from mediapipe.python import packet_creator
        from mediapipe.python._framework_bindings import image_frame

        self._time_us += 33333
        self._found.clear()
        image = packet_creator.create_image_frame(
            image_format=image_frame.ImageFormat.SRGB, data=np.ascontiguousarray(rgb)
        )
        self._graph.add_packet_to_input_stream("image", image.at(self._time_us))
        self._graph.wait_until_idle()
        return dict(self._found)


def _to_ours(message: Any) -> Any:
    if hasattr(message, "landmark"):
        return np.array([(mark.x, mark.y, mark.z) for mark in message.landmark], np.float32)
    values = (message.x_center, message.y_center, message.width, message.height, message.rotation)
    return Region(*map(np.float32, values))
