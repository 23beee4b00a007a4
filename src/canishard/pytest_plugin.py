"""The entry point of the pytest plugin: the checks, only where ``canishard.checks`` is asked for, and a marker.

``pytest --pyargs canishard.checks --backend gloo`` runs the checks on the torch that is installed. In every
other run of pytest this module makes one marker known, and nothing else of ours is loaded: no option, no hook that
does anything, unless a test has the marker.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

CHECKS = "canishard.checks"
MARKER = "canishard"
MARKER_LINE = (
    f"{MARKER}(needs, on_fail='skip', backend='gloo', device='cpu', world_size=None): skip the test, or with "
    "on_fail='xfail' expect it to fail, where canishard's table says that a need does not work on this torch"
)
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
    """Make the marker known; register what collects and runs the checks, where they are among the arguments."""
    config.addinivalue_line("markers", MARKER_LINE)
    if _is_asked_for(config.invocation_params.args):
        from canishard import session  # noqa: PLC0415 - nothing of ours is loaded in other runs

        session.register(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Do what the marker says with the tests that have it, once all others have chosen and marked theirs."""
    if any(item.get_closest_marker(MARKER) for item in items):
        from canishard.answers import marker  # noqa: PLC0415 - nothing of ours is loaded in other runs

        marker.apply(config, items)
