"""What GitHub, PyPI, pre-commit and citation tools read: it parses, says what is true, and runs what `make` runs."""

import re
import subprocess
import tarfile
import zipfile
from importlib.metadata import entry_points, requires
from os.path import normpath
from pathlib import Path
from shutil import copytree, which

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import build_meta

import revd
from tests.support.browser import BROWSERS
from tests.support.installs import EXTRAS, PROJECT, ROOT, pins

WORKFLOWS = ROOT / ".github" / "workflows"
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"


def read(path: Path):
    return yaml.safe_load(path.read_text())


def steps_of(workflow: str, job: str):
    return read(WORKFLOWS / workflow)["jobs"][job]["steps"]


def test_ci_runs_what_everybody_runs():
    workflow = read(WORKFLOWS / "ci.yml")
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow[True]) == {"push", "pull_request", "workflow_call"}
    assert workflow["permissions"] == {"contents": "read"}
    checkout, python, browser, run = steps_of("ci.yml", "check")
    assert checkout["uses"].startswith("actions/checkout@")
    assert python["with"]["python-version"] == "3.11", "the Python that the tests are made for"
    assert browser["run"] == f"command -v {' '.join(BROWSERS)}", "what tests/support/browser.py looks for"
    assert run == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100, "it can be executed"


