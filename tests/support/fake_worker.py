"""In place of a launcher's worker: a program without slow imports that behaves as its task's name says."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

COMMAND = (sys.executable, __file__)


def main() -> None:
    config = json.loads(sys.stdin.readline())
    given = sys.argv[sys.argv.index("--directory") + 1] if "--directory" in sys.argv else config["output"]
    task, directory = config["task"], Path(given)
    if task == "wrong":
        sys.exit("Traceback\nValueError: wrong config")
    if task == "silent":
        os._exit(3)
    if task == "endless":
        # As the worker does: it listens before anything can be seen of it.
        signal.signal(signal.SIGTERM, lambda *_: end(directory, config))
    print("threads", os.environ["OMP_NUM_THREADS"], flush=True)
    (directory / "gpus").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    (directory / "run.json").write_text("{}")
    write_status(directory, config, "running", 0)
    (directory / "pid").write_text(str(os.getpid()))
    started = time.time()
    misbehave(task, directory, config)
    time.sleep(0.2)
    (directory / "times.json").write_text(json.dumps([started, time.time()]))
    write_status(directory, config, "finished", config["steps"])


def write_status(directory: Path, config: dict[str, object], state: str, steps: object) -> None:
    values = {"state": state, "steps": steps, "total_steps": config["steps"]}
    (directory / ".new").write_text(json.dumps(values))
    os.replace(directory / ".new", directory / "status.json")


def misbehave(task: str, directory: Path, config: dict[str, object]) -> None:
    if task == "second-time" and not (directory / "first").exists():
        (directory / "first").touch()
        sys.exit("not yet")
    if task == "deleted":
        shutil.rmtree(directory)
        sys.exit("gone")
    if task == "nameless":
        os.kill(os.getpid(), 40)
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (directory / "deaf").touch()
        time.sleep(60)
    if task == "endless":
        # As the real worker: it ends when its launcher ends.
        sys.stdin.readline()
        end(directory, config)


def end(directory: Path, config: dict[str, object]) -> None:
    write_status(directory, config, "interrupted", 5)
    sys.exit(1)


if __name__ == "__main__":
    main()
