"""The head of a reproduction script: what it is, how to run it, what is expected and what was observed.

What comes from records is hostile text, and this is where it meets source code: it stays inside a docstring.
"""

from __future__ import annotations

import ast
import shlex
import textwrap
from collections.abc import Iterator, Sequence

from canishard.catalogue import Entry
from canishard.catalogue.sources import Statement
from canishard.launch.outcome import Outcome

_WIDTH = 110


def docstring(rows: Sequence[Entry], check: Statement, seen: Sequence[tuple[str, Outcome]]) -> str:
    """Return the head: what it is, how to run it, what is expected, and what was observed of the first row."""
    entry = rows[0]
    packages = "".join(f", {package}" for package in entry.packages)
    options = [*(["--row", entry.id] if len(rows) > 1 else []), "--ranks", str(min(entry.world_sizes))]
    run = [f"    python SCRIPT {shlex.join(options)}"]
    if _stages(check) > 1:
        run += ["", "It runs in several stages, each in new processes: torchrun cannot run it."]
    else:
        own = "".join(f" {word}" for word in map(shlex.quote, options[:-2]))
        run.append(f"    torchrun --nproc-per-node {min(entry.world_sizes)} SCRIPT{own}")
    if len(rows) > 1:
        run += ["", f"That is its first row; --list lists all {len(rows)}."]
    lines = [
        f"{entry.title}.",
        "",
        f"This is {entry.id}, a row of canishard's tables. It needs torch{packages} and nothing else:",
        "",
        *run,
        "",
        "Expected: each rank gets what one process computes. The last line is `observed: pass`, the exit code 0.",
        "",
        f"Observed of {entry.id}, by status, number of ranks and release of torch:"
        if seen
        else "It was not measured yet.",
        "",
        *_observed(seen),
    ]
    text = "\n".join(_printable(line).rstrip() for line in lines).strip()
    # Hostile texts stay inside: no backslash acts, no three quotes end it.
    return '"""' + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '\n"""'


def _stages(check: Statement) -> int:
    """Return how many stages a check declares."""
    assert isinstance(check.node, ast.FunctionDef)
    calls = [item for item in check.node.decorator_list if isinstance(item, ast.Call)]
    lists = [item.value for call in calls for item in call.keywords if item.arg == "stages"]
    return max((len(item.elts) for item in lists if isinstance(item, ast.List | ast.Tuple)), default=1)


def _observed(seen: Sequence[tuple[str, Outcome]]) -> Iterator[str]:
    """Yield lines for cells, those that agree in one: ``wrong (summed) with 2 ranks: 2.7.1, 2.8.0``."""
    places: dict[tuple[str, str, str], dict[int, list[str]]] = {}
    for place, cell in seen:
        key = (cell.status.value, cell.deviation, cell.message.partition("\n")[0])
        places.setdefault(key, {}).setdefault(cell.world_size, []).append(place)
    for (status, deviation, message), by_size in places.items():
        sizes: dict[tuple[str, ...], list[int]] = {}
        for size, found in sorted(by_size.items()):
            sizes.setdefault(tuple(dict.fromkeys(found)), []).append(size)
        for same, ranks in sizes.items():
            said = f"{status} ({deviation})" if deviation else status
            yield f"    {said} with {' and '.join(map(str, ranks))} ranks: {', '.join(same)}"
        yield from textwrap.wrap(
            _printable(message), _WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8
        )


def _printable(text: str) -> str:
    """Return a line in which every character shows: what would break or turn the line is written as its code."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)