def test_a_tag_builds_checks_and_publishes_without_a_password():
    workflow = read(WORKFLOWS / "release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert [step["run"] for step in build["steps"] if "run" in step][1:] == ["make dist"]
    assert workflow["jobs"]["test"] == {"uses": "./.github/workflows/ci.yml"}
    assert publish["needs"] == ["build", "test"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1] == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    assert "password" not in (WORKFLOWS / "release.yml").read_text()
    recipe = re.search(r"^dist: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert recipe[1].split("\n\t")[1:] == ["$(BIN)/python -m build", "$(BIN)/twine check --strict dist/*\n"]
    assert {"build", "twine"} <= pins().keys()


def test_the_tag_is_compared_with_the_version(tmp_path):
    (check,) = (step["run"] for step in steps_of("release.yml", "build") if step.get("name", "").startswith("The tag"))
    found = re.search(r"sed -n '(.*)' (\S+)\)", check)
    assert found is not None
    assert found[1] == r's/^__version__ = "\(.*\)"$/\1/p'
    assert f'__version__ = "{revd.__version__}"\n' in (ROOT / found[2]).read_text()


def test_pre_commit_calls_the_pinned_tools_only():
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "other repositories would have versions of their own"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    makefile = (ROOT / "Makefile").read_text()
    for hook in hooks.values():
        tool, *words = hook["entry"].removeprefix(".venv/bin/").split()
        assert tool in pins(), hook["id"]
        assert f"$(BIN)/{' '.join([tool, *words[:1]])}" in makefile, "the same as `make check` or `make format`"
    assert hooks["mypy"]["pass_filenames"] is False
    assert any(line.startswith("pre-commit>=") for line in EXTRAS["dev"])
    brought = {canonicalize_name(Requirement(line).name) for line in requires("pre-commit") or []}
    assert {"pre-commit", "nodeenv", "virtualenv", *brought} <= pins().keys()
    assert "`.venv/bin/pre-commit install`" in (ROOT / "CONTRIBUTING.md").read_text()


#: In the place of apt-get: writes down how it was called, and fails at a word.
APT_GET = """#!/bin/bash
echo "${DEBIAN_FRONTEND:-} $(cat) ${LIMITED:+limited }$*" >> calls
case "$*" in *"$FAILS"*) exit 100 ;; esac
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A copy of `.ci/run` on a machine without a browser, where root runs it."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "dirname"):
        (tools / name).symlink_to(str(which(name)))
    programs = {
        "apt-get": APT_GET,
        "id": "#!/bin/bash\necho 0\n",
        "make": '#!/bin/bash\necho "make $*" >> calls\n',
        "timeout": '#!/bin/bash\nshift\nLIMITED=yes exec "$@"\n',
    }
    for name, program in programs.items():
        (tools / name).write_text(program)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    return tmp_path


@pytest.mark.parametrize(
    ("fails", "steps"), [("nothing", 3), ("update", 1), ("--download-only", 2), ("--no-download", 3)]
)
def test_ci_limits_the_time_of_downloads_only_and_needs_no_browser(fails, steps, clone, monkeypatch):
    monkeypatch.setenv("FAILS", fails)
    done = subprocess.run(
        ["bash", clone / ".ci" / "run"], input="typed", capture_output=True, text=True, check=True, timeout=60
    )
    *calls, check, docs, test = (clone / "calls").read_text().splitlines()
    assert [check, docs, test] == ["make check", "make docs", "make test"]
    install = "install -qq -y --no-install-recommends chromium"
    assert (
        calls
        == [
            "noninteractive  limited update -qq",
            f"noninteractive  limited {install} --download-only",
            f"noninteractive  {install} --no-download",
        ][:steps]
    )
    assert ("Chromium could not be installed" in done.stdout) == (fails != "nothing")


@pytest.mark.parametrize("form", ["bug.yml", "idea.yml"])
def test_forms_have_what_github_asks_for(form):
    values = read(FORMS / form)
    assert {"name", "description", "body"} <= values.keys()
    identifiers = [field["id"] for field in values["body"]]
    assert len(set(identifiers)) == len(identifiers)
    for field in values["body"]:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes")
        assert field["attributes"]["label"]


def test_forms_and_the_pull_requests_text_name_files_that_are_there():
    assert read(FORMS / "config.yml") == {"blank_issues_enabled": True}
    for path in (*FORMS.glob("*.yml"), ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"):
        for name in re.findall(r"\b[A-Z]+\.md\b", path.read_text()):
            assert (ROOT / name).exists(), (path.name, name)


def test_the_citation_names_this_version_and_the_paper():
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys(), "what the format requires"
    assert (citation["version"], citation["license"]) == (revd.__version__, PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert paper["url"] == PROJECT["urls"]["Paper"] == "https://arxiv.org/abs/2209.08842"
    assert [author["family-names"] for author in paper["authors"]] == ["Yuan", "Li", "Jin", "Zeng"]


def test_pypis_page_has_no_link_that_only_the_repository_has():
    assert PROJECT["readme"] == "PYPI.md"
    text = (ROOT / "PYPI.md").read_text()
    assert all(target.startswith("https://") for target in re.findall(r"\]\(([^)]*)\)", text))
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert block in (ROOT / "README.md").read_text(), "the README's lines, which tests/test_readme.py runs"


def test_the_declared_pythons_are_the_required_ones():
    minor = [int(found[1]) for entry in PROJECT["classifiers"] if (found := re.search(r":: 3\.(\d+)$", entry))]
    assert PROJECT["requires-python"] == f">=3.{min(minor)}"


def copy_sources(folder: Path, *directories: str) -> None:
    """Copy what packages are built of, for a build writes beside it."""
    for path in filter(Path.is_file, ROOT.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    for name in directories:
        copytree(ROOT / name, folder / name, ignore=lambda _, names: {"__pycache__"} & set(names))
    (folder / "dist").mkdir()


def test_pages_of_the_source_distribution_link_only_to_files_in_it(tmp_path, monkeypatch, capfd):
    copy_sources(tmp_path, "revd", "docs", "examples", "results")
    (tmp_path / "examples" / "x.pyc").touch()
    monkeypatch.chdir(tmp_path)
    with tarfile.open(tmp_path / "dist" / build_meta.build_sdist("dist")) as archive:
        files = {Path(member.name) for member in archive.getmembers()}
    pages = [file for file in files if file.suffix == ".md"]
    assert len(pages) > 40
    for page in pages:
        text = (ROOT / page.relative_to(page.parts[0])).read_text()
        targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
        missing = [target for target in targets if Path(normpath(page.parent / target)) not in files]
        assert not missing, page
    assert not [file for file in files if file.suffix == ".pyc"]


def test_the_wheel_holds_the_whole_package(tmp_path, monkeypatch, capfd):
    copy_sources(tmp_path, "revd")
    monkeypatch.chdir(tmp_path)
    wheel = zipfile.ZipFile(tmp_path / "dist" / build_meta.build_wheel("dist"))
    files = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "revd").rglob("*") if path.is_file()}
    assert {name for name in wheel.namelist() if not name.startswith(f"revd-{revd.__version__}")} == files
    assert "revd/py.typed" in files
    assert f"revd-{revd.__version__}.dist-info/licenses/LICENSE" in wheel.namelist()


def test_the_command_is_installed():
    assert [entry.value for entry in entry_points(group="console_scripts", name="revd")] == ["revd.__main__:main"]
