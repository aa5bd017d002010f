"""The sampling settings in a model's `generation_config`."""

from __future__ import annotations

from typing import Any

from formatter_core.generation import Sampling

__all__ = ["configured_sampling", "unused_settings"]

#: The values that `generate` uses when it samples and the configuration has none.
_DEFAULTS: dict[str, Any] = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}
#: Settings of `generate` that the loops do not apply, by their neutral value besides None.
_UNUSED: dict[float | None, str] = {
    None: (
        "bad_words_ids begin_suppress_tokens exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id "
        "max_new_tokens sequence_bias stop_strings suppress_tokens watermarking_config"
    ),
    0: "epsilon_cutoff eta_cutoff min_length min_new_tokens no_repeat_ngram_size penalty_alpha",
    1: "encoder_repetition_penalty guidance_scale num_beams repetition_penalty top_h",
}


def configured_sampling(model: Any) -> Sampling:
    """Return the sampling of `generate` without arguments: the best token, or a random draw."""
    config = getattr(model, "generation_config", None)
    if not getattr(config, "do_sample", False):
        return Sampling()
    asked = {name: getattr(config, name, None) for name in _DEFAULTS}
    return Sampling(**{name: _DEFAULTS[name] if value is None else value for name, value in asked.items()})


def unused_settings(model: Any) -> dict[str, Any]:
    """Return the settings of the configuration that this project does not apply, by their names in transformers."""
    config = getattr(model, "generation_config", None)
    neutral = {name: value for value, names in _UNUSED.items() for name in names.split()}
    asked = {name: getattr(config, name, None) for name in sorted(neutral)}
    return {name: value for name, value in asked.items() if value not in (None, neutral[name])}
