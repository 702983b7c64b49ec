"""Settings of every test."""

import torch

# Tiny tensors gain nothing from threads, and two threads on a busy machine wait for each other.
torch.set_num_threads(1)
