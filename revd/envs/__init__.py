"""Tasks by name. Knows nothing of rewards, nor of the frameworks that train on them.

`revd.envs.tasks` is data and loads nothing; the other modules load Gymnasium.
"""
