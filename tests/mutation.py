"""Change the pure layers, one small change at a time, and count the changes that a test sees: ``nox -s mutation``.

mutmut makes the changes: in what functions do, not in constants, fields or functions that have a decorator. Some
change nothing that could be seen, so that the floor, in pyproject.toml, is below a hundred.

It runs pytest several times in a process. A test whose id is given (``ids=``) and has a line break or a backslash is
then not found by it, and mutmut says so at once.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from canishard.files import read_toml

ROOT = Path(__file__).parents[1]
SEEN = frozenset({"killed", "timeout"})
"""A test fails, or does not come to an end."""
OPEN = frozenset({"not checked", "check was interrupted by user"})


def options(folders: Iterable[str], arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="nox -s mutation --", description=__doc__)
    parser.add_argument(
        "folders", nargs="*", metavar="folder", help=f"of {', '.join(folders)}; all by default"
    )
    given = parser.parse_args(arguments)
    for unknown in [folder for folder in given.folders if folder not in folders]:
        parser.error(f"{unknown}: no such folder; allowed: {', '.join(folders)}")
    return given


def folders_of(patterns: Iterable[str]) -> list[str]:
    """Return the folders of ``src/canishard`` in which files are changed."""
    return sorted({Path(pattern).parent.name for pattern in patterns})


def count(results: str) -> dict[str, Counter[str]]:
    """Return how often mutmut says what, folder by folder, of lines such as ``canishard.facts.compare.x_f: killed``."""
    found: dict[str, Counter[str]] = {}
    for line in filter(None, map(str.strip, results.splitlines())):
        name, _, said = line.partition(": ")
        if said not in OPEN:
            found.setdefault(name.split(".")[1], Counter())[said] += 1
    return found


def share(counted: Counter[str]) -> float:
    """Return the per cent of changes that were seen."""
    return 100 * sum(counted[said] for said in SEEN) / counted.total()


def table(counted: Mapping[str, Counter[str]]) -> str:
    """Return the figures as people read them, a line a folder."""
    rows = [
        (folder, said.total(), said.total() - sum(said[word] for word in SEEN), f"{share(said):.1f} %")
        for folder, said in sorted(counted.items())
    ]
    return tabulate(rows, headers=["folder", "changes", "unseen", "seen"], stralign="right")


def unseen(results: str) -> list[str]:
    """Return the names of the changes that no test sees."""
    lines = [line.strip().partition(": ") for line in results.splitlines() if line.strip()]
    return [name for name, _, said in lines if said not in SEEN | OPEN]


def mutmut(*arguments: str, quiet: bool = False) -> str:
    """Call mutmut, and return what it prints where it is to be quiet; where it fails, so does this."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE if quiet else None
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout or ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Change, test and print; 1 where too many changes of a folder were not seen."""
    tools = read_toml(ROOT / "pyproject.toml")["tool"]
    folders, floor = folders_of(tools["mutmut"]["only_mutate"]), tools["canishard"]["mutation-floor"]
    given = options(folders, arguments)
    # What mutmut remembers of its last run takes no notice of tests that changed.
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut("run", *(f"canishard.{folder}.*" for folder in given.folders))
    results = mutmut("results", "--all", "true", quiet=True)
    counted = count(results)
    print("\n".join([*unseen(results), "", "`mutmut show NAME` prints a change.", "", table(counted)]))
    below = [folder for folder, said in counted.items() if share(said) < floor]
    if below:
        print(f"\nbelow {floor} %: {', '.join(below)}")
    return 1 if below else 0


if __name__ == "__main__":
    raise SystemExit(main())
