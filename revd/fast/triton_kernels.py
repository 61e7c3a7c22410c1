"""The Triton kernels of a training: PPO's loss and Adam."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _of(things, starts, program, COUNT: tl.constexpr):
    """What belongs to the tensor on which a program works: that of the last start that is not beyond it."""
    found = things[0]
    for tensor in tl.static_range(1, COUNT):
        found = tl.where(program >= starts[tensor], things[tensor], found)
    return found


@triton.jit
def squares(gradients, starts, sizes, sums, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squares of each block of the gradients."""
    program = tl.program_id(0)
    at = (program - _of(starts, starts, program, COUNT)) * BLOCK + tl.arange(0, BLOCK)
    inside = at < _of(sizes, starts, program, COUNT)
    gradient = tl.load(_of(gradients, starts, program, COUNT) + at, mask=inside, other=0.0)
    tl.store(sums + program, tl.sum(gradient * gradient))


@triton.jit
def change(
    parameters,
    gradients,
    firsts,
    seconds,
    steps,
    starts,
    sizes,
    square,
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
    """Adam with clipped gradients; the equations are in `revd.fast.clipped_adam`."""
    program = tl.program_id(0)
    at = (program - _of(starts, starts, program, COUNT)) * BLOCK + tl.arange(0, BLOCK)
    inside = at < _of(sizes, starts, program, COUNT)
    p_at = _of(parameters, starts, program, COUNT) + at
    m_at = _of(firsts, starts, program, COUNT) + at
    v_at = _of(seconds, starts, program, COUNT) + at
    g = tl.load(_of(gradients, starts, program, COUNT) + at, mask=inside, other=0.0)
    p = tl.load(p_at, mask=inside, other=0.0)
    m = tl.load(m_at, mask=inside, other=0.0)
    v = tl.load(v_at, mask=inside, other=0.0)
    # As in torch, a norm that is not a number makes all of it not a number.
    scale = max_norm / (tl.sqrt(tl.load(square)) + 1e-6)
    g *= tl.minimum(scale, 1.0, propagate_nan=tl.PropagateNan.ALL)
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    # In float32 nothing would be left of 1 - beta^t for the first steps.
    t = tl.load(_of(steps, starts, program, COUNT)).to(tl.float64)
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
    by_logits,
    by_values,
    statistics,
    n,
    n_actions,
    NORMALIZE: tl.constexpr,
    CLIP_VALUES: tl.constexpr,
    ROWS: tl.constexpr,
    ACTIONS: tl.constexpr,
):
    """A minibatch of n by one program; the equations are in `revd.fast.discrete_ppo`."""
    low = tl.load(coefficients)
    high = tl.load(coefficients + 1)
    clip_range = tl.load(coefficients + 2)
    clip_range_vf = tl.load(coefficients + 3)
    ent_coef = tl.load(coefficients + 4)
    vf_coef = tl.load(coefficients + 5)
    i = tl.arange(0, ROWS)
    inside = i < n
    row = tl.load(rows + i, mask=inside, other=0)
    # The policy.
    j = tl.arange(0, ACTIONS)
    at = i[:, None] * n_actions + j[None, :]
    exists = inside[:, None] & (j[None, :] < n_actions)
    logit = tl.load(logits + at, mask=exists, other=-float("inf"))
    logit = tl.where(inside[:, None], logit, 0.0)
    shifted = logit - tl.max(logit, axis=1)[:, None]
    log_prob = shifted - tl.log(tl.sum(tl.exp(shifted), axis=1))[:, None]
    prob = tl.exp(log_prob)
    is_taken = j[None, :] == tl.load(taken + row, mask=inside, other=0)[:, None]
    log_ratio = tl.sum(tl.where(is_taken, log_prob, 0.0), axis=1) - tl.load(old_log_probs + row, mask=inside, other=0.0)
    log_prob = tl.where(prob > 0, log_prob, 0.0)  # what is impossible adds nothing to the entropy
    entropy = -tl.sum(prob * log_prob, axis=1)
    # The surrogate.
    advantage = tl.load(advantages + row, mask=inside, other=0.0)
    if NORMALIZE:
        centred = tl.where(inside, advantage - _mean(advantage, inside, n), 0.0)
        advantage = centred / (tl.sqrt(tl.sum(centred * centred) / (n - 1)) + 1e-8)
    ratio = tl.exp(log_ratio)
    free = advantage * ratio
    clipped = advantage * tl.minimum(tl.maximum(ratio, low), high)
    policy_loss = -_mean(tl.minimum(free, clipped), inside, n)
    entropy_loss = -_mean(entropy, inside, n)
    # The smaller of two equal numbers is half of each, as in torch; a clamped one does not move.
    moves = tl.where((ratio >= low) & (ratio <= high), 1.0, 0.0)
    share = tl.where(free < clipped, 1.0, tl.where(free > clipped, moves, 0.5 + 0.5 * moves))
    by_log_prob = -advantage * share * ratio / n
    gradient = by_log_prob[:, None] * (tl.where(is_taken, 1.0, 0.0) - prob)
    gradient += ent_coef / n * prob * (log_prob + entropy[:, None])
    tl.store(by_logits + at, gradient, mask=exists)
    # The values.
    value = tl.load(values + i, mask=inside, other=0.0)
    moves = tl.where(inside, 1.0, 0.0)
    if CLIP_VALUES:
        old_value = tl.load(old_values + row, mask=inside, other=0.0)
        change = value - old_value
        value = old_value + tl.minimum(tl.maximum(change, -clip_range_vf), clip_range_vf)
        moves = tl.where((change >= -clip_range_vf) & (change <= clip_range_vf), 1.0, 0.0)
    error = value - tl.load(returns + row, mask=inside, other=0.0)
    value_loss = _mean(error * error, inside, n)
    tl.store(by_values + i, vf_coef * 2.0 * error * moves / n, mask=inside)
    # What is reported.
    excess = ratio - 1.0
    tl.store(statistics, entropy_loss)
    tl.store(statistics + 1, policy_loss)
    tl.store(statistics + 2, value_loss)
    tl.store(statistics + 3, _mean(excess - log_ratio, inside, n))
    tl.store(statistics + 4, _mean(tl.where(tl.abs(excess) > clip_range, 1.0, 0.0), inside, n))
    tl.store(statistics + 5, policy_loss + ent_coef * entropy_loss + vf_coef * value_loss)
