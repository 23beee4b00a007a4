"""Measures the selected releases one after the other: what ``nox -s matrix`` does.

Each release is a ``nox -s checks(VERSION)`` of its own process, whose pytest plugin leaves a summary; a release
that fails to install is a column of its own kind, and the others go on. Runs in nox's own process, so it
imports no torch.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canishard import releases
from canishard.errors import CanishardError, ConfigurationError, DiskSpaceError, NothingSelectedError
from canishard.launch.outcome import Status
from canishard.record import unmeasured
from canishard.releases import Release
from canishard.walk import install
from canishard.walk.child import run_child
from canishard.walk.measure import Runner
from canishard.walk.runs import Run, describe, exit_code, read_run, totals
from canishard.walk.stamps import Asked, Seconds, Stamps

INTERRUPTED = 130
NOTHING_TO_REPORT = frozenset(
    {ConfigurationError.exit_code, NothingSelectedError.exit_code, DiskSpaceError.exit_code, INTERRUPTED}
)
"""Exit codes of ``main`` after which the report is as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the user asked for."""

    torch: tuple[str, ...] = ()
    all_patches: bool = False
    keep: bool | None = None
    fresh: bool = False
    pytest: tuple[str, ...] = ()
    """What each release's pytest is handed; ``--fresh`` is not among it."""


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; argparse exits with 2 where it is wrong."""
    own, _, rest = _split(list(arguments), "--")
    parser = argparse.ArgumentParser(
        prog="nox -s matrix --",
        description="Measure torch releases, then write the report.",
        epilog="What follows a second -- goes to pytest as it is.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--torch", action="append", default=[], metavar="WHAT",
        help="a release, a specifier such as '>=2' (newest patch of each minor), a pre-release, a wheel's path, "
        "or `installed`; may be repeated (default: the newest patch of each minor)")  # fmt: skip
    add("--all-patches", action="store_true", help="take every patch release")
    disk = parser.add_mutually_exclusive_group()
    disk.add_argument("--keep-envs", action="store_true", help="keep each environment after its run")
    disk.add_argument(
        "--drop-envs", action="store_true", help="remove each environment and its cache after its run"
    )
    add("--fresh", action="store_true", help="measure again what this machine has measured already")
    add(
        "--reuse-committed",
        action="store_true",
        help="take the committed records' cells where nothing changed",
    )
    add("--backend", default="gloo", help="as torch takes it (default: gloo)")
    add("--backend-module", metavar="PACKAGE", help="a package to import that registers the backend")
    add("--device", default="cpu", help="a device type (default: cpu)")
    add("-k", metavar="EXPRESSION", help="pytest's -k")
    add("--case", action="append", default=[], metavar="ID", help="an exact id or a glob; may be repeated")
    add("--world-size", action="append", default=[], metavar="N", help="may be repeated")
    said = parser.parse_args(own)
    return Options(
        torch=tuple(said.torch),
        all_patches=said.all_patches,
        keep=True if said.keep_envs else False if said.drop_envs else None,
        fresh=said.fresh,
        pytest=(*_for_pytest(said), *rest),
    )


def _split(items: list[str], separator: str) -> tuple[list[str], bool, list[str]]:
    if separator not in items:
        return items, False, []
    place = items.index(separator)
    return items[:place], True, items[place + 1 :]


def _for_pytest(said: argparse.Namespace) -> list[str]:
    """Return the options that each release's pytest is handed, as one word each."""
    passed = [f"--backend={said.backend}", f"--device={said.device}"]
    if said.backend_module:
        passed.append(f"--backend-module={said.backend_module}")
    if said.reuse_committed:
        passed.append("--reuse-committed")
    if said.k is not None:
        passed.append(f"-k{said.k}")
    passed += [f"--case={case}" for case in said.case]
    return passed + [f"--world-size={size}" for size in said.world_size]


def extra_releases(rows: Sequence[Release], environ: Mapping[str, str]) -> list[Release]:
    """Return the torch that the environment names beside the rows, if any."""
    said = environ.get(install.TORCH_VARIABLE)
    return [release for release in releases.select(rows, [said]) if not release.stable] if said else []


def pytest_arguments(release: Release, arguments: Sequence[str]) -> list[str]:
    """Return what Python is called with to measure a release; later arguments win over ours."""
    asked = [] if release.version == releases.INSTALLED else ["--release", release.version]
    # Only a row's record can become a baseline; others stay out of what is committed.
    record = "matrix/results" if release.stable else ".canishard/results"
    options = ["-n", "auto", *asked, "--record", record]
    return ["-m", "pytest", "--pyargs", "canishard.checks", *options, *arguments]


def main(arguments: Sequence[str], root: Path, runner: Runner = run_child) -> int:
    """Measure, print what came of it, and return the exit code."""
    try:
        return Campaign(parse(arguments), root, runner).run()
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code


