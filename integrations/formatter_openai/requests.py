"""Requests to a server: one for a prompt with all its samples, or one for each sample."""

from __future__ import annotations

from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.formats.protocol import Format
from formatter_core.generation.models import TextRequest
from formatter_core.generation.sampling import Sampling
from formatter_openai.enforcement import Endpoint, Server, enforcing

__all__ = ["arguments_of", "requests_of"]

#: The sampling parameters of a `Sampling` that each server supports besides `top_p`.
_CUTS: dict[Server, tuple[str, ...]] = {
    "openai": (),
    "ollama": (),
    "lmstudio": ("top_k",),
    **dict.fromkeys(("vllm", "formatter_vllm", "llama_cpp", "llama_server"), ("top_k", "min_p")),
}


def arguments_of(request: TextRequest, format: Format | None, server: Server, endpoint: Endpoint) -> dict[str, Any]:
    """Return the keyword arguments for the client's `create` that are the same for all prompts.

    Raises:
        UnsupportedFormat: the server cannot keep the format.
        InvalidArgument: the server cannot draw, or tell, as asked.
    """
    arguments: dict[str, Any] = {"extra_body": {}}
    if format is not None:
        _merge(arguments, enforcing(format, server, endpoint))
    if request.sampling is not None:
        _merge(arguments, _drawing(request.sampling, server))
    if request.max_tokens is not None:
        if server == "openai" and endpoint == "chat":  # in the body, because older clients do not know the name
            arguments["extra_body"]["max_completion_tokens"] = request.max_tokens
        else:
            arguments["max_tokens"] = request.max_tokens
    if request.stop_strings:
        arguments["stop"] = list(request.stop_strings)
    if request.seed is not None:
        arguments["seed"] = request.seed
    if request.scores.prompt:
        raise InvalidArgument("servers report nothing about the tokens of a prompt; leave out ScoreSettings.prompt")
    if request.scores.branches:
        raise InvalidArgument("servers report nothing about the options of a choice; leave out ScoreSettings.branches")
    if request.scores:
        if endpoint == "chat":
            _merge(arguments, {"logprobs": True, "top_logprobs": request.scores.top})
        else:
            arguments["logprobs"] = request.scores.top
    if server in ("vllm", "formatter_vllm"):
        asked = {"return_tokens_as_token_ids": True} if request.scores else {}
        _merge(arguments, {"extra_body": {**asked, "return_token_ids": True}})
    return arguments


def requests_of(arguments: dict[str, Any], request: TextRequest, server: Server) -> list[tuple[int, dict[str, Any]]]:
    """Return the requests for one prompt: the number of the first sample of each, and its arguments."""
    if request.samples == 1:
        return [(0, arguments)]
    # vLLM refuses `n` where nothing is drawn, and the servers around llama.cpp take no notice of it.
    draws = request.sampling is None or request.sampling.temperature > 0
    if server == "openai" or (server in ("vllm", "formatter_vllm") and draws):
        return [(0, {**arguments, "n": request.samples})]
    seeds = [{} if request.seed is None else {"seed": request.seed + index} for index in range(request.samples)]
    return [(index, {**arguments, **seed}) for index, seed in enumerate(seeds)]


def _drawing(sampling: Sampling, server: Server) -> dict[str, Any]:
    if sampling.typical_p < 1:
        raise InvalidArgument("servers do not support typical_p; leave it out")
    lacking = [name for name in ("top_k", "min_p") if getattr(sampling, name) and name not in _CUTS[server]]
    if lacking:
        who = "OpenAI's interface" if server == "openai" else "the interface of this server"
        raise InvalidArgument(f"{who} has no {' and no '.join(lacking)}; leave them out, or name another server")
    if server == "openai":
        return {"temperature": sampling.temperature, **({"top_p": sampling.top_p} if sampling.top_p < 1 else {})}
    # These servers have their own defaults, some by model, that cut candidates unless the request sets other values.
    extra: dict[str, Any] = {name: getattr(sampling, name) for name in _CUTS[server]}
    if server == "llama_cpp":
        extra["repeat_penalty"] = 1.0  # its own default changes the model's probabilities
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "extra_body": extra}


def _merge(arguments: dict[str, Any], more: dict[str, Any]) -> None:
    body = {**arguments["extra_body"], **more.get("extra_body", {})}
    arguments.update(more)
    arguments["extra_body"] = body
