"""`revd watch`, which `revd train --video` calls too."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.runs.config import NO_REWARD, TrainConfig
from revd.runs.display import print_line
from revd.storage.run_files import FILM

if TYPE_CHECKING:
    from revd.runs.watch import WatchedEpisode

_RUN = tyro.conf.arg(metavar="RUN", name="run")
_TASK = tyro.conf.arg(help_behavior_hint="(default: the run's)")
_OUTPUT = tyro.conf.arg(metavar="FILE", help_behavior_hint=f"(default: RUN/{FILM})")


@dataclass(frozen=True, kw_only=True)
class WatchCommand:
    """Play one episode with a trained agent, and write it as a GIF or a video with the bonus of each step."""

    directory: tyro.conf.Positional[Annotated[Path, _RUN]]
    """Directory of the run, whose newest checkpoint plays."""
    output: Annotated[Path | None, _OUTPUT] = None
    """The film: FILE.gif, or FILE.mp4, which needs imageio-ffmpeg."""
    seed: int = 0
    """Seed of the episode."""
    steps: int = 1_000
    """Steps after which an episode is cut."""
    fps: int = 25
    """Steps shown per second, at most 50."""
    stochastic: bool = False
    """Draw the actions as in training, instead of taking the most probable ones."""
    trust: bool = False
    """Allow RUN to be a model.zip of Stable-Baselines3, which contains pickles, or a run whose task or
    reward is in another package. Both execute code that comes with them."""
    task: Annotated[str, _TASK] = ""
    """Task of a model.zip, which does not contain it."""
    algo: str = "ppo"
    """Algorithm of a model.zip."""

    def run(self) -> None:
        """Play, draw, and print the path of the film."""
        require_matplotlib()
        from revd.analysis.drawing.film import Film
        from revd.analysis.writing.film_files import check_film, save_film
        from revd.runs.directory import RunDirectory
        from revd.storage.atomic import replacing
        from revd.training.env_checks import EnvironmentFault

        folder = self.directory.parent if self.directory.is_file() else self.directory
        output = folder / FILM if self.output is None else self.output
        check_film(output, self.fps)
        try:
            episode = self._episode()
        except EnvironmentFault as error:
            raise ValueError(str(error)) from error
        run = episode.config
        film = Film(episode, title=f"{run.method} on {run.task} after {episode.trained_steps:,} steps")
        output.parent.mkdir(parents=True, exist_ok=True)
        with replacing(output) as temporary:
            save_film(film, temporary, fps=self.fps)
        console = Console()
        normalization = RunDirectory(folder).normalization
        if self.directory.is_file() and normalization.exists():
            print_line(
                console,
                f"{self.directory} got observations without normalisation. If it was trained on normalised ones, whose "
                f"statistics are in {normalization.name} beside it, watch the run: revd watch {folder}",
            )
        print_line(console, f"Film: {output} ({summary(episode, of_export=self.directory.is_file())})")

    def _episode(self) -> "WatchedEpisode":
        from revd.runs.watch import watch, watch_export
        from revd.training.initial_policy import require_trust

        if not self.directory.is_file():
            return watch(
                self.directory,
                seed=self.seed,
                max_steps=self.steps,
                deterministic=not self.stochastic,
                trust=self.trust,
            )
        require_trust(self.directory, trust=self.trust)
        if not self.task:
            raise ValueError(f"{str(self.directory)!r} does not contain its task: add --task")
        return watch_export(
            self.directory,
            TrainConfig(task=self.task, algo=self.algo, reward=NO_REWARD),
            seed=self.seed,
            max_steps=self.steps,
            deterministic=not self.stochastic,
            trust=self.trust,
        )


def summary(episode: "WatchedEpisode", *, of_export: bool = False) -> str:
    """Steps, task reward and mean bonus of the episode."""
    bonus = "no bonus, which a model.zip does not contain" if of_export else "no bonus, since the run has reward none"
    if episode.bonus is not None:
        bonus = f"mean bonus {episode.bonus.mean():.3g}"
    return f"{len(episode.frames):,} steps, task reward {episode.rewards.sum():.2f}, {bonus}"


def require_matplotlib() -> None:
    """Raise a ValueError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ValueError("films are drawn with matplotlib: pip install 'revd[video]'")
