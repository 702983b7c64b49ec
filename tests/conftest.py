"""Settings of every test."""

import torch
from hypothesis import settings

# Tiny tensors gain nothing from threads, and two threads on a busy machine wait for each other.
torch.set_num_threads(1)

# How long an example takes says how busy the machine is.
settings.register_profile("signloom", deadline=None)
settings.load_profile("signloom")
