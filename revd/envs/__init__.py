"""Environments of tasks by name. Imports neither rewards nor training frameworks.

`revd.envs.tasks` is data only; the other modules import Gymnasium.
"""
