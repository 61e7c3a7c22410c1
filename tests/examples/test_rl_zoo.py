"""RL Zoo trains with the callback that its file of hyperparameters names.

In a process of its own, because RL Zoo changes Gymnasium when it is imported.
"""

import re
import subprocess
import sys

from tests.examples.scripts import EXAMPLES

PROGRAM = """
import sys
from rl_zoo3.train import train
from rl_zoo3.utils import get_callback_list

(callback,) = get_callback_list({"callback": {"revd.sb3.IntrinsicRewardCallback": {"reward": "revd"}}})
print("short form:", type(callback).__name__)
train()
"""


def test_the_file_trains_with_the_bonus(tmp_path):
    flags = ["--algo", "ppo", "--env", "MountainCar-v0", "--conf-file", str(EXAMPLES / "rl_zoo.yml")]
    short = ["--n-timesteps", "2560", "--log-folder", str(tmp_path), "--eval-freq", "-1", "--seed", "1"]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *flags, *short], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert "short form: IntrinsicRewardCallback" in result.stdout
    assert re.findall(r"\| +strength +\| (\S+)", result.stdout) == ["0.2", "0.2"], "as the file sets it"
    shares = [float(share) for share in re.findall(r"\| +bonus_share +\| (\S+)", result.stdout)]
    assert shares[0] == 0
    assert 0 < shares[1] < 1
