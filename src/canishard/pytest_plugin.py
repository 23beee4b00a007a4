"""The entry point of the pytest plugin: options and hooks, only where ``canishard.checks`` is asked for.

``pytest --pyargs canishard.checks --backend gloo`` runs the checks on the torch that is installed. In every
other run of pytest this module adds nothing: no option, no hook, no import of what it needs itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

CHECKS = "canishard.checks"


def _is_asked_for(arguments: tuple[Any, ...]) -> bool:
    return any(str(argument).partition("::")[0].startswith(CHECKS) for argument in arguments)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, where the checks are among the arguments."""
    config: Any = pluginmanager.get_plugin("pytestconfig")
    if _is_asked_for(config.invocation_params.args):
        from canishard import session  # noqa: PLC0415 - nothing of ours is loaded in other runs

        session.add_options(parser.getgroup("canishard", "canishard: checks of torch.distributed"))


def pytest_configure(config: pytest.Config) -> None:
    """Register what collects and runs the checks, where they are among the arguments."""
    if _is_asked_for(config.invocation_params.args):
        from canishard import session  # noqa: PLC0415 - nothing of ours is loaded in other runs

        session.register(config)
