"""A tiny server on loopback that speaks the protocol of OpenAI: both endpoints, streams, log-probabilities, errors.

And models that ask it, in each of the ways to ask (`HOW`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """The answer of one sample, as the script wants it."""

    text: str
    reason: str | None = "stop"
    stop_reason: Any = None
    refusal: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)

    def message(self) -> dict[str, Any]:
        """Return the message of a chat endpoint."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for index, (name, arguments) in enumerate(self.calls)
            ]
        return message


class Refused(Exception):
    """An HTTP error instead of an answer."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        self.status = status
        self.param = param
        super().__init__(message)


class Verbatim(Exception):
    """Bytes to send with status 200 instead of an answer; of `absent` more bytes the header tells and none comes."""

    def __init__(self, data: bytes, kind: str = "application/json", absent: int = 0) -> None:
        self.data = data
        self.kind = kind
        self.absent = absent
        super().__init__(data)


@dataclass
class StandIn:
    """The script of the server, and the requests that it was sent.

    Attributes:
        answer: from a request and the number of the sample to what it answers; raises `Refused` for an HTTP error, and
            `Verbatim` for anything else.
        usage: what streams do about the counts of tokens that they are asked for: `"tell"` them, `"refuse"` to, take no
            notice (None), or `"hang"` where they should come.
        tells_ids: whether it tells ids of tokens, as vLLM does when it is asked.
        requests: the bodies that came in.
        refusal: the status with which it refuses them.
        gone: set when the block is left.
        pause: what a stream waits for after its first chunk.
    """

    answer: Callable[[dict[str, Any], int], Answer]
    tells_ids: bool = False
    usage: str | None = None
    knows_n: bool = True
    requests: list[dict[str, Any]] = field(default_factory=list)
    pause: threading.Event | None = None
    refusal: int = 400
    address: str = ""
    gone: threading.Event = field(default_factory=threading.Event)


def logprobs(text: str, body: dict[str, Any], chat: bool, ids: bool) -> Any:
    """Make one token of each character; its log-probability is minus a tenth of its code."""

    def name(character: str) -> str:
        return f"token_id:{ord(character)}" if ids else character

    def entry(character: str) -> dict[str, Any]:
        data = list(character.encode())
        return {"token": name(character), "logprob": -ord(character) / 10, "bytes": data}

    if body.get("logprobs") in (None, False):
        return None
    best = "\t\n !"[: body["top_logprobs"] if chat else body["logprobs"]]
    if chat:
        return {"content": [{**entry(c), "top_logprobs": [entry(b) for b in best]} for c in text]}
    return {
        "tokens": [name(c) for c in text],
        "token_logprobs": [-ord(c) / 10 for c in text],
        "top_logprobs": [{name(b): -ord(b) / 10 for b in best} for _ in text],
        "text_offset": list(range(len(text))),
    }


_MOST_CHOICES = 128


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    script: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.requests.append(body)
        chat = self.path.endswith("/chat/completions")
        try:
            count = body.get("n", 1) if self.script.knows_n else 1
            if count > _MOST_CHOICES:
                raise Refused(400, f"n is {count}; it is at most {_MOST_CHOICES}")
            if self.script.usage == "refuse" and "stream_options" in body:
                raise Refused(self.script.refusal, "unknown field")
            answers = [self.script.answer(body, index) for index in range(count)]
        except Refused as error:
            body = {"message": str(error), "type": "x", "param": error.param, "code": None}
            return self.reply(error.status, {"error": body})
        except Verbatim as sent:
            return self.send(200, sent.data, sent.kind, sent.absent)
        ids = self.script.tells_ids and body.get("return_tokens_as_token_ids", False)
        if body.get("stream"):
            return self.stream(answers, body, chat, ids)
        choices = []
        for index, answer in enumerate(answers):
            choice: dict[str, Any] = {"index": index, "finish_reason": answer.reason, "stop_reason": answer.stop_reason}
            choice["logprobs"] = logprobs(answer.text, body, chat, ids)
            if ids:
                choice["token_ids"] = [ord(c) for c in answer.text]
            if chat:
                choice["message"] = answer.message()
            else:
                choice["text"] = answer.text
            choices.append(choice)
        kind = "chat.completion" if chat else "text_completion"
        return self.reply(
            200, {"id": "1", "object": kind, "created": 0, "model": body["model"], "choices": choices[::-1]}
        )

    def reply(self, status: int, value: dict[str, Any]) -> None:
        self.send(status, json.dumps(value).encode(), "application/json")

    def send(self, status: int, data: bytes, kind: str, absent: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) + absent))
        if absent:
            self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has gone away
            self.wfile.write(data)

    def stream(self, answers: list[Answer], body: dict[str, Any], chat: bool, ids: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            ends = [max(len(answer.text), len(answer.refusal or "")) for answer in answers]
            for place in range(max(ends) + 1):
                for index, (answer, end) in enumerate(zip(answers, ends, strict=True)):
                    if place <= end and not (place == end and answer.reason is None):
                        self.chunk(index, answer, place, body, chat, ids)
                if self.script.pause is not None:
                    self.script.pause.wait(60)
            if body.get("stream_options", {}).get("include_usage") and self.script.usage == "tell":
                count = sum(len(answer.text) for answer in answers)
                usage = {"prompt_tokens": 7, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": 4}}
                kind = "chat.completion.chunk" if chat else "text_completion"
                last = {"id": "1", "object": kind, "created": 0, "model": body["model"], "choices": [], "usage": usage}
                self.wfile.write(b"data: " + json.dumps(last).encode() + b"\n\n")
            if self.script.usage == "hang":
                self.wfile.flush()
                self.script.gone.wait(60)
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # the client has gone away
        self.close_connection = True

    def chunk(self, index: int, answer: Answer, place: int, body: dict[str, Any], chat: bool, ids: bool) -> None:
        piece = answer.text[place : place + 1]
        choice: dict[str, Any] = {"index": index, "finish_reason": None, "logprobs": logprobs(piece, body, chat, ids)}
        if place == max(len(answer.text), len(answer.refusal or "")):
            choice.update(finish_reason=answer.reason, stop_reason=answer.stop_reason)
        more: dict[str, Any] = {} if answer.refusal is None else {"refusal": answer.refusal[place : place + 1]}
        is_last = place == max(len(answer.text), len(answer.refusal or ""))
        if answer.reasoning is not None and place == 0:
            more["reasoning_content"] = answer.reasoning
        if answer.calls and (place == 0 or is_last):  # names come first, and arguments last
            more["tool_calls"] = [
                {
                    "index": number,
                    "function": {"name": name if place == 0 else None, "arguments": arguments if is_last else ""},
                }
                for number, (name, arguments) in enumerate(answer.calls)
            ]
        choice.update({"delta": {"content": piece, **more}} if chat else {"text": piece})
        kind = "chat.completion.chunk" if chat else "text_completion"
        value = {"id": "1", "object": kind, "created": 0, "model": body["model"], "choices": [choice]}
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *arguments: Any) -> None:
        """Write nothing to the terminal."""


#: An answer that is read whole or as a stream, by a client that waits or one that is awaited.
HOW = ("whole", "streams", "awaited", "awaited streams")


def client_of(script: StandIn, *, is_async: bool = False, retries: int = 0, timeout: float = 20) -> Any:
    """Make a client of the openai package for the server."""
    import openai

    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    return kind(base_url=script.address, api_key="none", max_retries=retries, timeout=timeout)


def model_of(script: StandIn, *, is_async: bool = False, retries: int = 0, **options: Any) -> Any:
    """Make a model behind the server; `options` are those of `openai_model`."""
    from formatter_openai import openai_model

    return openai_model("small", client=client_of(script, is_async=is_async, retries=retries), **options)


def outputs_of(
    how: str, script: StandIn, prompts: Sequence[str], format: Any = None, *, scores: Any = None, **options: Any
) -> list[Any]:
    """Return the outputs of a call with these prompts, in their order; `options` are those of `openai_model`."""
    from formatter_core.generation import Finished, completion

    async def awaited() -> list[Any]:
        write = completion(model_of(script, is_async=True, **options), format, scores=scores)
        if how == "awaited":
            return list(await write(prompts))
        return [event async for event in write.stream(prompts)]

    if how.startswith("awaited"):
        found = asyncio.run(asyncio.wait_for(awaited(), 120))
    else:
        write = completion(model_of(script, **options), format, scores=scores)
        found = list(write(prompts) if how == "whole" else write.stream(prompts))
    if how.endswith("streams"):
        ended = sorted((event for event in found if isinstance(event, Finished)), key=lambda event: event.prompt)
        assert [event.prompt for event in ended] == list(range(len(prompts)))
        found = [event.output for event in ended]
    return found


@contextlib.contextmanager
def serving(script: StandIn) -> Iterator[StandIn]:
    """Run the server as long as the block runs; its address is in the script."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("ScriptedHandler", (Handler,), {"script": script}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    script.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield script
    finally:
        script.gone.set()
        server.shutdown()
        server.server_close()
        thread.join()
