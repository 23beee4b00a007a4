"""The page of the method: how a status is decided, what a cell is and is not, and the exact builds measured."""

from __future__ import annotations

from canishard.launch.outcome import GRAVE, Status
from canishard.report.site.base import Site, render
from canishard.report.site.cells import places

DECIDED = {
    Status.PASS: (
        "Every rank reported, and every value that the check looked at agrees with the oracle, within a tolerance "
        "that depends on the dtype alone. A pass under an older name of a function keeps the name that was used."
    ),
    Status.WRONG: (
        "Every rank finished without an error, and on at least one a value differs: nobody is told. The cell has "
        "what was got and what was wanted, and the deviation: the name of the known wrong value that it equals, "
        "such as the sum where the average was asked for."
    ),
    Status.ERROR: (
        "A rank raised. The text is the lowest failing rank's; every rank's traceback is evidence. A refusal on "
        "some ranks only is an error."
    ),
    Status.UNSUPPORTED: (
        "A clear refusal, raised on every rank before data moved: NotImplementedError, or a wording that is on "
        "the list of refusals, matrix/refusals.toml. Any other wording is an error until it is on the list."
    ),
    Status.MISSING: (
        "The name, or the argument, does not exist in this release. Other names under which it is or was known "
        "were tried first; the cell says which."
    ),
    Status.HANG: ("The deadline passed and no rank had failed before. The stacks of all ranks are evidence."),
    Status.CRASH: (
        "A rank died by a signal that was not sent to it by the launcher, or left with an unexpected exit code or "
        "without a report. What goes wrong after a right result, while ranks leave, is a note and not a crash."
    ),
    Status.FLAKY: "Attempts in fresh processes did not end alike. The cell has how often each status was seen.",
    Status.NOT_RUN: (
        "The machine that measured could not run it: no such device, too few devices, a backend that is not "
        "built, a package that is not installed. It says nothing about torch."
    ),
    Status.INFRA: (
        "The harness or the machine was at fault: an install, an import, memory, the disk. Such an outcome never "
        "enters a record, so no table shows it."
    ),
    Status.UNKNOWN: "Not in the record. It is shown as such, and is neither a pass nor a failure.",
}
"""How each status is decided."""


def pages(site: Site) -> dict[str, bytes]:
    """Return the page."""
    page = render(
        "method.html",
        "method.html",
        site=site,
        title="How this is measured",
        decided=DECIDED,
        grave=[status for status in Status if status in GRAVE],
        places=places(site),
    )
    return {"method.html": page}
