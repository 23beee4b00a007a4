"""Measure every harness in interleaved rounds, then write the report: ``nox -s bench``. Never imports torch."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks import bodies, pages, release, report
from benchmarks.harnesses import ENTRIES

ROOT = Path(__file__).parents[1]
RAW = ROOT / ".canishard" / "benchmarks.json"
PAGE = ROOT / "reports" / "BENCHMARKS.md"
BLOCK_S = 1800.0


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds that count")
    parser.add_argument(
        "--cases",
        type=int,
        default=report.CASES,
        metavar="N",
        help="cases a round of harnesses that are fast",
    )
    parser.add_argument(
        "--slow-cases", type=int, default=2, metavar="N", help="cases a round of harnesses that start interpreters"
    )  # fmt: skip
    parser.add_argument("--harness", choices=ENTRIES, action="append", help="only these: measured, no report")
    parser.add_argument(
        "--body", choices=bodies.NAMES, action="append", help="only these: measured, no report"
    )
    parser.add_argument(
        "--site", action="store_true", help="measure rendering the site alone, beside what was measured last"
    )
    parser.add_argument(
        "--release",
        action="store_true",
        help="measure what a release costs alone; the rest of the page stays as it is",
    )
    parser.add_argument("--render", action="store_true", help="write the report from what was measured last")
    return parser.parse_args(arguments)


def environment(body: str, directory: Path) -> dict[str, str]:
    """Return what all harnesses run in: bytecode is written, a rank has one thread, gloo stays on this machine."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return {
        **kept,
        **threads,
        **loopback,
        "PYTHONPATH": path,
        bodies.BODY: body,
        bodies.DIRECTORY: str(directory / "case"),
    }


def measure(number: int, harness: str, body: str, count: int) -> report.Block:
    """Run one block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        directory, result = Path(folder), Path(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.block", harness, body, str(count), str(result)]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(body, directory),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=BLOCK_S,
        )
        total = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{harness}, {body}: {done.stdout}{done.stderr}")
        cases = json.loads(result.read_text(encoding="utf-8"))
    return report.Block(
        round=number,
        harness=harness,
        body=body,
        total_s=total,
        cases_s=[case["took"] for case in cases],
        bodies_s=[case["body"] for case in cases],
        spent_s=[case["spent"] for case in cases],
    )


def blocks(said: argparse.Namespace) -> Iterator[report.Block]:
    """Yield the blocks of all rounds that count; harnesses take turns, and round 0 only warms."""
    for number in range(said.rounds + 1):
        for body in said.body or bodies.NAMES:
            for harness in said.harness or ENTRIES:
                count = 1 if number == 0 else said.slow_cases if ENTRIES[harness].is_slow else said.cases
                block = measure(number, harness, body, count)
                print(
                    f"round {number}: {body}, {harness}: {block.case_s:.3f} s a case, of that {block.overhead_s:.3f} s "
                    f"beside the body; {block.total_s:.1f} s in all",
                    flush=True,
                )
                if number:
                    yield block


def main() -> None:
    """Measure, keep what was measured, write the report where nothing was left out."""
    said = options()
    if said.site:
        last = msgspec.json.decode(RAW.read_bytes(), type=report.Run)
        RAW.write_bytes(msgspec.json.encode(msgspec.structs.replace(last, site_s=pages.measure(said.rounds))))
    elif said.release:
        # The page holds all that is said of it, so that it needs no measurement of what stands beside it.
        section = report.of_a_release(release.measure(said.rounds))
        PAGE.write_text(report.with_section(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
        print(PAGE.relative_to(ROOT))
        return
    elif not said.render:
        run = report.Run(
            torch=importlib.metadata.version("torch").partition("+")[0],
            python=platform.python_version(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
            blocks=list(blocks(said)),
            site_s={} if said.harness or said.body else pages.measure(said.rounds),
            releases=[] if said.harness or said.body else release.measure(said.rounds),
        )
        if said.harness or said.body:
            return
        RAW.parent.mkdir(exist_ok=True)
        RAW.write_bytes(msgspec.json.encode(run))
    PAGE.write_text(report.render(msgspec.json.decode(RAW.read_bytes(), type=report.Run)), encoding="utf-8")
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
