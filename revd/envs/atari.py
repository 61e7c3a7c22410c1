"""ale-py's native vector of Atari games, which steps and preprocesses in C++."""

from typing import Any

import gymnasium
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

#: Half an hour of play, the usual time limit.
MAX_FRAMES = 108_000
NO_OPS = 30
SCREEN = (210, 160)


def make_atari(
    game: str,
    n_envs: int,
    *,
    threads: int = 1,
    max_frames: int = MAX_FRAMES,
    no_ops: int = NO_OPS,
    fire_reset: bool = True,
    colour: bool = False,
) -> AtariVectorEnv:
    """Make copies of a game, by its ROM's name, with the usual preprocessing, no sticky actions.

    Observations are four grey frames of 84x84, each the pixelwise maximum of the last two of four frames; with
    `colour`, one frame of the whole screen, (1, 210, 160, 3), for films. Rewards are not clipped. A lost life is
    reported as a termination, but the game continues: `life_loss_info` does that, whereas `episodic_life` would restart
    the game.
    """
    screen: dict[str, Any] = {"grayscale": False, "img_height": SCREEN[0], "img_width": SCREEN[1], "stack_num": 1}
    return AtariVectorEnv(
        game,
        n_envs,
        num_threads=threads,
        autoreset_mode=AutoresetMode.SAME_STEP,
        max_num_frames_per_episode=max_frames,
        noop_max=no_ops,
        use_fire_reset=fire_reset,
        life_loss_info=True,
        episodic_life=False,
        reward_clipping=False,
        repeat_action_probability=0.0,
        **(screen if colour else {}),
    )


def rom_name(gymnasium_id: str) -> str:
    """The name of the ROM of a Gymnasium id: `ALE/SpaceInvaders-v5` -> `space_invaders`."""
    name: str = gymnasium.spec(gymnasium_id).kwargs["game"]
    return name