class Campaign:
    """One walk over the selected releases."""

    def __init__(self, options: Options, root: Path, runner: Runner) -> None:
        """Select the releases and look at the disk; nothing is installed yet."""
        self.options = options
        self.root = root
        self.runner = runner
        self.envs = Path(os.environ.get("NOX_ENVDIR") or root / ".nox").absolute()
        selected = releases.select(releases.load(), options.torch, all_patches=options.all_patches)
        self.releases = releases.on_each_python(selected)
        self.index = install.choose_index(os.environ)
        environ = {**os.environ, install.INDEX_VARIABLE: self.index}
        self.stamps = Stamps(root, Asked(root, options.pytest, environ))
        summaries = {r.session: {} if options.fresh else self.stamps.summary(r) for r in self.releases}
        self.known = {version: summary for version, summary in summaries.items() if summary}
        self.seconds = Seconds(root)
        self.runs: list[Run] = []

    def run(self) -> int:
        """Walk the releases; a Ctrl-C ends the walk, and what was measured stays."""
        for left_by_a_killed_run in self.envs.glob("once-*"):
            shutil.rmtree(left_by_a_killed_run, ignore_errors=True)
        drop = self._plan_disk()
        try:
            for release in self.releases:
                print(f"\n{self._header(release)}", flush=True)
                self.runs.append(self._run_one(release, drop=drop))
        except KeyboardInterrupt:
            print(
                f"\nStopped in release {len(self.runs) + 1} of {len(self.releases)}; what was measured is kept."
            )
            return INTERRUPTED
        finally:
            if self.runs:
                print(describe(self.runs))
        return exit_code(self.runs)

    def _plan_disk(self) -> bool:
        """Say how much room is needed, and decide whether environments are dropped."""
        new = [r for r in self.releases if r.session not in self.known and not self._kept(r).exists()]
        if not new:
            return False
        where = "the default index" if self.index == install.DEFAULT_INDEX else self.index
        needs = [install.need_bytes(release, self.index, os.environ) for release in new]
        plan = install.plan_disk(needs, shutil.disk_usage(self.root).free, keep=self.options.keep)
        print(f"{len(new)} of {len(self.releases)} releases to install, torch from {where}; {plan.why}")
        return plan.drop

    def _kept(self, release: Release) -> Path:
        """Return the environment that a kept release has; nox makes its name so from the session's."""
        return self.envs / f"checks-{re.sub(r'[^a-z0-9]+', '-', release.session.lower())}"

    def _header(self, release: Release) -> str:
        """Return where the walk is: position, totals so far, time left."""
        position = f"release {len(self.runs) + 1} of {len(self.releases)} · {release.session}"
        if release.session in self.known:
            return f"{position} · nothing changed since this machine measured it: not measured again (--fresh does)"
        counts = totals(self.runs)
        cases, passed = sum(counts.values()), counts[Status.PASS.value]
        so_far = [f"so far {cases} cells, {cases - passed} of them no pass"] if cases else []
        return " · ".join([position, "installing, then checking", *so_far, *self._time_left()])

    def _time_left(self) -> list[str]:
        """Estimate from this machine's earlier runs, else from this run's mean; nothing where there is neither."""
        measured = [run.install_s + run.check_s for run in self.runs if run.summary and not run.unchanged]
        mean = sum(measured) / len(measured) if measured else None
        left = [r.session for r in self.releases[len(self.runs) :] if r.session not in self.known]
        estimates = [self.seconds.known.get(version, mean) for version in left]
        known = [seconds for seconds in estimates if seconds is not None]
        return [f"about {max(1, round(sum(known) / 60))} min left"] if len(known) == len(left) else []

    def _run_one(self, release: Release, *, drop: bool) -> Run:
        """Measure a release, or take what is known of it."""
        if release.session in self.known:
            return Run.from_known(release.session, self.known[release.session])
        summary, log = self._file("summaries", release, "json"), self._file("logs", release, "log")
        once = self.envs / f"once-{release.session}" if drop and not self._kept(release).exists() else None
        started = time.monotonic()
        try:
            code = self.runner(self._command(release, summary, once), self._environment(release, once), log)
        finally:
            self._clean(release, once, log)
        if code == NothingSelectedError.exit_code:
            msg = f"no case fits {' '.join(self.options.pytest)}"
            raise NothingSelectedError(msg)
        run = read_run(release.session, summary, log, code, time.monotonic() - started)
        self.seconds.keep(release.session, run.install_s + run.check_s)
        if release.stable:
            matrix = self.root / "matrix"
            unmeasured.keep(matrix, release.version, release.python, self.options.pytest, run.infra)
        if run.infra:
            self.stamps.forget(release)
        else:
            self.stamps.keep(release, run.summary)
        return run

    def _file(self, folder: str, release: Release, suffix: str) -> Path:
        """Return the path of a file that the run is to write; an earlier run's is removed."""
        path = self.root / ".canishard" / folder / f"{release.session}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path

    def _command(self, release: Release, summary: Path, once: Path | None) -> list[str]:
        installed = release.version == releases.INSTALLED
        session = "installed" if installed else f"checks({release.session})"
        files = ["--noxfile", str(self.root / "noxfile.py"), "--envdir", str(once or self.envs)]
        fresh = ["--fresh"] if self.options.fresh else []
        return [
            sys.executable,
            "-m",
            "nox",
            *files,
            "-s",
            session,
            "--",
            "--summary",
            str(summary),
            *fresh,
            *self.options.pytest,
        ]

    def _environment(self, release: Release, once: Path | None) -> dict[str, str]:
        """Return what the nox inside runs with; ``once`` holds an environment and cache that are removed."""
        environ = {**os.environ, install.INDEX_VARIABLE: self.index}
        if not release.stable:
            environ[install.TORCH_VARIABLE] = str(release.wheel or release.version)
        if once:
            # Beside the environment, so that hard links work, and gone with it: dropping an environment alone
            # frees nothing while the cache holds the same files.
            environ |= {"UV_CACHE_DIR": str(once / "uv-cache"), "PIP_NO_CACHE_DIR": "1"}
        return environ

    def _clean(self, release: Release, once: Path | None, log: Path) -> None:
        """Remove what is not kept: a dropped environment, and one whose installation did not finish."""
        if once:
            shutil.rmtree(once, ignore_errors=True)
        output = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if self.options.keep is False or "-m pytest --pyargs" not in output:
            shutil.rmtree(self._kept(release), ignore_errors=True)
