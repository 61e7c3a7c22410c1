"""Adam on a CPU with all parameters in one buffer: six operations for a network instead of a dozen per parameter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.optim import optimizer as optimizer_globals

#: Tensors begin at multiples of 64 bytes, as torch's own do: matrix products may depend on it.
_ALIGNMENT = 16


class FlatTensors:
    """Tensors of given shapes, one after the other in one buffer.

    Attributes:
        buffer: All numbers, and zeros between the tensors.
        views: The tensors.
    """

    def __init__(self, shapes: Sequence[torch.Size]) -> None:
        sizes = [-(-shape.numel() // _ALIGNMENT) * _ALIGNMENT for shape in shapes]
        # Whatever device torch creates tensors on by default.
        self.buffer = torch.zeros(sum(sizes), device="cpu")
        parts = self.buffer.split(sizes)
        self.views = [part[: shape.numel()].view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def load(self, tensors: Sequence[Tensor]) -> None:
        """Copy tensors into the buffer."""
        torch._foreach_copy_(self.views, list(tensors))

    def store(self, tensors: Sequence[Tensor]) -> None:
        """Copy the buffer into tensors."""
        torch._foreach_copy_(list(tensors), self.views)


def is_plain_adam(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> bool:
    """Whether `FlatAdam` can replace the optimiser: Adam with one group, no options and no hooks."""
    if type(optimizer) is not Adam or len(optimizer.param_groups) != 1 or _is_observed(optimizer):
        return False
    group = optimizer.param_groups[0]
    options = ("amsgrad", "maximize", "weight_decay", "capturable", "differentiable", "foreach", "fused")
    numbers = (group["lr"], group["eps"], *group["betas"])
    steps = {float(state["step"]) for state in optimizer.state.values()}
    return (
        not any(group.get(option) for option in options)
        and not any(isinstance(number, Tensor) for number in numbers)
        and {id(each) for each in group["params"]} == {id(each) for each in parameters}
        and len(steps) <= 1
        and len(optimizer.state) in (0, len(parameters))
    )


def _is_observed(optimizer: Optimizer) -> bool:
    """Whether hooks or a replaced `step`, such as a scheduler's, would miss the steps."""
    hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    global_hooks = (optimizer_globals._global_optimizer_pre_hooks, optimizer_globals._global_optimizer_post_hooks)
    return any(hooks) or any(global_hooks) or "step" in vars(optimizer)


class FlatAdam:
    """torch's Adam, equal to the last bit; `load` and `store` exchange its state with the optimiser's.

    Args:
        trained: The parameters of the optimiser.
        gradients: Theirs.

    Attributes:
        parameters: Copies of the parameters, which are stepped.
    """

    def __init__(self, trained: Sequence[nn.Parameter], gradients: FlatTensors) -> None:
        self._trained = list(trained)
        self._gradients = gradients
        shapes = [parameter.shape for parameter in trained]
        self.parameters, self._means, self._squares = (FlatTensors(shapes) for _ in range(3))
        self._steps = 0.0

    def load(self, optimizer: Optimizer) -> None:
        """Take parameters, moments and settings from an optimiser that `is_plain_adam`."""
        group = optimizer.param_groups[0]
        self._rate, self._eps, (self._beta1, self._beta2) = group["lr"], group["eps"], group["betas"]
        self.parameters.load([parameter.detach() for parameter in self._trained])
        states = [optimizer.state[parameter] for parameter in self._trained if parameter in optimizer.state]
        self._steps = float(states[0]["step"]) if states else 0.0
        for moments, name in ((self._means, "exp_avg"), (self._squares, "exp_avg_sq")):
            if states:
                moments.load([state[name] for state in states])
            else:
                moments.buffer.zero_()

    def store(self, optimizer: Optimizer) -> None:
        """Give parameters and moments back."""
        self.parameters.store([parameter.detach() for parameter in self._trained])
        if not self._steps:
            return
        for parameter in self._trained:
            if parameter not in optimizer.state:
                names = ("exp_avg", "exp_avg_sq")
                optimizer.state[parameter] = {
                    "step": torch.zeros((), device="cpu"),
                    **{n: torch.zeros_like(parameter) for n in names},
                }
        states = [optimizer.state[parameter] for parameter in self._trained]
        for state in states:
            state["step"].fill_(self._steps)
        self._means.store([state["exp_avg"] for state in states])
        self._squares.store([state["exp_avg_sq"] for state in states])

    def step(self) -> None:
        """Step with the gradients in the buffer."""
        gradient, mean, square = self._gradients.buffer, self._means.buffer, self._squares.buffer
        self._steps += 1
        mean.lerp_(gradient, 1 - self._beta1)
        square.mul_(self._beta2).addcmul_(gradient, gradient, value=1 - self._beta2)
        correction = (1 - self._beta2**self._steps) ** 0.5
        denominator = (square.sqrt() / correction).add_(self._eps)
        self.parameters.buffer.addcdiv_(mean, denominator, value=-self._rate / (1 - self._beta1**self._steps))


def clip_gradients(gradients: FlatTensors, max_norm: float) -> None:
    """Do what `clip_grad_norm_` does; the norm is that of all tensors' norms, as there."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients.views, 2.0)), 2.0)
    gradients.buffer.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
