"""A server of OpenAI's protocol in a process of its own, for as many streams as a test opens: `python -m` this module.

It writes its port. Each answer is `ANSWER`, in pieces if it is streamed; none ends before as many are open as the first
argument says. `GET /` tells how many there were, how many were open at a time, and how many broke off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ANSWER = '{"name": "Ada Lovelace, the first programmer", "age": 36}'
ROOT = Path(__file__).resolve().parents[2]


class Server:
    """The server; `wanted` streams have to be open before one of them ends, `pause` is the time between two chunks."""

    def __init__(self, wanted: int, pause: float) -> None:
        self.wanted = wanted
        self.pause = pause
        self.open = self.most = self.broken = self.seen = 0
        self.enough = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which may bring several requests."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if head.startswith("GET"):
                    told = json.dumps({"most": self.most, "broken": self.broken, "seen": self.seen}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
                    continue
                length = next(line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-l"))
                body = json.loads(await reader.readexactly(int(length)))
                await self.answer(writer, streams=bool(body.get("stream")))
        writer.close()

    async def answer(self, writer: asyncio.StreamWriter, *, streams: bool) -> None:
        """Send one answer, whole or in chunks of three characters."""
        self.open, self.seen = self.open + 1, self.seen + 1
        self.most = max(self.most, self.open)
        if self.open >= self.wanted:
            self.enough.set()
        try:
            if not streams:
                await self.enough.wait()
                whole = json.dumps(self.chunk({"message": {"role": "assistant", "content": ANSWER}}, "stop")).encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % len(whole) + whole)
                return
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head)
            for start in range(0, len(ANSWER), 3):
                self.send(writer, self.chunk({"delta": {"content": ANSWER[start : start + 3]}}, None))
                await writer.drain()
                if start:
                    await self.enough.wait()
                await asyncio.sleep(self.pause)
            self.send(writer, self.chunk({"delta": {}}, "stop"))
            self.send(writer, "[DONE]")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            self.broken += 1
            raise
        finally:
            self.open -= 1

    def chunk(self, choice: dict[str, object], reason: str | None) -> dict[str, object]:
        """Make an answer, or a chunk of one."""
        kind = "chat.completion" if "message" in choice else "chat.completion.chunk"
        choices = [{"index": 0, "finish_reason": reason, **choice}]
        return {"id": "1", "object": kind, "created": 0, "model": "small", "choices": choices}

    def send(self, writer: asyncio.StreamWriter, value: object) -> None:
        """Send one server-sent event."""
        data = b"data: %s\n\n" % (value if isinstance(value, str) else json.dumps(value)).encode()
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def main(wanted: int, pause: float) -> None:
    """Serve until the process is ended."""
    server = await asyncio.start_server(Server(wanted, pause).handle, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


@dataclass
class Running:
    """A server that runs."""

    address: str

    def told(self) -> dict[str, int]:
        """Ask the server for its counts of streams."""
        from urllib.request import urlopen

        with urlopen(self.address.removesuffix("/v1") + "/") as answer:
            found: dict[str, int] = json.load(answer)
        return found


@contextlib.contextmanager
def streaming(wanted: int = 1, pause: float = 0.0) -> Iterator[Running]:
    """Run the server in a process of its own, as long as the block runs."""
    command = [sys.executable, "-m", "tests.adapters.stream_server", str(wanted), str(pause)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Running(f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
