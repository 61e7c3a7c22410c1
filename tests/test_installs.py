"""Each extra is sufficient for its purpose, and an error names a missing package with its pip command."""

import json
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import revd
from revd.envs.tasks import how_to_install
from tests.support.installs import EXTRAS, PROJECT, ROOT, brought_by, distributions, pins, run_with_extras

USERS_EXTRAS = sorted(EXTRAS.keys() - {"all", "bench", "dev", "docs", "release"})
CORE = {"torch", "numpy", "gymnasium", "safetensors"}
#: The end of a message, of what is missing, and the extra that must bring it.
INSTALL = re.compile(r"pip install 'revd\[(\w+)\]'")

LOOP = """
import gymnasium, numpy as np, revd
from revd.testing import check_reward
space, actions = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
reward = revd.make_reward("revd", space, actions, n_envs=2)
for seed in range(2):
    drawn = np.random.default_rng(seed).normal(size=(33, 2, 3)).astype(np.float32)
    rollout = revd.Rollout(observations=drawn[:-1], next_observations=drawn[1:], actions=np.zeros((32, 2), dtype=int),
                           dones=np.zeros((32, 2), dtype=bool))
    bonus = reward.compute(rollout)
print(tuple(bonus.shape), bool((bonus > 0).all()))
print(revd.neighbor_distances(bonus[..., None], k=1).shape[-1])
"""

ONE_LINE = """
import revd, sys
from stable_baselines3 import PPO
PPO("MlpPolicy", "CartPole-v1", n_steps=64).learn(128, callback=revd.sb3.IntrinsicRewardCallback("revd"))
revd.sb3.FastPPO("MlpPolicy", "CartPole-v1", n_steps=64).learn(128)
print("learnt", *[name for name in ("tyro", "rich", "tensorboard") if name in sys.modules])
"""

SAY = """
import contextlib, io
from revd.__main__ import main
answers = []
for arguments in json.loads({commands!r}):
    sys.argv[1:] = arguments
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    answers.append((code, errors.getvalue()))
print(json.dumps(answers))
"""

TINY = ["--task", "CartPole-v1", "--steps", "64", "--algo-params", "n_steps=32"]
#: Commands of an install with [cli] alone, what they say is missing, and the package that they miss.
MISSING = {
    "trpo": (["train", "--algo", "trpo", *TINY], "contrib", "sb3_contrib"),
    "recurrent-ppo": (["train", "--algo", "recurrent-ppo", *TINY], "contrib", "sb3_contrib"),
    "maskable-ppo": (["train", "--algo", "maskable-ppo", *TINY], "contrib", "sb3_contrib"),
    "atari": (["train", "--task", "atari/assault"], "atari", "ale_py"),
    "bullet": (["train", "--task", "bullet/hopper"], "bullet", "pybullet"),
    "cart-pole": (["train", "--task", "bullet/cart-pole"], "bullet", "pybullet"),
    "minigrid": (["train", "--task", "minigrid/door-key-5x5"], "minigrid", "minigrid"),
    "report": (["report", "."], "plots", "rliable"),
    "figure": (["figure", "."], "plots", "rliable"),
    "tune": (["tune", "--task", "CartPole-v1"], "tune", "optuna"),
    "suite": (["suite", "smoke", "--launcher", "ray"], "ray", "ray"),
    "watch": (["watch", "run"], "video", "pygame"),
    "film": (["watch", "run", "--output", "film.mp4"], "video", "imageio_ffmpeg"),
}


def test_the_bare_package_brings_four_and_what_they_need():
    assert {Requirement(line).name for line in PROJECT["dependencies"]} == CORE
    assert not distributions() & {"stable-baselines3", "matplotlib", "tyro", "rich", "tensorboard", "ray", "pandas"}


def test_the_bare_package_computes_bonuses():
    result = run_with_extras(LOOP)
    assert result.stderr == ""
    assert result.stdout.split("\n") == ["(32, 2) True", "1", ""]


@pytest.mark.parametrize(
    ("program", "package", "message"),
    [
        ("import revd; revd.sb3", "stable_baselines3", "revd.sb3 needs Stable-Baselines3"),
        ("import revd.fast", "stable_baselines3", "revd.fast needs Stable-Baselines3"),
        ("import revd; revd.rllib", "ray", "revd.rllib needs Ray's RLlib"),
    ],
)
def test_the_bare_package_names_what_an_adapter_needs(program, package, message):
    last = run_with_extras(program).stderr.strip().splitlines()[-1]
    found = INSTALL.search(last)
    install = f"install it with: pip install 'revd[{found[1]}]'"
    assert last == f"ImportError: {message} (No module named '{package}'); {install}"
    assert package in brought_by(found[1])


def test_the_bare_package_says_what_the_command_needs():
    ((code, said),) = said_by([["tasks"]])
    missing = "tyro, rich, stable_baselines3, tensorboard"
    assert (code, said) == (2, f"revd: the command line needs {missing}: pip install 'revd[cli]'\n")
    assert set(missing.split(", ")) <= brought_by("cli")


def test_the_extra_sb3_is_enough_to_train():
    result = run_with_extras(ONE_LINE, "sb3")
    assert result.stdout.splitlines()[-1:] == ["learnt"], result.stderr


def test_the_command_line_alone_trains_and_names_whatever_else_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    working = [["train", *TINY, "--output", "run"], ["rewards"], ["tasks"]]
    answers = said_by([*working, *(command for command, _, _ in MISSING.values())], "cli")
    assert [code for code, _ in answers[: len(working)]] == [0, 0, 0], answers
    for (case, (_, extra, package)), (code, text) in zip(MISSING.items(), answers[len(working) :], strict=True):
        hint = how_to_install("bullet") if extra == "bullet" else f"pip install 'revd[{extra}]'"
        assert code == 2, (case, text)
        assert hint in text.splitlines()[-1], (case, text)
        if hint.startswith("pip"):
            assert package in brought_by(extra), case


def said_by(commands: list[list[str]], *extras: str) -> list[tuple[int, str]]:
    """The exit code and the errors of each command, in an install with some extras."""
    result = run_with_extras(SAY.format(commands=json.dumps(commands)), *extras)
    assert result.returncode == 0, result.stderr
    return [(code, text) for code, text in json.loads(result.stdout)]


@pytest.mark.parametrize("extra", [extra for extra in USERS_EXTRAS if extra != "envpool"])
def test_all_holds_every_extra_of_users(extra):
    """But EnvPool, for its size."""
    assert distributions(extra) <= distributions("all")


def test_messages_name_extras_that_exist():
    named = {name for path in (ROOT / "revd").rglob("*.py") for name in INSTALL.findall(path.read_text())}
    assert {"sb3", "cli", "contrib", "plots", "video", "tune", "ray"} <= named <= EXTRAS.keys()


def test_what_is_asked_for_is_pinned_to_a_version_that_suits():
    pinned = pins()
    for line in [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]:
        requirement = Requirement(line)
        if requirement.name != "revd":
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), line


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert re.findall(r'^__version__ = "(.*)"$', (ROOT / "revd/__init__.py").read_text(), re.MULTILINE) == [
        revd.__version__
    ]


def test_the_command_is_the_one_that_says_what_is_missing():
    assert PROJECT["scripts"] == {"revd": "revd.__main__:main"}
