"""One thread for torch: its OpenMP threads spin against those of the other workers and take ten times as long."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the processes that tests start

import torch

torch.set_num_threads(1)
