"""Write results/README.md from the archives in results/, and fill the tables that README.md and docs quote.

    python tools/results_page.py

A page quotes the results of a suite, `final` returns or `steps`, of all methods or of those named:

    <!-- results: balance final: PPO; PPO+REVD -->
    <!-- end of results -->

or the first table of another page, or of the section with a heading:

    <!-- table: docs/methods/README.md, What each costs -->
    <!-- end of table -->
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from revd.analysis.drawing.captions import plural
from revd.analysis.reading.archive import read_archive
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.grouping import name_variants, sort_runs
from revd.analysis.writing.hand_written import hand_written, hand_written_parts
from revd.analysis.writing.method_tables import EXPLANATION, TaskColumn, final_table, steps_table, task_columns
from revd.episodes import FINAL_RETURN

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = "runs.csv.gz"
_QUOTE = re.compile(r"(<!-- results: (\S+) (final|steps)(?:: (.*?))? -->\n).*?(<!-- end of results -->)", re.DOTALL)
_COPY = re.compile(r"(<!-- table: (\S+?)(?:, (.*?))? -->\n).*?(<!-- end of table -->)", re.DOTALL)
_TABLES = {"final": final_table, "steps": steps_table}

#: The results of each suite, by the name of its folder.
Suites = Mapping[str, list[TaskColumn]]


def main(root: Path = ROOT) -> None:
    """Write the front page and all quotes."""
    suites = {name: task_columns(runs) for name, runs in archived_runs(root).items()}
    page = root / "results" / "README.md"
    page.write_text(front_page(root, suites))
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text()
        filled = fill_copies(fill_quotes(text, suites), root)
        if filled != text:
            path.write_text(filled)


@cache
def archived_runs(root: Path) -> dict[str, list[RecordedRun]]:
    """The labelled runs of every archive, by the name of its folder."""
    return {
        path.parent.name: sort_runs(name_variants(read_archive(path)))
        for path in sorted((root / "results").glob(f"*/{ARCHIVE}"))
    }


def front_page(root: Path, suites: Suites) -> str:
    """The text of results/README.md; what people wrote into it is kept."""
    page = root / "results" / "README.md"
    parts = hand_written_parts(page.read_text()) if page.exists() else {}
    lines = hand_written("introduction", parts, default="# Results")
    lines += [f"Final return of a run: {FINAL_RETURN}. {EXPLANATION}", ""]
    lines += ["Steps: the median over seeds until the mean of the last 100 episodes reached the threshold.", ""]
    for name, columns in suites.items():
        lines += _suite(root, name, columns)
    return "\n".join([*lines, *_others(root, suites)]).rstrip() + "\n"


def fill_quotes(text: str, suites: Suites) -> str:
    """A page with its quoted tables made again; a ValueError for a suite or method without results."""

    def table(match: re.Match[str]) -> str:
        begin, name, kind, methods, end = match.groups()
        if name not in suites:
            raise ValueError(f"{begin.strip()!r}: results/{name} has no archive; there are {', '.join(suites)}")
        chosen = _methods(suites[name], methods.split("; ")) if methods else []
        return "\n".join([begin, *_TABLES[kind](suites[name], chosen), end])

    return _QUOTE.sub(table, text)


def fill_copies(text: str, root: Path) -> str:
    """A page with the tables that it copies from other pages, without their links."""

    def table(match: re.Match[str]) -> str:
        begin, name, heading, end = match.groups()
        page = (root / name).read_text()
        section = page if heading is None else page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        found = re.search(r"^\|.*?(?=\n(?!\|))", section, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"{begin.strip()!r}: there is no such table")
        return "\n".join([begin, re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found[0]), "", end])

    return _COPY.sub(table, text)


def _methods(columns: list[TaskColumn], wanted: list[str]) -> list[str]:
    """Labels of the methods that are named, with all their variants: PPO+REVD is PPO+REVD (weight=auto), too."""
    known = list(dict.fromkeys(method for column in columns for method in column.results))
    found = {name: [label for label in known if name in (label, label.partition(" (")[0])] for name in wanted}
    if unknown := [name for name, labels in found.items() if not labels]:
        raise ValueError(f"no method {', '.join(unknown)} in the results; there are {', '.join(known)}")
    return [label for labels in found.values() for label in labels]


def _suite(root: Path, name: str, columns: list[TaskColumn]) -> list[str]:
    runs = archived_runs(root)[name]
    hours = sum(sum(run.seconds.values()) for run in runs) / 3600
    described = f"[{_title(root, name)}]({name}/README.md) {plural(len(runs), 'run')}, {hours:.1f} hours of training."
    return [f"## {name}", "", described, "", *final_table(columns), *steps_table(columns)]


def _others(root: Path, suites: Suites) -> list[str]:
    """Links to the pages without an archive."""
    names = [path.parent.name for path in sorted((root / "results").glob("*/README.md"))]
    links = [f"- [{_title(root, name)}]({name}/README.md)" for name in names if name not in suites]
    return ["## Pages with other data", "", *links] if links else []


def _title(root: Path, name: str) -> str:
    """The heading of a page in results."""
    page = root / "results" / name / "README.md"
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE) if page.exists() else None
    return found[1] if found else name


if __name__ == "__main__":
    main()
