"""Settings of every test."""

import os

import torch
from hypothesis import settings

# Tiny tensors gain nothing from threads, and two threads on a busy machine wait for each other. A
# stage that a test runs in this process would set its own number, and a fork after it would hang.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)

# How long an example takes says how busy the machine is.
settings.register_profile("signloom", deadline=None)
settings.load_profile("signloom")
