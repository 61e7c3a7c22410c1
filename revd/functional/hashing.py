"""Fingerprints of 64 bits by which equal states are recognised."""

from __future__ import annotations

import torch
from torch import Tensor

#: The constants of SplitMix64 (Steele et al., 2014), as signed numbers.
_STEP = -0x61C8864680B583EB
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_SHIFTS = (30, 27, 31)

#: Words scrambled at once, so that the intermediate results stay in the cache of a CPU.
_WORDS_PER_CHUNK = 2**18


def fingerprints(values: Tensor) -> Tensor:
    """A number for each element of a batch, equal for elements with equal bytes.

    Two different elements have equal numbers with a probability of about 2^-64: among a million of them, any do with
    a probability of 3e-8. All elements must have the same type; 0.0 and -0.0 are equal.

    Args:
        values: `(n, *shape)`, of any real type.

    Returns:
        (n,) int64.
    """
    chunk_size = max(_WORDS_PER_CHUNK * 8 // max(values[:1].numel() * values.element_size(), 1), 1)
    return torch.cat([_fingerprints(chunk) for chunk in values.split(chunk_size)])


def combine(one: Tensor, other: Tensor) -> Tensor:
    """The fingerprint of an ordered pair of fingerprints, or of other int64 numbers, (...)."""
    return scramble(scramble(one + _STEP) + other)


def scramble(numbers: Tensor) -> Tensor:
    """A one-to-one map of int64 numbers in which each bit of the input changes half of the output's."""
    first, second, third = _SHIFTS
    numbers = (numbers ^ _shifted(numbers, first)) * _FACTORS[0]
    numbers = (numbers ^ _shifted(numbers, second)) * _FACTORS[1]
    return numbers ^ _shifted(numbers, third)


def _fingerprints(values: Tensor) -> Tensor:
    words = _words(values)
    positions = torch.arange(1, words.shape[1] + 1, device=words.device) * _STEP
    return scramble(scramble(words + positions).sum(dim=1))


def _words(values: Tensor) -> Tensor:
    """The bytes of each element as int64, (n, w), with zeros at the end."""
    if values.is_floating_point():
        values = values + 0.0
    data = values.reshape(len(values), -1).contiguous().view(torch.uint8)
    words = torch.zeros(len(data), -(-data.shape[1] // 8), dtype=torch.int64, device=data.device)
    words.view(torch.uint8)[:, : data.shape[1]] = data
    return words


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Shift to the right and fill with zeros; torch's own shift repeats the sign."""
    mask = 2 ** (64 - bits) - 1
    return (numbers >> bits).bitwise_and(mask)
