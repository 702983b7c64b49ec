"""The device that a computation runs on."""

import torch

from signloom.errors import UserError


def pick_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU if there is one.

    Raises:
        UserError: If `cuda` was asked for and is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda was asked for, but torch sees no GPU; use `auto` or `cpu`")
    return torch.device(name)
