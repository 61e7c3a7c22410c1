"""Adam's state in a module, so that state_dict() and .to(device) include it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class AdamState(nn.Module):
    """Step count and moments of Adam for a fixed list of parameters, kept as buffers."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__()
        self.size = 0
        for index, parameter in enumerate(parameters):
            self.register_buffer(f"step_{index}", torch.zeros(()))
            self.register_buffer(f"exp_avg_{index}", torch.zeros_like(parameter))
            self.register_buffer(f"exp_avg_sq_{index}", torch.zeros_like(parameter))
            self.size = index + 1

    def optimizer(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
        """An Adam over `parameters` that reads and advances the buffers in place.

        The step counts are on the device of the parameters. torch's default Adam would wait for a GPU to read each of
        them; the fused one does not, and takes one call for all parameters.
        """
        parameters = list(parameters)
        if len(parameters) != self.size:
            raise ValueError(f"the state was made for {self.size} parameters, got {len(parameters)}")
        adam = torch.optim.Adam(parameters, lr=learning_rate, fused=True)
        for index, parameter in enumerate(parameters):
            adam.state[parameter] = {name: self._buffer(name, index) for name in ("step", "exp_avg", "exp_avg_sq")}
        return adam

    @torch.no_grad()
    def step(self, parameters: list[Tensor], gradients: list[Tensor], learning_rate: float) -> None:
        """A step of the same Adam with given gradients, without what an `Optimizer` does around it."""
        steps, means, squares = (
            [self._buffer(name, index) for index in range(self.size)] for name in ("step", "exp_avg", "exp_avg_sq")
        )
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=learning_rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )

    def _buffer(self, name: str, index: int) -> Tensor:
        buffer: Tensor = getattr(self, f"{name}_{index}")
        return buffer
