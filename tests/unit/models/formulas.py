"""Formulas of layers, written out in NumPy."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


def array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return tensor.detach().double().numpy()


def linear(x: NDArray[np.float64], layer: torch.nn.Linear) -> NDArray[np.float64]:
    result = x @ array(layer.weight).T
    return result if layer.bias is None else result + array(layer.bias)


def layer_norm(x: np.ndarray, norm: nn.LayerNorm) -> np.ndarray:
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return array(norm.weight) * (x - mean) / np.sqrt(variance + 1e-5) + array(norm.bias)
