"""Convert a chat answer to OpenAI's API: as a message, and its events as the deltas of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, get_args
from uuid import uuid4

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.layouts import ChatAnswer
from formatter_core.runtime.result import Event, HoleOpened, Retracted, TextAdded, ValueCompleted

__all__ = ["ChatDeltas", "answer_so_far", "chat_message", "new_call_id"]

_TEXTS = {"reasoning": "reasoning_content", "content": "content"}


def new_call_id() -> str:
    """Return a unique id for a tool call: clients match the results of calls by these ids."""
    return f"call_{uuid4().hex}"


def chat_message(answer: ChatAnswer) -> dict[str, Any]:
    """Return the assistant's message for this answer; each call gets a new id."""
    content = answer.content
    text = content if content is None or isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if answer.reasoning is not None:
        message[_TEXTS["reasoning"]] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": new_call_id(),
                "type": "function",
                "function": {"name": call.name, "arguments": call.json or json.dumps(call.arguments)},
            }
            for call in answer.tool_calls
        ]
    return message


def answer_so_far(events: Iterable[Event]) -> ChatAnswer:
    """Return the certain parts of a turn that was cut: its texts so far, and the calls that are complete.

    Args:
        events: all events of the turn's formatter.
    """
    given = list(events)
    deltas = ChatDeltas().of(given)
    reasoning, content = ("".join(delta.get(key, "") for delta in deltas) or None for key in _TEXTS.values())
    calls = [each.value for each in given if isinstance(each, ValueCompleted) and each.name == "tool_call"]
    return ChatAnswer(reasoning, content, tuple(calls))


class ChatDeltas:
    """A converter of one chat answer's events, from `Formatter.events()`, to deltas.

    If a layout writes the arguments as JSON, they are sent piece by piece, as they are written; if it writes them one
    by one, they are sent as JSON when the call is complete.
    """

    def __init__(self) -> None:
        self._index = -1
        self._sent = False
        self._thought, self._gap = False, ""

    def of(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Return the new deltas, each the `delta` of one chunk.

        Raises:
            InvalidArgument: the text was taken back (`Retracted`), but deltas that were sent cannot be; or an item is
                not an event.
        """
        return [delta for event in elements_of(events, "events", "what events() gave") for delta in self._deltas(event)]

    def _deltas(self, event: Event) -> Iterable[dict[str, Any]]:
        if not isinstance(event, get_args(Event)):
            raise InvalidArgument(f"{shown(event)} is not an event; give what events() returned", argument="events")
        if isinstance(event, Retracted):
            raise InvalidArgument("events were taken back, and deltas cannot be; stream without rollback")
        if isinstance(event, HoleOpened) and event.name == "reasoning":
            self._gap = "\n" if self._thought else ""  # `ChatAnswer.reasoning` joins several thoughts the same way
        elif isinstance(event, TextAdded) and event.name == "reasoning" and event.text:
            yield {_TEXTS[event.name]: self._gap + event.text}
            self._thought, self._gap = True, ""
        elif isinstance(event, TextAdded) and event.name in _TEXTS:
            yield {_TEXTS[event.name]: event.text}
        elif isinstance(event, HoleOpened) and event.name == "tool_call":
            self._index, self._sent = self._index + 1, False
        elif isinstance(event, ValueCompleted) and event.name == "tool_name":
            function = {"name": event.value, "arguments": ""}
            yield self._call({"id": new_call_id(), "type": "function", "function": function})
        elif isinstance(event, TextAdded) and event.name == "tool_arguments":
            self._sent = True
            yield self._call({"function": {"arguments": event.text}})
        elif isinstance(event, ValueCompleted) and event.name == "tool_call" and not self._sent:
            yield self._call({"function": {"arguments": event.value.json}})

    def _call(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"tool_calls": [{"index": self._index, **fields}]}
