"""The devices and processes that train together.

Lightning Fabric finds the devices, starts the processes' group and sets the precision. Gradients
are added up here, once a step and after all its parts: layers that are dropped, and parts that are
taken again because memory was short, would leave the hooks of DistributedDataParallel waiting.
"""

import logging
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from signloom import system
from signloom.devices import pick_device
from signloom.log import ONCE
from signloom.training.options import TrainOptions

logger = logging.getLogger(__name__)

BUCKET = 16_000_000  # numbers of gradients sent together
MOST_BUILDERS = 8  # processes that build batches for a GPU: an H100 could take what six build
# How Linux names instructions that multiply bfloat16: of x86, the last two of ARM.
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}


# A model of fewer parameters trains with this many threads on any machine: more gain nothing, and
# its bytes do not depend on how many cores there are.
SMALL_PARAMETERS, SMALL_THREADS = 5_000_000, 2


def set_threads(parameters: int) -> int:
    """Set how many threads a CPU trains a model with, and return it.

    Threads add up in another order, so the number follows from the model's size and, of a large
    model, from the cores that this process may use; never from the load. `OMP_NUM_THREADS`
    overrides it.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        is_small = parameters < SMALL_PARAMETERS
        torch.set_num_threads(SMALL_THREADS if is_small else count_cores())
    return torch.get_num_threads()


def count_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: by its affinity, and a container's quota."""
    cores = len(system.usable_cores())
    try:
        most, period = quota.read_text(encoding="utf-8").split()
        return max(1, min(cores, math.ceil(int(most) / int(period))))
    except (OSError, ValueError):  # no file, or no limit: "max"
        return cores


def count_builders() -> int:
    """Return how many processes build batches for each GPU that `torchrun` gave a process."""
    cores = count_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return max(0, min(MOST_BUILDERS, cores - 1))


def open_devices(options: TrainOptions) -> Fabric:
    """Join the processes that `torchrun` started, or train alone.

    Raises:
        UserError: If a GPU is asked for that is not there.
    """
    device = pick_device(options.device)
    world, local = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it greets
    fabric = Fabric(
        accelerator=device.type,
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        precision="bf16-mixed" if options.precision == "bfloat16" else "32-true",
    )
    fabric.launch()
    is_emulated = options.precision == "bfloat16" and device.type == "cpu" and not has_bfloat16()
    if is_emulated and fabric.is_global_zero:
        logger.warning(
            "train.precision is bfloat16, but this CPU has no instructions for it: emulated, it "
            "is several times slower than float32; set train.precision: float32",
            extra=ONCE,
        )
    return fabric


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the CPU multiplies bfloat16 itself; True where the system does not say."""
    try:
        flags = set(cpuinfo.read_text(encoding="utf-8").split())
    except OSError:
        return True
    return not flags or not flags.isdisjoint(BFLOAT16_FLAGS)


def count_jobs(trainings: int, threads: int, fabric: Fabric) -> int:
    """Return how many trainings to run at a time: a GPU each, or their threads' cores."""
    if fabric.world_size > 1:
        return 1
    is_gpu = fabric.device.type == "cuda"
    return min(trainings, torch.cuda.device_count() if is_gpu else count_cores() // threads)


def all_reduce(fabric: Fabric, values: Tensor) -> Tensor:
    """Return the sum of each value over all devices."""
    if fabric.world_size == 1:
        return values
    total = fabric.all_reduce(values, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def all_reduce_gradients(fabric: Fabric, parameters: Iterable[nn.Parameter]) -> None:
    """Give every device the sum of all devices' gradients.

    A parameter that no device used keeps no gradient at all, as on one device: an optimiser step
    with zeros would still move it.
    """
    if fabric.world_size == 1:
        return
    every = list(parameters)
    used = torch.tensor([float(p.grad is not None) for p in every], device=fabric.device)
    is_used = all_reduce(fabric, used).tolist()
    for bucket in _buckets([p for p, count in zip(every, is_used, strict=True) if count]):
        for parameter in bucket:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        total = all_reduce(fabric, torch.cat([gradient.flatten() for gradient in gradients]))
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, torch.split(total, sizes), strict=True):
            gradient.copy_(part.view_as(gradient))


def _buckets(parameters: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Group parameters, so that few messages are sent and little memory is used."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        bucket.append(parameter)
        if sum(p.numel() for p in bucket) >= BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket
