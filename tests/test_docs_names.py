"""The names that pages use are the code's: modules, classes, keywords, parameters, tasks, suites and log names."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tyro
from stable_baselines3 import PPO

import revd
import revd.functional
import revd.rllib
import revd.sb3
import revd.testing
from revd import cli
from revd.cli.parsing import parsing_rules
from revd.envs.tasks import TASKS
from revd.rewards import REWARDS, check_parameters
from revd.sb3 import IntrinsicRewardCallback
from revd.suites.catalog import SUITES
from tests.support.pages import PAGES, ROOT, SAVED, blocks, each_page, python_blocks, shell_lines, spans, table

MODULES = (revd, revd.functional, revd.rllib, revd.sb3, revd.testing)
PUBLIC: Mapping[str, Any] = {name: getattr(module, name) for module in MODULES for name in module.__all__}
#: Those of SB3's logger and of `revd train`, besides `exploration/`.
LOGGED = r"(?:exploration|rollout|train|time)/[a-z_0-9/]+"


def code(page: Path) -> list[str]:
    text = page.read_text()
    return [block for _, block in blocks(text)] + spans(text)


@each_page
def test_python_blocks_compile_and_import_what_exists(page: Path) -> None:
    for block in python_blocks(page):
        for name in imported(ast.parse(block, page.name)):
            assert name in SAVED or exists(name), name


def imported(tree: ast.Module) -> Iterator[str]:
    """The dotted names that some code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or can be reached from one by attributes."""
    module, _, attribute = name.rpartition(".")
    try:
        return bool(import_module(name))
    except ImportError:
        return bool(module) and exists(module) and hasattr(resolved(module), attribute)


def resolved(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return import_module(name)
    except ImportError:
        return getattr(resolved(module), attribute)


@each_page
def test_dotted_names_exist(page: Path) -> None:
    for text in code(page):
        for name in re.findall(r"(?<![\w/.@-])revd(?:\.[a-zA-Z_]\w*)+(?![\w/])", text):
            if not name.endswith((".md", ".py", ".png")) and not is_parameter_of_a_member(name):
                assert exists(name), name


def is_parameter_of_a_member(name: str) -> bool:
    """Whether it is like `revd.k`, the k of the member `revd` of a mixture."""
    member, _, parameter = name.partition(".")
    return member in REWARDS and parameter in parameters_of(member)


def parameters_of(reward: str) -> set[str]:
    return {field.name for field in fields(REWARDS[reward].config_type)}


@each_page
def test_calls_of_public_names_have_valid_arguments(page: Path) -> None:
    for text in code(page):
        for call in calls(text):
            name = ast.unparse(call.func).rpartition(".")[2]
            keywords = {word.arg: word.value for word in call.keywords if word.arg is not None}
            unpacked = any(isinstance(word, ast.Starred) for word in call.args) or len(keywords) < len(call.keywords)
            if name in PUBLIC and not unpacked and (call.args or keywords):
                check_call(PUBLIC[name], call.args, keywords)


def calls(text: str) -> Iterator[ast.Call]:
    """The calls in some code, if it is Python; "…" stands for anything."""
    try:
        tree = ast.parse(text.replace("…", "...").strip())
    except SyntaxError:
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def check_call(target: Any, arguments: list[ast.expr], keywords: dict[str, ast.expr]) -> None:
    """Fail where a call names keywords that its target or the reward does not have, or values out of range."""
    bound = inspect.signature(target).bind_partial(*arguments, **keywords).arguments
    others = {name: word for values in bound.values() if isinstance(values, dict) for name, word in values.items()}
    named = {cls: name for name, cls in REWARDS.items()}.get(target, bound.get("reward", "revd"))
    reward = literal(named) if isinstance(named, ast.expr) else named
    if isinstance(reward, list) or reward in REWARDS:
        values = {name: literal(word) for name, word in others.items()}
        check_parameters(reward, {name: value for name, value in values.items() if value is not None})
    if not isinstance(reward, list) and (reward is None or reward in REWARDS):  # None: known only where the code runs
        known = {name for each in ([reward] if reward else REWARDS) for name in parameters_of(each)}
        assert others.keys() <= known, others.keys() - known


def literal(expression: ast.expr) -> Any:
    """The value of an expression, None if it has none without running it."""
    try:
        return ast.literal_eval(expression)
    except ValueError:
        return None


@each_page
def test_whole_commands_parse(page: Path) -> None:
    for line in shell_lines(page):
        words = shlex.split(re.sub(r"\s[|>&;].*", "", line), comments=True)
        starts = [index for index, word in enumerate(words) if Path(word).name == "revd"][:1]
        if "python" in words[:1]:
            continue  # revd is an argument of a script
        if starts and not re.search(r"[$…]|\b[A-Z]{3,}\b", line):
            tyro.cli(cli._any_command(), prog="revd", args=words[starts[0] + 1 :], registry=parsing_rules())


@each_page
def test_tasks_and_suites_exist(page: Path) -> None:
    for text in code(page):
        families = "|".join({name.partition("/")[0] for name in TASKS})
        for name in re.findall(rf"(?<![\w/.-])(?:{families})/[a-z0-9-]+(?![\w/*{{$])", text):
            assert name in TASKS, name
        for name in re.findall(r"revd suite ([a-z][a-z0-9-]+)", text):
            assert name in SUITES, name


@pytest.mark.parametrize("reward", REWARDS)
def test_parameters_and_metrics_of_a_rewards_page_exist(reward: str) -> None:
    text = (ROOT / "docs" / "methods" / f"{reward}.md").read_text()
    for first, *_ in table(text, "parameter"):
        assert set(re.findall(r"`(\w+)`", first)) <= parameters_of(reward), first
    for first, *_ in table(text, "metric"):
        assert set(re.findall(r"`(\w+)`", first)) <= logged_names(reward), first


@cache
def logged_names(reward: str) -> frozenset[str]:
    """What a short training logs with either kind of weight, less `exploration/`."""
    names: set[str] = set()
    params = {name: value for name, value in SETTINGS.items() if name in parameters_of(reward.partition("+")[0])}
    for weight in ("auto", 0.1):
        callback = IntrinsicRewardCallback(reward, weight=weight, **({} if "+" in reward else params))
        # Its rewards vary; some numbers are logged only then.
        PPO("MlpPolicy", "Pendulum-v1", n_steps=32, batch_size=32, n_epochs=1, device="cpu").learn(96, callback)
        names |= callback.latest.keys()
    return frozenset(names)


#: So that a reward pays, counts both ways, and has all losses, in a training of three rollouts.
SETTINGS: dict[str, Any] = {"warmup": 32, "scope": "both", "features": "dynamics"}


def test_log_names_are_those_of_a_training(tmp_path: Path) -> None:
    flags = ["--task", "CartPole-v1", "--steps", "128", "--n-envs", "2", "--algo-params", "n_steps=32", "--no-progress"]
    cli.main(["train", *flags, "--device", "cpu", "--output", str(tmp_path)])
    columns = set((tmp_path / "progress.csv").read_text().splitlines()[0].split(","))
    mixed = {f"exploration/{name}" for name in (*logged_names("revd+re3"), *logged_names("revd"))}
    named = {name for page in PAGES for text in code(page) for name in re.findall(rf"^{LOGGED}$", text)}
    assert len(named) > 5
    assert named <= columns | mixed


def test_the_reference_has_every_public_name() -> None:
    for module in MODULES:
        text = (ROOT / "docs" / "reference" / f"{module.__name__.rpartition('.')[2]}.md").read_text()
        whole = f"automodule:: {module.__name__}\n   :members:" in text
        assert whole or set(module.__all__) <= set(re.findall(rf":: {module.__name__}\.(\w+)", text)) | OTHER_PAGES


#: The classes of the rewards, which `revd.rewards` documents.
OTHER_PAGES = {"REVD", "RE3", "RIDE"}


def test_the_reference_has_every_reward_with_its_parameters() -> None:
    text = (ROOT / "docs" / "reference" / "rewards.md").read_text()
    for reward in REWARDS.values():
        for cls in (reward, reward.config_type):
            assert f":: {cls.__module__}.{cls.__name__}\n" in text, cls
