"""One thread for torch: its OpenMP threads spin against those of the other workers and take ten times as long.

Without a GPU, Triton's kernels run in its interpreter; it has to know before it is imported.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the processes that tests start

import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
