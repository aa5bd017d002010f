"""Turn a prompt into token ids or text: text, ids, a conversation, an earlier output, or an output with more text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeGuard, cast

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, utf8
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.generation.models import LogitsModel
from formatter_core.generation.results import Generated, Prompt, formatter_in
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "Beginning",
    "Dialogue",
    "OnePrompt",
    "Prompts",
    "as_list",
    "as_messages",
    "as_text",
    "beginning",
    "continuation_tokens",
    "in_shape",
]

#: One prompt: text, token ids (a list, an array or tensor, the output of a tokenizer), the messages of a conversation,
#: an earlier output, or an output and text (`output + "more"`).
OnePrompt: TypeAlias = "str | Sequence[int] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Generated | Prompt"

#: One prompt, or a list of them.
Prompts: TypeAlias = "OnePrompt | list[OnePrompt] | list[str]"

#: Keys of a tokenizer's output beside the ids that add nothing to the model's input.
_IGNORED = {"token_type_ids", "special_tokens_mask", "position_ids", "length", "offset_mapping"}


class Dialogue(str):
    """A prompt as text with its messages: text that was given is the user's, text that a model wrote the assistant's.

    Attributes:
        messages: the messages, as chat endpoints take them.
        is_conversation: whether the prompt was given as messages, so that only a chat template could turn it into text.
    """

    messages: tuple[Mapping[str, Any], ...]
    is_conversation: bool

    def __new__(cls, text: str, messages: Sequence[Mapping[str, Any]] = (), is_conversation: bool = False) -> Dialogue:
        """Make a text that has the messages it was made from."""
        made = super().__new__(cls, text)
        made.messages, made.is_conversation = tuple(messages), is_conversation
        return made


@dataclass(frozen=True)
class Beginning:
    """A prompt in the form that a loop takes.

    Attributes:
        tokens: all ids to compute before the next token.
        resumed: an unfinished output in a format that the next tokens continue; its ids are among `tokens`.
    """

    tokens: tuple[int, ...]
    resumed: Generated | None = None


def as_list(prompts: Any) -> tuple[list[OnePrompt], bool]:
    """Return the prompts of a call, and whether it was a single prompt that is not in a list.

    Rows of ids, in a tensor or as a tokenizer returns them, are a list of prompts, without the padding. A bad prompt in
    a list is kept: `beginning` and `as_text` reject it, so that only its own output fails.

    Raises:
        InvalidArgument: the object is neither a prompt nor a list of prompts.
        InvalidArgument: a tokenizer's output has more than ids, or a mask that is not a padding mask.
    """
    prompts = _unpacked(prompts)
    if isinstance(prompts, (str, Generated, Prompt)) or _is_ids(prompts) or _is_conversation(prompts):
        return [prompts], True
    if not isinstance(prompts, Sequence) or isinstance(prompts, bytes):
        raise InvalidArgument(
            f"{type(prompts).__name__} is not a prompt; give text, token ids, messages, an earlier output, or a list "
            "of these"
        )
    errors = [error for error in map(_why_no_prompt, prompts) if error is not None]
    if errors and len(errors) == len(prompts):
        raise errors[0]
    return list(prompts), False


def in_shape(outputs: list[list[Generated]], is_one: bool, samples: int) -> Any:
    """Return the samples of each prompt in the shape of the call: a list of one is replaced by its item."""
    shaped = [row[0] for row in outputs] if samples == 1 else outputs
    return shaped[0] if is_one else shaped


def beginning(model: LogitsModel, prompt: OnePrompt, compiled: Any) -> Beginning:
    """Return a prompt as ids of a model.

    Args:
        model: tokenizes text, and applies its chat template to messages.
        prompt: the prompt as it was given.
        compiled: the format of the text that follows. An unfinished output in the same format is continued, and the
            tools of a chat answer are added to the prompt of a conversation.

    Raises:
        InvalidArgument: the prompt is empty, or the model does not have one of its ids; or there are messages, but the
            model has no chat template.
    """
    prompt = _one(prompt)
    if isinstance(prompt, Generated):
        tokens = _tokens_of(model, prompt)
        if prompt.stopped not in ("length", "cancelled") or compiled is None:
            return Beginning(tokens)
        formatter = formatter_in(prompt, compiled)
        return Beginning(tokens, None if formatter is None else replace(prompt, formatter=formatter))
    if isinstance(prompt, Prompt):
        before = beginning(model, prompt.before, None).tokens
        return Beginning((*before, *_continued(model, utf8(prompt.text, "prompt"))))
    if _is_conversation(prompt):
        ids = tuple(_encoded(model, prompt, compiled))
    else:
        if isinstance(prompt, str):
            utf8(prompt, "prompt")
        ids = tuple(map(int, model.encode(prompt) if isinstance(prompt, str) else cast("Sequence[int]", prompt)))
    if not ids:
        raise InvalidArgument("the prompt has no tokens; give at least the model's first token")
    for token in ids:
        if not 0 <= token < len(model.vocabulary):
            raise InvalidArgument(
                f"the prompt holds {token}, but the model has the tokens 0 to {len(model.vocabulary) - 1}"
            )
    return Beginning(ids)


def as_text(prompt: OnePrompt) -> str:
    """Return a prompt as text, for a model that takes nothing else; a `Dialogue` if an earlier output is part of it.

    Raises:
        InvalidArgument: the object is not a prompt, or consists of token ids, which only the model's own server could
            turn into text.
    """
    prompt = _one(prompt)
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Prompt):
        return _followed(as_text(prompt.before), "user", prompt.text)
    if isinstance(prompt, Generated) and isinstance(prompt.prompt, str):
        return _followed(prompt.prompt, "assistant", prompt.text)
    if _is_conversation(prompt):
        messages = list(map(dict, prompt))
        return Dialogue("".join(str(message.get("content")) for message in messages), messages, is_conversation=True)
    raise InvalidArgument("a model behind an API takes text; give the prompt as a string, or an output of this model")


def _unpacked(prompts: Any) -> Any:
    """Return tensors, arrays and a tokenizer's output as lists; anything else unchanged."""
    if isinstance(prompts, Mapping):
        return _without_padding(prompts)
    to_list = getattr(prompts, "tolist", None)
    return to_list() if callable(to_list) else prompts


