"""Hooks of this project's server into the server of mlx-lm."""

from __future__ import annotations

import functools
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from formatter_core.errors import FormatterError, InvalidArgument, UnsupportedEngineVersion
from formatter_mlx.logits_processor import FormatterLogitsProcessor

__all__ = ["Asked", "serve"]

_NEEDED = ("APIHandler", "ResponseGenerator", "_make_logits_processors", "_run_http_server", "main")


@dataclass(frozen=True)
class Asked:
    """A request, and the model that is to answer it.

    Attributes:
        body: the request's fields.
        max_tokens: the most tokens that the answer may have.
        model: the model that the server has loaded.
        tokenizer: its tokenizer.
        template_options: the chat template's arguments besides messages and tools.
    """

    body: Mapping[str, Any]
    max_tokens: int
    model: Any
    tokenizer: Any
    template_options: Mapping[str, Any]


def serve(arguments: Sequence[str], processor_of: Callable[[Asked], FormatterLogitsProcessor | None]) -> None:
    """Run mlx-lm's server.

    Args:
        arguments: its command line.
        processor_of: makes the processor of a request; None if its text is free. Its `FormatterError` is answered with
            status 400.

    Raises:
        UnsupportedEngineVersion: the server lacks a needed interface.
    """
    server: Any = importlib.import_module("mlx_lm.server")
    for name in _NEEDED:
        if not hasattr(server, name):
            raise UnsupportedEngineVersion("mlx-lm", found=version("mlx-lm"), needed=">= 0.31.3", missing=name)
    make = server._make_logits_processors

    class Handler(server.APIHandler):  # type: ignore[misc]
        def validate_model_parameters(self) -> None:
            super().validate_model_parameters()
            try:
                processor = processor_of(_asked(self))
            except FormatterError as error:
                raise ValueError(str(error)) from error
            if processor is not None:
                biases = _Biases(getattr(self, "logit_bias", None) or {})
                biases.processor = processor
                self.logit_bias = biases

    class Generator(server.ResponseGenerator):  # type: ignore[misc]
        def generate(self, request: Any, generation_args: Any, progress_callback: Any = None) -> Any:
            context, responses = super().generate(request, generation_args, progress_callback)
            biases = generation_args.logits.logit_bias
            return context, _checked(responses, biases.processor) if isinstance(biases, _Biases) else responses

    def processors(arguments: Any) -> list[Any]:
        biases = arguments.logits.logit_bias
        if not isinstance(biases, _Biases):
            return list(make(arguments))
        return [*make(replace(arguments, logits=replace(arguments.logits, logit_bias=dict(biases)))), biases.processor]

    server._make_logits_processors, server.ResponseGenerator = processors, Generator
    server._run_http_server = functools.partial(server._run_http_server, handler_class=Handler)
    sys.argv = ["formatter_mlx.server", *arguments]
    server.main()


class _Biases(dict[int, float]):
    """A request's biases: all that the server hands on from a request to the place where it makes its processors."""

    processor: FormatterLogitsProcessor


def _checked(responses: Iterator[Any], processor: FormatterLogitsProcessor) -> Iterator[Any]:
    """Yield the responses; break the connection if the format failed, because the status has been sent by then."""
    yield from responses
    processor.result()


def _asked(handler: Any) -> Asked:
    generator = handler.response_generator
    provider = generator.model_provider
    if provider.is_distributed:  # the arguments of a request are pickled there
        raise InvalidArgument("a server on several machines cannot enforce formats; run it on one")
    own = {"default_model", provider.cli_args.model}
    if provider.cli_args.model is None or handler.requested_model not in own or handler.adapter is not None:
        raise InvalidArgument(
            "a format is for the model that the server was started with; start it with --model, and ask for the model "
            '"default_model"',
            argument="model",
        )
    while provider.model_key is None and generator.generation_available():
        time.sleep(0.05)  # it is loaded in another thread
    if provider.tokenizer is None:
        raise InvalidArgument("the server could not load its model; see its log")
    options = {**provider.cli_args.chat_template_args, **(handler.chat_template_kwargs or {})}
    return Asked(handler.body, handler.max_tokens, provider.model, provider.tokenizer, options)
