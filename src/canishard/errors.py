"""What can go wrong in canishard itself, one class a way to fail; imports nothing of canishard.

A message is one line: what, where, and what is allowed or to be done. ``exit_code`` is what the command
line and the pytest plugin exit with; the codes are listed in the README and are unique (tested). pytest
itself uses 0 to 5, of which 2 (interrupted, usage) and 5 (nothing collected) mean the same here.
"""

from __future__ import annotations

from typing import ClassVar


class CanishardError(Exception):
    """The base of them all."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(CanishardError):
    """An option, an argument or one of our own data files is wrong, or the two do not fit together."""

    exit_code = 2


class NothingSelectedError(CanishardError):
    """The selection leaves no case, or no release."""

    exit_code = 5


class ChangedError(CanishardError):
    """All was measured, and one cell or more differs from the baseline."""

    exit_code = 10


class InfraError(CanishardError):
    """We or the machine are at fault: install, import of torch, the wrong torch, no memory, the canary."""

    exit_code = 11


class RecordError(CanishardError):
    """A record, or its evidence, cannot be read or says something that no record may say."""

    exit_code = 12


class StaleReportError(CanishardError):
    """A generated file is not what the records give."""

    exit_code = 13


class DiskSpaceError(CanishardError):
    """There is not enough room on the disk for what was asked for."""

    exit_code = 14