def _one(prompt: Any) -> Any:
    """Return one unpacked prompt; a list with one row of ids gives that row.

    Raises:
        InvalidArgument: the object is not a prompt.
    """
    unpacked = _unpacked(prompt)
    if unpacked is not prompt and isinstance(unpacked, list) and len(unpacked) == 1 and _is_ids(unpacked[0]):
        return unpacked[0]
    is_empty = isinstance(unpacked, (list, tuple)) and not unpacked  # the later check says more
    if isinstance(unpacked, (str, Generated, Prompt)) or is_empty or _is_ids(unpacked) or _is_conversation(unpacked):
        return unpacked
    raise InvalidArgument(f"{shown(prompt)} is not a prompt; give text, token ids, messages or an earlier output")


def _why_no_prompt(prompt: Any) -> InvalidArgument | None:
    try:
        _one(prompt)
    except InvalidArgument as error:
        return error
    return None


def _without_padding(encoding: Mapping[str, Any]) -> list[Any]:
    """Return the ids of a tokenizer's output, without padding: a list, or a list of lists."""
    unknown = sorted(set(map(str, encoding)) - {"input_ids", "attention_mask"} - _IGNORED)
    if unknown or "input_ids" not in encoding:
        held = ", ".join(unknown) or "no input_ids"
        raise InvalidArgument(f"a prompt holds {held}; give what a tokenizer returns: input_ids and attention_mask")
    ids = _unpacked(encoding["input_ids"])
    mask = _unpacked(encoding.get("attention_mask"))
    if mask is None:
        return list(ids)
    if not ids or _is_ids(ids):
        return _used(ids, mask)
    return [_used(_unpacked(row), _unpacked(used)) for row, used in zip(ids, mask, strict=True)]


