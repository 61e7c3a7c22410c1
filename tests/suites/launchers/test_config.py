import pytest

from revd.suites.launchers.config import LauncherConfig
from revd.suites.launchers.local import LocalLauncher


def test_runs_are_started_on_this_machine_by_default():
    with LauncherConfig().open() as launcher:
        assert isinstance(launcher, LocalLauncher)


@pytest.mark.parametrize("option", [{"gpus_per_run": 0.25}, {"fetch": True}, {"address": "head:6379"}])
def test_options_of_ray_are_refused_without_it(option):
    with pytest.raises(ValueError, match="address, cpus_per_run, gpus_per_run and fetch are for launcher 'ray'"):
        LauncherConfig(**option).open()


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("revd.suites.launchers.config.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"launcher 'ray' needs Ray: pip install 'revd\[ray\]'"):
        LauncherConfig(launcher="ray").open()


def test_what_is_asked_for_reaches_ray(monkeypatch):
    pytest.importorskip("ray", reason="Ray has no release for this version of Python")
    seen = {}
    monkeypatch.setattr("revd.suites.launchers.ray.RayLauncher", lambda **options: seen.update(options))
    LauncherConfig(launcher="ray", address="head:1", cpus_per_run=2, gpus_per_run=0.5, fetch=True).open()
    assert seen == {"address": "head:1", "cpus_per_run": 2, "gpus_per_run": 0.5, "fetch": True}
