"""The functions of vLLM that this package wraps, and a check that their code is that of a tested release.

`python -m formatter_vllm._compat_sources FOLDER` prints the digests of the vLLM in a folder.
"""

from __future__ import annotations

import ast
import hashlib
import multiprocessing
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from formatter_vllm.vocabulary import logger

__all__ = ["ADMISSION", "BACKEND", "changed", "digest_of", "release", "say", "warn_of_changes"]

_MANAGER = "vllm.v1.structured_output"
#: The functions and classes that the backend of structured outputs wraps or derives from.
BACKEND = (
    (f"{_MANAGER}.backend_types", "StructuredOutputBackend"),
    (f"{_MANAGER}.backend_types", "StructuredOutputGrammar"),
    (_MANAGER, "StructuredOutputManager.grammar_init"),
    (_MANAGER, "StructuredOutputManager.grammar_bitmask"),
    (_MANAGER, "StructuredOutputManager._fill_bitmasks"),
    (f"{_MANAGER}.request", "get_structured_output_key"),
    ("vllm.sampling_params", "SamplingParams._validate_structured_outputs"),
    ("vllm.parser.abstract_parser", "DelegatingParser._apply_structural_tag"),
    ("vllm.parser.response_template", "ResponseTemplateParser.adjust_request"),
)
#: The functions that the admission of requests wraps.
ADMISSION = (
    ("vllm.v1.engine.async_llm", "AsyncLLM.add_request"),
    ("vllm.v1.engine.async_llm", "AsyncLLM.generate"),
    ("vllm.v1.engine.output_processor", "OutputProcessor.process_outputs"),
    ("vllm.entrypoints.openai.completion.protocol", "CompletionRequest.to_beam_search_params"),
    ("vllm.entrypoints.openai.chat_completion.protocol", "ChatCompletionRequest.to_beam_search_params"),
)
#: The digests of their code in vLLM 0.31, 0.32 and 0.33, as far as it differs.
_TESTED = {
    "StructuredOutputBackend": "642562fe9a15",
    "StructuredOutputGrammar": "d92042877f94",
    "StructuredOutputManager.grammar_init": "bd1b0cb34316 c25c367ce48f",
    "StructuredOutputManager.grammar_bitmask": "74f7e72df271 36aa0fc23dc0 89a2239aa319",
    "StructuredOutputManager._fill_bitmasks": "69e3e0da1cf7 2e658fd99e72",
    "get_structured_output_key": "4b45efc28952",
    "SamplingParams._validate_structured_outputs": "f6ae29c21209 b14add311029",
    "DelegatingParser._apply_structural_tag": "c6265bf8202b 8682ad322391 d58fe782c681",
    "AsyncLLM.add_request": "4c75c0fbe394 c6706462fe94",
    "AsyncLLM.generate": "c34df5df3d74 9e76043f7919",
    "OutputProcessor.process_outputs": "1177f10fe0e3 acadf3f46a0f 449aea1b33fa",
    "CompletionRequest.to_beam_search_params": "c44a9974d559 1949d59e3833 83e75c446c35",
    "ChatCompletionRequest.to_beam_search_params": "9ef3307e8832 584cef359f07 27d7992e246e",
    "ResponseTemplateParser.adjust_request": "7e9e317cb4b5 5088c7157004",
}


def digest_of(module: str, name: str, folder: Path | None = None) -> str | None:
    """Return a digest of the code of a function or class, without its comments; None if it does not exist.

    Args:
        folder: the folder of vLLM; by default the one it would be imported from.
    """
    with suppress(ImportError, ValueError, OSError, SyntaxError):
        path = _path_of(module, folder)
        found: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
        for part in name.split("."):
            members = (node for node in ast.iter_child_nodes(found) if getattr(node, "name", None) == part)
            node = next(members, None)
            if node is None:
                return None
            found = node
        return hashlib.sha256(ast.unparse(found).encode()).hexdigest()[:12]
    return None


def _path_of(module: str, folder: Path | None) -> Path:
    if folder is None:
        found = find_spec(module)
        if found is None or found.origin is None:
            raise ImportError(module)
        return Path(found.origin)
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def changed(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the functions whose code differs from that of every tested release."""
    digests = {name: digest_of(module, name) for module, name in names}
    return [name for name, digest in digests.items() if digest is not None and digest not in _TESTED[name]]


def warn_of_changes(names: Sequence[tuple[str, str]]) -> None:
    """Say in one line which functions of this vLLM are not those that were tested."""
    if is_first_process() and (found := changed(names)):
        say(
            "formatter-core was not tested with vLLM %s, whose %s changed; dummy requests came through as they should",
            release(),
            ", ".join(found),
        )


def release() -> str:
    """Return the version of this vLLM."""
    return str(getattr(import_module("vllm"), "__version__", "of unknown version"))


def is_first_process() -> bool:
    """Tell whether this is the process that the user started; vLLM's other processes would repeat its messages."""
    return multiprocessing.parent_process() is None


def say(message: str, *values: object) -> None:
    """Log a message for the operator once, in the process that the user started."""
    if is_first_process() and (message, values) not in _said:
        _said.add((message, values))
        logger.warning(message, *values)


_said: set[tuple[str, tuple[object, ...]]] = set()


if __name__ == "__main__":
    for _module, _name in (*BACKEND, *ADMISSION):
        sys.stdout.write(f"{_name} {digest_of(_module, _name, Path(sys.argv[1]))}\n")