def _used(ids: Sequence[int], mask: Sequence[int]) -> list[int]:
    kept = [place for place, is_used in enumerate(mask) if is_used]
    if len(mask) != len(ids) or (kept and kept[-1] - kept[0] >= len(kept)):
        raise InvalidArgument("the attention mask of a prompt leaves out tokens between others; only padding can be")
    return [ids[place] for place in kept]


def as_messages(text: str) -> tuple[Mapping[str, Any], ...]:
    """Return the messages of a text that `as_text` made."""
    return text.messages if isinstance(text, Dialogue) else ({"role": "user", "content": text},)


def _followed(text: str, role: Literal["user", "assistant"], more: str) -> Dialogue:
    messages = (*as_messages(text), {"role": role, "content": more})
    return Dialogue(text + more, messages, isinstance(text, Dialogue) and text.is_conversation)


def _is_ids(prompt: Any) -> bool:
    if isinstance(prompt, (str, bytes)) or not hasattr(prompt, "__len__") or not hasattr(prompt, "__getitem__"):
        return False
    return len(prompt) > 0 and all(map(_is_id, prompt))


def _is_id(token: Any) -> bool:
    return hasattr(token, "__index__") and getattr(token, "ndim", 0) == 0 and not isinstance(token, bool)


def _is_conversation(prompt: Any) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Return whether the prompt is a list of messages, as chat templates and chat endpoints take them."""
    return (
        isinstance(prompt, (list, tuple))
        and len(prompt) > 0
        and all(isinstance(message, Mapping) and "role" in message for message in prompt)
    )


def _encoded(model: LogitsModel, messages: Sequence[Mapping[str, Any]], compiled: Any) -> list[int]:
    encode: Callable[..., list[int]] | None = getattr(model, "encode_chat", None)
    if encode is None:
        raise InvalidArgument(f"{type(model).__name__} has no chat template; give the prompt as text")
    format = getattr(compiled, "format", None)
    tools = [tool.to_prompt() for tool in format.tools] if isinstance(format, ChatAnswerFormat) else []
    return encode([dict(message) for message in messages], **({"tools": tools} if tools else {}))


def _tokens_of(model: LogitsModel, output: Generated) -> tuple[int, ...]:
    """Return the ids of a prompt and its output, without the token that ended it."""
    if isinstance(output.prompt, str):
        raise InvalidArgument("this output comes from a model behind an API; give its text as the prompt")
    written = output.tokens[:-1] if output.stopped == "stop_token" else output.tokens
    kept, spelt = _spelling(written, output.bytes, model.vocabulary)
    return (*output.prompt, *kept, *_continued(model, output.bytes[spelt:]))


def _spelling(tokens: Sequence[int], text: bytes, vocabulary: Vocabulary) -> tuple[list[int], int]:
    """Return the tokens that spell a text, or as much of it as whole tokens do, and the number of bytes that they
    spell.
    """
    kept: list[int] = []
    at = 0
    for token in tokens:
        piece = vocabulary.text_token(token) or b""
        if token in vocabulary.end_ids or at + len(piece) > len(text):
            break
        kept.append(token)
        at += len(piece)
    return kept, at


def continuation_tokens(
    vocabulary: Vocabulary, tokenize: Callable[[bytes], Sequence[int]], text: bytes
) -> list[int] | None:
    """Return ids that spell exactly a text; None if the tokenizer has none, or the bytes are not whole characters.

    A tokenizer may put a space before a text. If the spelling of the text alone differs, the text is tokenized after a
    line break.
    """
    for before in (b"", b"\n"):
        try:
            ids = [int(token) for token in tokenize(before + text)]
        except UnicodeDecodeError:
            return None
        spelt = [vocabulary.text_token(token) or b"" for token in ids]
        for start in range(len(ids) + 1 if before else 1):
            if b"".join(spelt[start:]) == text:
                return ids[start:]
    return None


def _continued(model: LogitsModel, text: bytes) -> list[int]:
    if not text:
        return []
    tokens = model.encode_continuation(text)
    if tokens is None:
        raise InvalidArgument(f"the tokenizer has no tokens that spell {text!r} behind a text; give another prompt")
    return tokens
