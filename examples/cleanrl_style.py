"""PPO in one file, in the manner of CleanRL, with REVD in the advantages. Read it from top to bottom.

Run it, from the root of the repository::

    pip install .
    python examples/cleanrl_style.py

It takes about 30 seconds on one core. The task is MountainCar. `rewards` and `bonuses` are separate arrays, and both
are logged. The value function learns the task's returns only. Look at `return`, which leaves -200 once the flag is
found and ends at about -120, and at `weight`, which follows from the data: on average the bonus's part of the
advantages keeps its size beside the task's.

For a fixed weight, as in the paper, add `weight * bonus` to the rewards before the advantages instead.
"""

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import revd
from revd.weighting.automatic import AutomaticWeight

TASK, SEED = "MountainCar-v0", 1
N_ENVS, N_STEPS, BATCH_SIZE, EPOCHS = 10, 128, 64, 10
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP, MAX_NORM = 3e-4, 0.99, 0.95, 0.2, 0.5
REWARD, STRENGTH = "revd", 0.1  # of the bonus in the advantages, relative to the task


def layers(n_inputs, n_outputs, scale):
    """Two hidden layers of 64 units."""
    network = nn.Sequential(nn.Linear(n_inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_outputs))
    for layer, gain in zip(network[::2], (2**0.5, 2**0.5, scale), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return network


def advantages_of(rewards, values, next_value, dones):
    """Generalised advantage estimation, (n_steps, n_envs)."""
    advantages, last = torch.zeros_like(rewards), torch.zeros(N_ENVS)
    for t in reversed(range(N_STEPS)):
        alive = (~dones[t]).float()
        delta = rewards[t] + GAMMA * next_value * alive - values[t]
        advantages[t] = last = delta + GAMMA * GAE_LAMBDA * alive * last
        next_value = values[t]
    return advantages


def main(steps: int = 80_000) -> None:
    """Train, and print a line for each rollout."""
    torch.manual_seed(SEED)
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    # Distances between observations decide what is new, so all of their numbers should have the same scale.
    wrappers = [gym.wrappers.NormalizeObservation]
    envs = gym.make_vec(TASK, num_envs=N_ENVS, vectorization_mode="sync", vector_kwargs=same_step, wrappers=wrappers)
    actor = layers(envs.single_observation_space.shape[0], envs.single_action_space.n, scale=0.01)
    critic = layers(envs.single_observation_space.shape[0], 1, scale=1.0)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)

    reward = revd.make_reward(REWARD, envs.single_observation_space, envs.single_action_space, n_envs=N_ENVS, seed=SEED)
    automatic = AutomaticWeight(reward)

    shape = (N_STEPS, N_ENVS)
    observations = torch.zeros((*shape, *envs.single_observation_space.shape))
    actions, log_probs, rewards, values = (torch.zeros(shape) for _ in range(4))
    dones = torch.zeros(shape, dtype=torch.bool)
    episode_returns, running_returns = [], np.zeros(N_ENVS)
    observation = torch.as_tensor(envs.reset(seed=SEED)[0], dtype=torch.float32)
    for iteration in range(1, -(-steps // (N_STEPS * N_ENVS)) + 1):
        # 1. A rollout.
        for t in range(N_STEPS):
            with torch.no_grad():
                choices = Categorical(logits=actor(observation))
                action, value = choices.sample(), critic(observation).flatten()
            observations[t], actions[t], values[t] = observation, action, value
            log_probs[t] = choices.log_prob(action)
            following, extrinsic, terminated, truncated, _ = envs.step(action.numpy())
            rewards[t] = torch.as_tensor(extrinsic)
            dones[t] = torch.as_tensor(terminated | truncated)
            observation = torch.as_tensor(following, dtype=torch.float32)
            running_returns += extrinsic
            episode_returns += running_returns[dones[t]].tolist()
            running_returns[dones[t]] = 0

        # 2. The bonus. Rewards that read successors (RIDE, RND, …) need next_observations too: see the README.
        rollout = revd.Rollout(observations=observations, actions=actions, dones=dones)
        bonuses = reward.compute(rollout)

        # 3. The advantages: the task's, and the bonus's with a critic of its own, at a weight that follows from both.
        with torch.no_grad():
            next_value = critic(observation).flatten()
        task_advantages = advantages_of(rewards, values, next_value, dones)
        returns = task_advantages + values
        automatic.observe_task(rewards.numpy(), dones.numpy(), np.ones(shape, bool))  # a bonus yields to dense rewards
        weighed = automatic.weigh(
            bonuses,
            automatic.embedder.embed(reward, rollout, observation),
            task_advantages,
            strength=torch.full((N_STEPS, 1), STRENGTH),
            extrinsic_weight=1.0,
            paid=reward.latest_paid,
        )
        reward.update(rollout)  # trains the models of rewards that have some; after their embeddings were read

        # 4. PPO's update.
        batch = [each.flatten(0, 1) for each in (observations, actions, log_probs, weighed.advantages, returns)]
        for _ in range(EPOCHS):
            for rows in torch.randperm(N_STEPS * N_ENVS).split(BATCH_SIZE):
                obs, act, old_log_prob, advantage, target = (each[rows] for each in batch)
                choices = Categorical(logits=actor(obs))
                ratio = (choices.log_prob(act) - old_log_prob).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
                loss = 0.5 * (critic(obs).flatten() - target).square().mean() - gain
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, MAX_NORM)
                optimizer.step()

        # 5. The log: both rewards, each on its own.
        mean_return = np.mean(episode_returns[-50:]) if episode_returns else np.nan
        print(
            f"{iteration * N_STEPS * N_ENVS:,} steps: return {mean_return:.1f}, "
            f"extrinsic {rewards.mean():.3f}, intrinsic {bonuses.mean():.3f}, "
            f"weight {weighed.numbers['weight']:.3f}, share {weighed.numbers['bonus_share']:.2f}"
        )


if __name__ == "__main__":
    main()
