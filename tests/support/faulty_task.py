"""Importing this registers a task that breaks at its fifth step."""

from functools import partial

import gymnasium

from tests.support.faulty import FaultyEnv

gymnasium.register("RevdBroken-v0", entry_point=partial(FaultyEnv, "nan", 5), disable_env_checker=True)
