"""File names of a run directory, and the columns of its tables."""

#: What the run is: every field of its config, and what defaults became.
CONFIG = "config.json"
#: Where the run comes from: command, versions, sessions, and how it ended.
RUN = "run.json"
#: How far the run is; rewritten every second.
STATUS = "status.json"
#: One row for each finished episode.
EPISODES = "episodes.csv"
#: One row for each rollout: the logger's numbers.
PROGRESS = "progress.csv"
#: One row for each evaluation.
EVALUATIONS = "evaluations.csv"
#: The visited cells, if they have a plane; rewritten with each checkpoint.
VISITS = "visits.safetensors"
#: Output of the process that trained.
LOG = "log.txt"
#: Directory of the checkpoints.
CHECKPOINTS = "checkpoints"
#: Written at the end of a training: the model as SB3 saves it, VecNormalize's statistics, the bonus's state.
MODEL = "model.zip"
NORMALIZATION = "normalization.safetensors"
VEC_NORMALIZE = "vecnormalize.pkl"
BONUS = "bonus.safetensors"
#: Written by `revd watch`.
FILM = "watch.gif"

STEPS_COLUMN = "steps"
EPISODE_COLUMNS = (STEPS_COLUMN, "return", "length", "env")
EVALUATION_COLUMNS = (STEPS_COLUMN, "return_mean", "return_std", "episodes")
