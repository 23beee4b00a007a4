"""What all tests share: signals as a terminal has them, and one browser, beside which Playwright allows no second."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this file in runs of the checks too, where there is no Playwright.
    from playwright.sync_api import Browser

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Let SIGINT end what the tests start: a shell has its background jobs ignore it, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CANISHARD_REQUIRE_BROWSER"):
            pytest.fail("CANISHARD_REQUIRE_BROWSER is set, and there is no `chromium` on PATH")
        pytest.skip("needs a browser: no `chromium` on PATH (apt-get install chromium)")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - see above

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield found
        found.close()
