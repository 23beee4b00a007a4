"""Our checks under pytest, in this process: what ``canishard run`` and ``canishard doctor`` call."""

from __future__ import annotations

from collections.abc import Sequence

from canishard.errors import ConfigurationError

# The command line has loaded canishard before pytest could rewrite its asserts, which it says; a project whose settings
# make warnings errors would end there.
_QUIET = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")


def run(arguments: Sequence[str]) -> int:
    """Run the checks with pytest's arguments; return its exit code."""
    try:
        import pytest  # noqa: PLC0415 - an extra: reading records needs none of it
    except ImportError:
        msg = "pytest is not installed; install canishard[checks] to run checks"
        raise ConfigurationError(msg) from None
    return int(pytest.main(["--pyargs", "canishard.checks", *_QUIET, *arguments]))
