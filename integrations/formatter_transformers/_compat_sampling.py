"""What a model's `generation_config` says about how tokens are chosen."""

from __future__ import annotations

from typing import Any

from formatter_core.generation import Sampling

__all__ = ["configured_sampling", "unused_settings"]

#: What `generate` takes where it samples and the configuration says nothing.
_DEFAULT_TOP_K = 50
#: Settings of `generate` that the loops do not apply, each with the values that ask for nothing.
_UNUSED: dict[str, tuple[Any, ...]] = {
    "bad_words_ids": (),
    "begin_suppress_tokens": (),
    "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "exponential_decay_length_penalty": (),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "guidance_scale": (1.0,),
    "max_new_tokens": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beams": (1,),
    "penalty_alpha": (0.0,),
    "repetition_penalty": (1.0,),
    "sequence_bias": (),
    "stop_strings": (),
    "suppress_tokens": (),
    "top_h": (1.0,),
    "watermarking_config": (),
}


def configured_sampling(model: Any) -> Sampling:
    """How `generate` would choose tokens without arguments: the best one, or a draw."""
    config = getattr(model, "generation_config", None)
    if not getattr(config, "do_sample", False):
        return Sampling()

    def setting(name: str, default: Any) -> Any:
        value = getattr(config, name, None)
        return default if value is None else value

    return Sampling(
        setting("temperature", 1.0),
        setting("top_k", _DEFAULT_TOP_K),
        setting("top_p", 1.0),
        setting("min_p", 0.0),
        setting("typical_p", 1.0),
    )


def unused_settings(model: Any) -> dict[str, Any]:
    """What else the configuration asks for, by its name in transformers."""
    config = getattr(model, "generation_config", None)
    found = {name: getattr(config, name, None) for name in _UNUSED}
    return {name: value for name, value in found.items() if value is not None and value not in _UNUSED[name]}
