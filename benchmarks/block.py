"""Some cases of one body under one harness, in a process of its own: ``python -m benchmarks.block``.

Nothing heavy is imported at the top: the processes that multiprocessing spawns import this module again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path


def main() -> None:
    """Run as many cases as asked; write the seconds of each to a file as JSON."""
    from benchmarks import bodies, harnesses  # noqa: PLC0415 - see above
    from canishard.launch import processes  # noqa: PLC0415 - see above

    processes.die_with_parent(os.getppid())
    harness_name, body, count, result = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    directory = Path(os.environ[bodies.DIRECTORY])
    cases = []
    with harnesses.enter(harness_name, body) as harness:
        for _ in range(count):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            began = time.perf_counter()
            seconds = harness.case(directory)
            took = time.perf_counter() - began
            assert len(seconds) == harnesses.WORLD_SIZE
            cases.append({"took": took, "body": max(seconds), "spent": harness.spent()})
    result.write_text(json.dumps(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
