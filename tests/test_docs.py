"""What the pages name is there: files, links, commands with their flags, and the files of two paths."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from stable_baselines3 import PPO

import revd
from revd import cli
from revd.sb3 import IntrinsicRewardCallback
from tests.support.pages import PAGES, ROOT, SAVED, blocks, each_page, spans

FOLDERS = ("revd", "tests", "docs", "benchmarks", "tools", "results", "examples")
ARCHITECTURE = ROOT / "docs" / "architecture.md"


@cache
def source_files() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub writes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def code(text: str) -> list[str]:
    """Blocks and spans of code that are not Python."""
    return [block for language, block in blocks(text) if language != "python"] + spans(text)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each `revd COMMAND` in the code of a page, with the flags that follow on its line."""
    joined = "\n".join(code(text)).replace("\\\n", " ")
    # A reward is called revd too.
    lines = re.sub(r"(?<=--rewards)( (?!-)\S+)+", "", joined).splitlines()
    calls = [call for line in lines for call in re.split(r"(?<![\w.+-])(?=revd [a-z])", line)[1:]]
    return [(call.split()[1].strip(",.:;"), re.findall(r"(?<=\s)--[a-z][a-z-]*", call)) for call in calls]


@cache
def help_of(command: str) -> frozenset[str]:
    """The flags that `revd COMMAND --help` lists."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0, f"there is no command 'revd {command}'"
    return frozenset(re.findall(r"--[a-z][a-z-]*", printed.getvalue()))


@each_page
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text())
    for name in re.findall(rf"(?<![\w/.-])((?:{'|'.join(FOLDERS)})/[\w./-]+)", text):
        assert (ROOT / name.rstrip(".")).exists(), name
    for name in re.findall(r"`([\w/]+\.py)`", text):
        assert name.removesuffix(".py") in SAVED or any(path.match(name) for path in source_files()), name


@each_page
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


@each_page
def test_the_commands_that_a_page_names_take_these_flags(page: Path) -> None:
    for command, flags in commands(page.read_text()):
        assert set(flags) <= help_of(command), f"revd {command} has no {set(flags) - help_of(command)}"


@each_page
def test_the_flags_that_a_page_names_alone_are_there(page: Path) -> None:
    named = {command for path in PAGES for command, _ in commands(path.read_text())}
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    for flag in re.findall(r"`(--[a-z][a-z-]*)[^`\n]*`", page.read_text()):
        assert f'"{flag}"' in scripts or any(flag in help_of(command) for command in named), flag


def test_the_files_on_a_rollouts_path_are_the_ones_listed() -> None:
    listed, text = listed_files("files of a rollout")
    assert files_of_a_rollout() == listed
    assert f"code of these {len(listed)} files" in text


def test_the_files_before_the_first_rollout_are_the_ones_listed(tmp_path: Path) -> None:
    listed, text = listed_files("files before the first rollout")
    assert files_before_the_first_rollout(tmp_path) == listed
    assert f"code of these {len(listed)} files" in text


def listed_files(title: str) -> tuple[set[str], str]:
    """The files in the table of that title, and the whole page."""
    text = ARCHITECTURE.read_text()
    (table,) = re.findall(rf"<!-- {title} -->\n(.*?)<!-- end of files -->", text, re.DOTALL)
    rows = re.findall(r"^\| `([\w/]+)` \| (.*) \|$", table, re.MULTILINE)
    names = {f"{package}/{name}" for package, cell in rows for name in re.findall(r"`(\w+\.py)`", cell)}
    return {name.removeprefix("revd/") for name in names}, text


def files_of_a_rollout() -> set[str]:
    """The files of revd whose functions run between the start of a rollout and its update, on a CPU."""
    callback = IntrinsicRewardCallback("revd")
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    model.learn(128, callback=callback)
    with watched_files() as seen:
        model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=64)
    return seen


def files_before_the_first_rollout(path: Path) -> set[str]:
    """The files of revd whose functions `revd train` runs in a new directory before the first rollout, on a CPU."""
    flags = ["--task", "CartPole-v1", "--steps", "64", "--n-envs", "2", "--algo-params", "n_steps=32"]
    command = ["train", *flags, "--device", "cpu", "--no-progress", "--output"]
    # All modules are imported in the first training, so that the second runs functions only.
    cli.main([*command, str(path / "first")])
    with watched_files(until="collect_rollouts") as seen:
        cli.main([*command, str(path / "second")])
    return seen


@contextmanager
def watched_files(until: str | None = None) -> Iterator[set[str]]:
    """The files of revd whose functions this thread calls in the block, or before it calls the function `until`."""
    root, seen = Path(revd.__file__).parent, set()

    def watch(frame, event, argument) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name == until:
            sys.setprofile(None)
        elif event == "call" and path.is_relative_to(root):
            seen.add(str(path.relative_to(root)))

    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(None)
