"""Triton kernels for training: PPO's loss and Adam."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _select(values, starts, program, COUNT: tl.constexpr):
    """Return the value of the tensor that a program works on.

    It is the last tensor whose start is not after the program.
    """
    selected = values[0]
    for tensor in tl.static_range(1, COUNT):
        selected = tl.where(program >= starts[tensor], values[tensor], selected)
    return selected


@triton.jit
def sum_squares(gradients, starts, sizes, sums, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the squares of each block of the gradients."""
    program = tl.program_id(0)
    at = (program - _select(starts, starts, program, COUNT)) * BLOCK + tl.arange(0, BLOCK)
    inside = at < _select(sizes, starts, program, COUNT)
    gradient = tl.load(_select(gradients, starts, program, COUNT) + at, mask=inside, other=0.0)
    tl.store(sums + program, tl.sum(gradient * gradient))


@triton.jit
def adam(
    parameters,
    gradients,
    first_moments,
    second_moments,
    steps,
    starts,
    sizes,
    squared_norm,
    max_norm,
    rate,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    EPS: tl.constexpr,
    LOG_BETA1: tl.constexpr,
    LOG_BETA2: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Step Adam with clipped gradients; the equations are in `revd.fast.clipped_adam`."""
    program = tl.program_id(0)
    at = (program - _select(starts, starts, program, COUNT)) * BLOCK + tl.arange(0, BLOCK)
    inside = at < _select(sizes, starts, program, COUNT)
    p_at = _select(parameters, starts, program, COUNT) + at
    m_at = _select(first_moments, starts, program, COUNT) + at
    v_at = _select(second_moments, starts, program, COUNT) + at
    g = tl.load(_select(gradients, starts, program, COUNT) + at, mask=inside, other=0.0)
    p = tl.load(p_at, mask=inside, other=0.0)
    m = tl.load(m_at, mask=inside, other=0.0)
    v = tl.load(v_at, mask=inside, other=0.0)
    # As in torch, a NaN norm makes every gradient NaN.
    scale = max_norm / (tl.sqrt(tl.load(squared_norm)) + 1e-6)
    g *= tl.minimum(scale, 1.0, propagate_nan=tl.PropagateNan.ALL)
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    # In float64: in float32, 1 - beta^t would lose its digits in the first steps.
    t = tl.load(_select(steps, starts, program, COUNT)).to(tl.float64)
    correction1 = (1.0 - tl.exp(t * LOG_BETA1)).to(tl.float32)
    correction2 = (1.0 - tl.exp(t * LOG_BETA2)).to(tl.float32)
    p -= tl.load(rate) / correction1 * m / (tl.sqrt(v) / tl.sqrt(correction2) + EPS)
    tl.store(p_at, p, mask=inside)
    tl.store(m_at, m, mask=inside)
    tl.store(v_at, v, mask=inside)


@triton.jit
def _mean(values, inside, n):
    return tl.sum(tl.where(inside, values, 0.0)) / n


@triton.jit
def _log_softmax(logits, inside, n_actions, ROWS: tl.constexpr, ACTIONS: tl.constexpr):
    """Log-probabilities (ROWS, ACTIONS) of a minibatch, -inf for padded actions."""
    i, j = tl.arange(0, ROWS), tl.arange(0, ACTIONS)
    exists = inside[:, None] & (j[None, :] < n_actions)
    logit = tl.load(logits + i[:, None] * n_actions + j[None, :], mask=exists, other=-float("inf"))
    logit = tl.where(inside[:, None], logit, 0.0)
    shifted = logit - tl.max(logit, axis=1)[:, None]
    return shifted - tl.log(tl.sum(tl.exp(shifted), axis=1))[:, None]


@triton.jit
def _load_advantages(advantages, row, inside, n, NORMALIZE: tl.constexpr):
    """The advantages of a minibatch, standardised if NORMALIZE."""
    advantage = tl.load(advantages + row, mask=inside, other=0.0)
    if NORMALIZE:
        centred = tl.where(inside, advantage - _mean(advantage, inside, n), 0.0)
        advantage = centred / (tl.sqrt(tl.sum(centred * centred) / (n - 1)) + 1e-8)
    return advantage


@triton.jit
def _surrogate(advantage, ratio, low, high):
    """The clipped surrogate, and its derivative by the ratio, divided by the advantage."""
    free = advantage * ratio
    clipped = advantage * tl.minimum(tl.maximum(ratio, low), high)
    # As in torch: the minimum of two equal numbers passes half of the gradient to each, a clamped number none.
    inside_clip = tl.where((ratio >= low) & (ratio <= high), 1.0, 0.0)
    share = tl.where(free < clipped, 1.0, tl.where(free > clipped, inside_clip, 0.5 + 0.5 * inside_clip))
    return tl.minimum(free, clipped), share


@triton.jit
def _value_error(values, old_values, returns, row, i, inside, clip_range_vf, CLIP_VALUES: tl.constexpr):
    """Values (clipped if CLIP_VALUES) minus returns, and the derivative by the values."""
    value = tl.load(values + i, mask=inside, other=0.0)
    moves = tl.where(inside, 1.0, 0.0)
    if CLIP_VALUES:
        old_value = tl.load(old_values + row, mask=inside, other=0.0)
        change = value - old_value
        value = old_value + tl.minimum(tl.maximum(change, -clip_range_vf), clip_range_vf)
        moves = tl.where((change >= -clip_range_vf) & (change <= clip_range_vf), 1.0, 0.0)
    return value - tl.load(returns + row, mask=inside, other=0.0), moves


@triton.jit
def discrete_ppo(
    logits,
    values,
    rows,
    taken,
    old_log_probs,
    old_values,
    advantages,
    returns,
    coefficients,
    logit_gradients,
    value_gradients,
    statistics,
    n,
    n_actions,
    NORMALIZE: tl.constexpr,
    CLIP_VALUES: tl.constexpr,
    ROWS: tl.constexpr,
    ACTIONS: tl.constexpr,
):
    """Compute a minibatch of n steps in one program; the equations are in `revd.fast.discrete_ppo`."""
    low = tl.load(coefficients)
    high = tl.load(coefficients + 1)
    clip_range = tl.load(coefficients + 2)
    clip_range_vf = tl.load(coefficients + 3)
    ent_coef = tl.load(coefficients + 4)
    vf_coef = tl.load(coefficients + 5)
    i, j = tl.arange(0, ROWS), tl.arange(0, ACTIONS)
    inside = i < n
    row = tl.load(rows + i, mask=inside, other=0)
    log_prob = _log_softmax(logits, inside, n_actions, ROWS, ACTIONS)
    prob = tl.exp(log_prob)
    is_taken = j[None, :] == tl.load(taken + row, mask=inside, other=0)[:, None]
    log_ratio = tl.sum(tl.where(is_taken, log_prob, 0.0), axis=1) - tl.load(old_log_probs + row, mask=inside, other=0.0)
    log_prob = tl.where(prob > 0, log_prob, 0.0)  # impossible actions add nothing to the entropy
    entropy = -tl.sum(prob * log_prob, axis=1)
    advantage = _load_advantages(advantages, row, inside, n, NORMALIZE)
    ratio = tl.exp(log_ratio)
    surrogate, share = _surrogate(advantage, ratio, low, high)
    policy_loss = -_mean(surrogate, inside, n)
    entropy_loss = -_mean(entropy, inside, n)
    log_prob_gradient = -advantage * share * ratio / n
    gradient = log_prob_gradient[:, None] * (tl.where(is_taken, 1.0, 0.0) - prob)
    gradient += ent_coef / n * prob * (log_prob + entropy[:, None])
    exists = inside[:, None] & (j[None, :] < n_actions)
    tl.store(logit_gradients + i[:, None] * n_actions + j[None, :], gradient, mask=exists)
    error, moves = _value_error(values, old_values, returns, row, i, inside, clip_range_vf, CLIP_VALUES)
    value_loss = _mean(error * error, inside, n)
    tl.store(value_gradients + i, vf_coef * 2.0 * error * moves / n, mask=inside)
    excess = ratio - 1.0
    tl.store(statistics, entropy_loss)
    tl.store(statistics + 1, policy_loss)
    tl.store(statistics + 2, value_loss)
    tl.store(statistics + 3, _mean(excess - log_ratio, inside, n))
    tl.store(statistics + 4, _mean(tl.where(tl.abs(excess) > clip_range, 1.0, 0.0), inside, n))
    tl.store(statistics + 5, policy_loss + ent_coef * entropy_loss + vf_coef * value_loss)
