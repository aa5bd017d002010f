"""A tokenizer of transformers as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.runtime.hook import wrong_model
from formatter_core.vocabulary import huggingface
from formatter_transformers import _compat

__all__ = [
    "check_tokenizer",
    "compiler_for",
    "create_vocabulary",
    "is_tokenizer",
    "text_size",
]

_compilers = CompilersByOwner()


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a tokenizer, fast or slow; it is made once for each tokenizer object.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` returns.
        model: gives the width of the logits, and the ids that end its outputs (`generation_config.eos_token_id`,
            one or several). Without it the tokenizer's own end-of-sequence id is the only one.
        end_ids: the ids that end an output, instead of the model's. Name those at which `generate` stops.

    Raises:
        InvalidArgument: the tokenizer's name instead of the tokenizer.
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
        WrongModel: the tokenizer is another model's.
    """
    return compiler_for(tokenizer, model=model, end_ids=end_ids).vocabulary


def compiler_for(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Compiler:
    """Return the compiler of a tokenizer with these end ids and this width; it lives as long as the tokenizer."""
    check_tokenizer(tokenizer)
    if model is not None and not hasattr(model, "config"):
        raise InvalidArgument(
            f"model is {shown(model)}, which is not a model of transformers; give what "
            "AutoModelForCausalLM.from_pretrained gives",
            argument="model",
        )
    ends = _compat.end_ids(model) if end_ids is None else token_ids_of(end_ids, "end_ids")
    width = _compat.logits_width(model)
    if model is not None:
        _check_pair(tokenizer, width, _compat.end_ids(model))
    key = (huggingface.state(tokenizer), width, ends)
    return _compilers.get(tokenizer, key, lambda: Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=width))


def check_tokenizer(tokenizer: Any) -> None:
    """Raise `InvalidArgument` or `InvalidVocabulary` for what is not a tokenizer of transformers."""
    if isinstance(tokenizer, str):
        raise InvalidArgument(
            f"the tokenizer is a name, {tokenizer!r}; give AutoTokenizer.from_pretrained({tokenizer!r})",
            argument="tokenizer",
        )
    if not is_tokenizer(tokenizer):
        if hasattr(tokenizer, "generate"):
            raise InvalidArgument(
                f"{shown(tokenizer)} is a model, where a tokenizer was expected; call "
                "create_logits_processor(tokenizer, format, model=model)",
                argument="tokenizer",
            )
        raise InvalidVocabulary(
            f"{shown(tokenizer)} is not a tokenizer of transformers; give what AutoTokenizer.from_pretrained gives, "
            "or the `tokenizer` of a processor"
        )


def is_tokenizer(value: Any) -> bool:
    """Tell whether something looks like what `AutoTokenizer.from_pretrained` returns."""
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and hasattr(value, "decode")


def text_size(tokenizer: Any) -> int:
    """Return the number of the tokenizer's ids without added tokens; a model may have no logits for added tokens."""
    size = getattr(tokenizer, "vocab_size", 0)
    return min(size, len(tokenizer)) if isinstance(size, int) else 0


def _check_pair(tokenizer: Any, width: int | None, model_ends: tuple[int, ...] | None) -> None:
    """Refuse a model that cannot be the tokenizer's.

    More logits than tokens are padding. Fewer are too few for the tokens of texts, but added tokens may lack a logit.
    A model that ends only at ids that the tokenizer lacks would never end an output.
    """
    size = len(tokenizer)
    if width is not None and width < text_size(tokenizer):
        raise wrong_model(f"a tokenizer of {text_size(tokenizer)} tokens", f"a model of {width} logits")
    if model_ends and min(model_ends) >= size:
        ends = ", ".join(map(str, model_ends))
        raise wrong_model(f"a tokenizer of {size} ids", f"a model that ends at {ends}")
