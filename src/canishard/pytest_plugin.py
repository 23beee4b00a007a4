"""The entry point of the pytest plugin: options and hooks, only where ``canishard.checks`` is asked for.

``pytest --pyargs canishard.checks --backend gloo`` runs the checks on the torch that is installed. In every
other run of pytest this module adds nothing: no option, no hook, no import of what it needs itself.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

CHECKS = "canishard.checks"
CORES_A_WORKER = 4
"""A case has two or four ranks of one thread each: so many cores run one without waiting."""


def _is_asked_for(arguments: tuple[Any, ...]) -> bool:
    return any(str(argument).partition("::")[0].startswith(CHECKS) for argument in arguments)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, where the checks are among the arguments."""
    config: Any = pluginmanager.get_plugin("pytestconfig")
    if _is_asked_for(config.invocation_params.args):
        from canishard import session  # noqa: PLC0415 - nothing of ours is loaded in other runs

        session.add_options(parser.getgroup("canishard", "canishard: checks of torch.distributed"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Say how many cases run side by side with ``-n auto``; 0, which is one process, where cores are few."""
    if not _is_asked_for(config.invocation_params.args):
        return None
    workers = (os.cpu_count() or 1) // CORES_A_WORKER
    return workers if workers > 1 else 0


def pytest_configure(config: pytest.Config) -> None:
    """Register what collects and runs the checks, where they are among the arguments."""
    if _is_asked_for(config.invocation_params.args):
        from canishard import session  # noqa: PLC0415 - nothing of ours is loaded in other runs

        session.register(config)
