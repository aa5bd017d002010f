"""Results from what a loop of mlx-lm gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core import Formatter, Result
from formatter_core.errors import FormatterError, HookNotCalled, InvalidArgument
from formatter_core.generation.stopping import accept_output, cut_back, rejected
from formatter_core.runtime.result import Ended
from formatter_mlx.sequences import Sequence

__all__ = ["result_of", "results_of"]

_HINT = "pass the processor in a list, generate(..., logits_processors=[processor])"
_ENDED: Mapping[str | None, Ended] = {"length": "length", "stop": "stop_string"}


def result_of(sequences: Mapping[int, Sequence | None], output: Any, misuse: FormatterError | None) -> Result:
    """Return the result of one output.

    Args:
        sequences: what the processor has served, by row.
        output: what `FormatterLogitsProcessor.result` takes.
        misuse: what was refused, if anything: the cause of an output that the processor has not served.
    """
    if not sequences:
        raise misuse or HookNotCalled(_HINT)
    row = getattr(output, "uid", None)
    if row is None and len(sequences) > 1:
        raise InvalidArgument(
            f"the processor has served {len(sequences)} outputs; read them with results", argument="output"
        )
    sequence = sequences.get(next(iter(sequences)) if row is None else row)
    if sequence is None:
        raise misuse or InvalidArgument("this output has no format, so its text is all there is", argument="output")
    if sequence.cursor.error is not None:
        raise sequence.cursor.error
    tokens, reason = _tokens_of(sequence, output, misuse)
    formatter = sequence.compiled.formatter()
    accepted = accept_output(formatter, tokens)
    if accepted < len(tokens) and not formatter.is_finished:
        raise rejected(formatter, tokens[accepted])
    if isinstance(output, str) and not sequence.has_drafts and not _spells(formatter, tokens, output):
        raise misuse or _other_output()
    if formatter.is_finished:
        return formatter.result("end")
    if isinstance(output, str):
        if sequence.has_drafts:
            _follow_text(formatter, output)
        # The processor may not have seen the end id, either.
        return formatter.result("end" if sequence.has_drafts and formatter.can_stop else "length")
    return formatter.result(_ENDED.get(reason))


def results_of(
    sequences: Mapping[int, Sequence | None], outputs: Any, misuse: FormatterError | None
) -> list[Result | None]:
    """Return the result of each output of a batch; see `FormatterLogitsProcessor.results`."""
    texts = getattr(outputs, "texts", None)
    if texts is None and not isinstance(outputs, (list, tuple)):
        raise InvalidArgument(
            "these are not the outputs of a batch; give what batch_generate returned, or a list of last responses",
            argument="outputs",
        )
    if texts is not None:
        rows = list(sequences)
        is_whole = len(rows) == len(texts)
    else:
        rows = [getattr(response, "uid", -1) for response in outputs]
        is_whole = set(rows) <= set(sequences)
    if not is_whole:
        raise InvalidArgument(
            f"these are {len(rows) if texts is None else len(texts)} outputs, but the processor has served "
            f"{len(sequences)}; give those of the batch that it served",
            argument="outputs",
        )
    results: list[Result | None] = []
    for number, row in enumerate(rows):
        sequence = sequences[row]
        if sequence is None:
            results.append(None)
        elif texts is None and sequence.cursor.error is None:
            results.append(result_of({row: sequence}, outputs[number], misuse))
        else:
            formatter, tokens = sequence.cursor.formatter, sequence.tokens
            if sequence.cursor.error is None and texts is not None and not _spells(formatter, tokens, texts[number]):
                raise misuse or _other_output()
            ended: Ended = "end" if formatter.is_finished else "length"
            results.append(sequence.cursor.result(ended))
    return results


def _tokens_of(sequence: Sequence, output: Any, misuse: FormatterError | None) -> tuple[list[int], str | None]:
    """Return the ids of an output up to its end, and the loop's finish reason."""
    seen = sequence.tokens
    if output is None or isinstance(output, str):
        return seen, None
    count, token = getattr(output, "generation_tokens", len(seen)), getattr(output, "token", None)
    whole = getattr(output, "all_tokens", None)
    if not isinstance(token, int) or not hasattr(output, "finish_reason"):
        raise InvalidArgument(
            "this is neither the text of generate nor a response of stream_generate or of a BatchGenerator",
            argument="output",
        )
    # In speculative decoding the processor has not seen the last token, but may have seen rejected drafts in its place.
    is_seen = count <= len(seen) and seen[count - 1 : count] == [token]
    is_last = count <= len(seen) + 1 and sequence.has_drafts
    if not (is_seen or is_last) or (whole is not None and list(whole[len(whole) - count :]) != seen):
        raise misuse or _other_output()
    return [*seen[: count - 1], token], output.finish_reason


def _other_output() -> InvalidArgument:
    return InvalidArgument("this is not an output of the call that the processor served last", argument="output")


def _spells(formatter: Formatter, tokens: list[int], text: str) -> bool:
    """Tell whether a text is that of the tokens, whatever a detokenizer does to spaces and partial characters.

    Args:
        formatter: after the tokens up to the first that ends the output.
        tokens: all of them; a loop that does not stop at this end goes on.
        text: what the loop gave, with the names of special tokens.
    """
    accepted = formatter.bytes.decode("utf-8", "ignore")
    for name, token_id in formatter.compiled.vocabulary.special_tokens.items():
        if token_id in tokens:  # the output may have its name as ordinary text, too
            text, accepted = text.replace(name, ""), accepted.replace(name, "")
    shown, seen = "".join(text.split()), "".join(accepted.split())
    if len(tokens) > len(formatter.tokens):
        seen += shown[len(seen) :]
    # U+FFFD stands for any number of characters: some detokenizers also replace bytes of whole characters.
    first, *others = shown.split("\ufffd")
    if not others or not seen.startswith(first):
        return seen == shown
    place = len(first)
    for part in others[:-1]:
        place = seen.find(part, place) + len(part)
        if place < len(part):
            return False
    return seen[place:].endswith(others[-1])


def _follow_text(formatter: Formatter, text: str) -> None:
    """Go to where a text ends, of which the tokens that were shown may say too much, or not the last one.

    Raises:
        InvalidArgument: the text and the tokens do not agree.
    """
    data, seen = text.encode("utf-8", "surrogatepass"), formatter.bytes
    if seen.startswith(b" ") and not data.startswith(b" "):
        data = b" " + data  # some of mlx-lm's detokenizers drop it
    if seen.startswith(data):
        cut_back(formatter, data)
    elif data.startswith(seen):
        formatter.accept_bytes(data[len(seen) :])
    else:
        raise InvalidArgument(
            "the text is not what the tokens spell; give the last response of stream_generate", argument="output"
        )
