"""What generation loops share, whatever engine runs the model: samplers, top-n, results, option tries and beams."""

from formatter_core.generation.beams import Beam, BeamSearch
from formatter_core.generation.candidates import (
    Candidate,
    ScoreSettings,
    TopTokens,
    checked_counts,
    chosen_token,
    top_tokens,
)
from formatter_core.generation.results import ChosenToken, Generated, Stopped, TokenScore
from formatter_core.generation.sampling import Sampler, Sampling
from formatter_core.generation.top_n import log_softmax, top_n
from formatter_core.generation.tries import OptionScore, OptionTrie

__all__ = [
    "Beam",
    "BeamSearch",
    "Candidate",
    "ChosenToken",
    "Generated",
    "OptionScore",
    "OptionTrie",
    "Sampler",
    "Sampling",
    "ScoreSettings",
    "Stopped",
    "TokenScore",
    "TopTokens",
    "checked_counts",
    "chosen_token",
    "log_softmax",
    "top_n",
    "top_tokens",
]
