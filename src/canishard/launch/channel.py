"""One JSON document a line over a socket: how parent, server and ranks talk.

Standard library only. Texts are cut before they are sent, so that a message of any size cannot fill a pipe.
"""

from __future__ import annotations

import json
import math
import socket
from typing import Any

MAX_TEXT = 20_000
"""Characters that a text keeps: half from its head, half from its tail."""

Message = dict[str, Any]


def cut(text: str) -> str:
    """Shorten a text to ``MAX_TEXT`` characters, saying in the middle how much is left out."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def plain(value: Any) -> Any:  # noqa: PLR0911 - a return a type
    """Return what JSON can hold of any value: NaN and infinities as text, unknown objects by their repr."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else repr(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, str):
        return cut(value.encode("utf-8", "backslashreplace").decode("utf-8"))
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    try:
        return cut(repr(value))
    except Exception as error:  # noqa: BLE001 - a repr of a stranger's object may raise anything
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


class Channel:
    """A connected stream socket that carries messages; reading keeps the incomplete last line."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._buffer = b""

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self.socket.fileno()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send one message; descriptors travel with its first byte. Raises OSError when the peer is gone."""
        data = json.dumps(plain(message)).encode() + b"\n"
        if fds:
            sent = socket.send_fds(self.socket, [data], list(fds))
            data = data[sent:]
        self.socket.sendall(data)

    def receive(self) -> list[Message] | None:
        """Return the complete messages of one read, or None when the peer has closed."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            return None
        return self._messages(data) if data else None

    def receive_fds(self, most: int) -> tuple[list[Message] | None, list[int]]:
        """Like ``receive``, with the descriptors that came along."""
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, most)
        except ConnectionError:
            return None, []
        return (self._messages(data) if data else None), list(fds)

    def _messages(self, data: bytes) -> list[Message]:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
