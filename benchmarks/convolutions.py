"""Gradients of the weights of convolutions on a GPU, ours against cuDNN's: `python benchmarks/convolutions.py`.

The three layers of Nature's network, some numbers of frames, channels_last. Each is captured in a CUDA graph, as in an
update, in which cuDNN is asked for kernels that give the same result every time, as SB3 does where there is a seed.
`used` is where `OrderedGradients` takes ours.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median

import torch
from measure import interleaved, machine, markdown_table
from torch import Tensor

from revd.sb3.fast import convolutions

#: Channels, height and width, outputs, window, stride.
LAYERS = ((4, 84, 32, 8, 4), (32, 20, 64, 4, 2), (64, 9, 64, 3, 1))
FRAMES = (32, 64, 128, 256, 512)
#: Calls in one graph, so that its launch is not what is measured.
CALLS = 20
PLAIN = ([0, 0], [1, 1], False, [0, 0], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each size")
    parser.add_argument("--tf32", action=argparse.BooleanOptionalAction, default=True, help="for cuDNN")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this needs a CUDA GPU")
    torch.backends.cudnn.allow_tf32 = given.tf32
    torch.backends.cudnn.deterministic = True
    rows = [row(layer, frames, given.seconds, "cuda") for frames in FRAMES for layer in LAYERS]
    print(f"{machine('cuda')}, TF32 {'on' if given.tf32 else 'off'}; µs\n")
    print(markdown_table(("frames, layer", "cuDNN", "ours", "cuDNN / ours", "used", "difference"), rows))


def row(layer: tuple[int, ...], frames: int, seconds: float, device: str) -> list[str]:
    channels, size, n_outputs, window, stride = layer
    torch.manual_seed(0)
    weight = torch.randn(n_outputs, channels, window, window, device=device).to(memory_format=torch.channels_last)
    images = torch.rand(frames, channels, size, size, device=device).to(memory_format=torch.channels_last)
    gradient = torch.randn_like(torch.nn.functional.conv2d(images, weight, stride=stride))
    strides = [stride, stride]

    def cudnn() -> tuple[Tensor, Tensor]:
        wanted = [False, True, True]
        found = torch.ops.aten.convolution_backward(gradient, images, weight, [n_outputs], strides, *PLAIN, wanted)
        return found[1], found[2]

    def ours() -> tuple[Tensor, Tensor]:
        return convolutions.gradients(gradient, images, weight, stride=strides)

    times = interleaved({"cudnn": captured(cudnn), "ours": captured(ours)}, seconds=seconds, device=device)
    theirs, mine = (1e3 * median(times[name]) / CALLS for name in ("cudnn", "ours"))
    used = convolutions.can_differentiate(gradient, images, weight, strides, *PLAIN)
    difference = float((cudnn()[0] - ours()[0]).norm() / cudnn()[0].norm())
    title = f"{frames}, {channels}x{size}x{size} -> {n_outputs}"
    return [title, f"{theirs:.1f}", f"{mine:.1f}", f"{theirs / mine:.2f}", "yes" if used else "no", f"{difference:.0e}"]


def captured(work: Callable[[], object]) -> Callable[[], None]:
    """A CUDA graph of several calls; the first, outside of it, compiles and chooses kernels."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            work()
    return graph.replay


if __name__ == "__main__":
    main()
