"""Which memory the server asks to have in huge pages."""

from __future__ import annotations

from canishard.launch import memory

MAPS = """\
00400000-00401000 r-xp 00000000 fe:00 12 /usr/bin/python
00600000-00700000 rw-p 00001000 fe:00 12 /usr/bin/python
01000000-05000000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0\x20
7f0000400000-7f0000500000 ---p 00000000 00:00 0
7f0000500000-7f0000600000 rw-s 00000000 00:01 7 /dev/shm/a file
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
"""


def test_what_is_private_and_no_files() -> None:
    assert list(memory._private(MAPS)) == [(0x01000000, 0x05000000), (0x7F0000000000, 0x7F0000400000)]


def test_asking_the_kernel_changes_nothing_that_can_be_seen() -> None:
    kept = bytearray(b"kept" * (1 << 21))

    memory.collapse()

    assert kept == b"kept" * (1 << 21)
