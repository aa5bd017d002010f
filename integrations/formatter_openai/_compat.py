"""What the adapter needs of the openai package; no other module looks at it."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from formatter_core.errors import UnsupportedEngineVersion

try:
    from openai import APIError, BadRequestError, OpenAI
except ImportError as error:
    raise UnsupportedEngineVersion(
        "openai", found="(too old, or absent)", needed=">= 1.40", missing="OpenAI"
    ) from error

__all__ = ["APIError", "BadRequestError", "OpenAI", "cut_off"]


def cut_off(stream: Any) -> None:
    """End a stream that another thread reads, even while it waits for the server.

    Closing the connection would not wake a thread that is reading from it; its socket, which the client's HTTP library
    shows as an extension, can be shut down. Without that the thread waits for the client's time-out.
    """
    network = getattr(getattr(stream, "response", None), "extensions", {}).get("network_stream")
    found = None if network is None else network.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):  # it is closed already
            found.shutdown(socket.SHUT_RDWR)
