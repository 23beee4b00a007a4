"""The server's memory in huge pages, so that forking from it is cheap. Child side; standard library only.

A fork copies a page table entry for each 4 KiB of what torch's loading left, some 50 000, and the rank's end
takes them apart again. For a huge page of 2 MiB it is one, until somebody writes to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

_MADV_COLLAPSE = 25
_HUGE = 2 << 20


def collapse() -> None:
    """Ask the kernel to put our private memory into huge pages; where it cannot (before Linux 6.1), nothing changes."""
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with contextlib.suppress(OSError):
        for first, last in _private(Path("/proc/self/maps").read_text()):
            for address in range(-(-first // _HUGE) * _HUGE, last - _HUGE + 1, _HUGE):
                madvise(address, _HUGE, _MADV_COLLAPSE)


def _private(maps: str) -> Iterator[tuple[int, int]]:
    """Yield the addresses of what is written to and is no file's: the heap, and Python's own arenas."""
    for line in maps.splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            first, _, last = addresses.partition("-")
            yield int(first, 16), int(last, 16)
