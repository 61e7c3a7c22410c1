"""Instead of `revd.suites.scheduler.train_all`: runs that are over at once."""

from revd.runs.directory import RunDirectory, Status
from revd.suites import scheduler


def plain_loses(config):
    """PPO never reaches the demo's threshold, PPO+REVD does."""
    return -200 if config.reward == "none" else -120


def fake_train_all(*, failing=(), earns=plain_loses):
    """Runs that end at once, with one return in all episodes: `earns(config)`; None for no episode."""

    def train_all(configs, *, jobs, watch):
        runs = []
        for config in configs:
            failed = config.seed in failing
            directory = RunDirectory(config.directory)
            directory.start(config, resolved={"method": config.method}, steps=0)
            earned = earns(config)
            rows = [] if earned is None else [f"{100 * index},{earned},10,0" for index in range(1, 151)]
            directory.episodes.write_text("\n".join(["steps,return,length,env", *rows]) + "\n")
            status = Status(
                state="failed" if failed else "finished",
                steps=config.steps,
                total_steps=config.steps,
                error="ValueError: no" if failed else None,
            )
            directory.finish(status)
            runs.append(scheduler.RunProgress(config=config, status=status))
        watch(runs)
        return runs

    return train_all
