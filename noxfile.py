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
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from canishard import campaign, install, releases  # noqa: E402 (the path above finds it)
from canishard import repeat as repeats  # noqa: E402
from canishard.errors import CanishardError  # noqa: E402

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

try:
    ROWS = releases.load()
    # A wheel or a pre-release is a row for this run only.
    RELEASES = {release.version: release for release in [*ROWS, *campaign.extra_releases(ROWS, os.environ)]}
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


@nox.session(default=False)
@nox.parametrize(
    ("python", "version"),
    [
        nox.param(
            release.python, release.version, id=release.version, tags=["ci-checks"] if release.ci else []
        )
        for release in RELEASES.values()
    ],
)
def checks(session: nox.Session, version: str) -> None:
    """Measure one release; what follows `--` goes to pytest, such as -k, --case, --backend or --fresh."""
    release = RELEASES[version]
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
    add(session, "-e", ".")
    code = campaign.main(session.posargs, ROOT)
    if code not in campaign.NOTHING_TO_REPORT:
        call(session, "-m", "canishard", "report")
    if code:
        raise SystemExit(code)


@nox.session(default=False, venv_backend="none")
def repeat(session: nox.Session) -> None:
    """Measure one release N times and compare: `-- -n 10 --torch VERSION`, `--start-methods fork,spawn`."""
    if code := repeats.main(session.posargs, ROOT):
        raise SystemExit(code)


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Write reports/ from matrix/results/; `-- --check` only compares and fails where they are stale."""
    add(session, "-e", ".")
    call(session, "-m", "canishard", "report", *session.posargs)


@nox.session(python=CI.python)
def tests(session: nox.Session) -> None:
    """Run the tests, on the torch of the row marked `ci`."""
    add(session, "-e", ".[checks]", group="tests", release=CI)
    call(session, "-m", "pytest", *session.posargs)


@nox.session(python=CI.python, default=False)
def bench(session: nox.Session) -> None:
    """Measure the launcher beside other harnesses, on the torch of the row marked `ci`; writes a report."""
    add(session, "-e", ".[checks]", group="bench", release=CI)
    call(session, "-m", "benchmarks", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and types."""
    add(session, "-e", ".", group="lint")
    for arguments in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        call(session, "-m", *arguments)


if __name__ == "__main__":
    nox.main()
