"""The frozen encoder against plain torch: `benchmarks/encoder.py [--device cpu|cuda] [--threads 1]`."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from statistics import median
from typing import TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from measure import interleaved, machine, markdown_table, parse_options, peak_extra_memory
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from revd.encoders import SpaceEncoder, make_encoder

Call: TypeAlias = Callable[[], Tensor]

ATARI = spaces.Box(0, 255, (4, 84, 84), np.uint8)
CAMERA = spaces.Box(0, 255, (84, 84, 3), np.uint8)
VECTOR = spaces.Box(-1, 1, (28,), np.float32)
SHAPES = [("stacked frames", ATARI, 2_560), ("stacked frames", ATARI, 256), ("camera", CAMERA, 2_560)]
SHAPES += [("vectors", VECTOR, 2_560)]


def main() -> None:
    options = parse_options(__doc__, seconds=20)
    torch.set_grad_enabled(False)
    print(f"{machine(options.device)}\n")
    rows = [row for shape in SHAPES for row in measure(*shape, options.device, options.seconds)]
    header = (
        "observations",
        "form",
        "median ms",
        "fastest ms",
        "ours is faster by",
        "peak memory MiB",
        "largest error",
    )
    print(markdown_table(header, rows))


def measure(name: str, space: spaces.Box, n: int, device: str, seconds: float) -> list[list[str]]:
    """A row for each form of the encoder; errors are relative to the largest embedding value in float64."""
    generator = torch.Generator().manual_seed(0)
    observations = torch.randint(0, 256, (n, *space.shape), dtype=torch.uint8, generator=generator).to(device)
    if space is VECTOR:
        observations = observations / 128 - 1
    encoder = make_encoder(space, embedding_size=128).to(device)
    assert isinstance(encoder, SpaceEncoder)
    cases = forms(encoder, observations)
    times = interleaved(cases, seconds=seconds, device=device)
    exact = reference(encoder, observations)
    title = f"{n:,} {name}, {'x'.join(map(str, space.shape))} {space.dtype}"
    rows = []
    for form, call in cases.items():
        typical, peak = median(times[form]), peak_extra_memory(call, device)
        error = float((call().double() - exact).abs().max() / exact.abs().max())
        speed = f"{typical / median(times['ours']):.2f}"
        memory = "?" if peak is None else f"{peak / 2**20:.1f}"
        rows.append([title, form, f"{typical:.2f}", f"{min(times[form]):.2f}", speed, memory, f"{error:.0e}"])
    return rows


def forms(encoder: SpaceEncoder, observations: Tensor) -> dict[str, Call]:
    """Our encoder and its alternatives."""
    network = encoder.network
    plain = plain_form(network, observations)
    cases: dict[str, Call] = {"ours": lambda: encoder(observations), "plain torch": plain}
    if observations.ndim == 4:
        last = torch.channels_last
        fused = folded(network)
        turned, turned_fused = (deepcopy(form).to(memory_format=last) for form in (network, fused))  # type: ignore[call-overload]
        frames = channels_first(observations)
        cases |= {
            "channels_last": lambda: turned(frames.to(torch.float32, memory_format=last) / 255),
            "folded": lambda: fused(frames.to(torch.float32, memory_format=torch.contiguous_format)),
            "folded, channels_last": lambda: turned_fused(frames.to(torch.float32, memory_format=last)),
        }
    if observations.is_cuda:
        compiled = torch.compile(plain)
        cases |= {"plain torch, bf16": lambda: half(plain), "plain torch, compiled": compiled}
        cases |= {"plain torch, bf16, compiled": lambda: half(compiled)}
    return cases


def plain_form(network: nn.Module, observations: Tensor) -> Call:
    if observations.ndim == 2:
        return lambda: network(observations)
    dtype = torch.promote_types(observations.dtype, torch.float32)
    return lambda: network(channels_first(observations).to(dtype) / 255)


def half(call: Call) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16):
        return call()


def channels_first(frames: Tensor) -> Tensor:
    return frames if frames.shape[1] < frames.shape[3] else frames.permute(0, 3, 1, 2)


def folded(network: nn.Sequential) -> nn.Sequential:
    """The network with BatchNorm and the division by 255 folded into the convolutions."""
    layers = list(deepcopy(network))
    for i in (0, 3, 6):
        convolution, norm = layers[i : i + 2]
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        layers[i : i + 2] = [fuse_conv_bn_eval(convolution, norm), nn.Identity()]
    next(layers[0].parameters()).data /= 255
    return nn.Sequential(*layers)


def reference(encoder: SpaceEncoder, observations: Tensor) -> Tensor:
    exact = deepcopy(encoder.network).double()
    return torch.cat([plain_form(exact, chunk.double())() for chunk in observations.split(64)])


if __name__ == "__main__":
    main()
