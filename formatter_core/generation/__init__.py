"""Provide the parts of generation loops for any engine: samplers, best tokens, results, option tries and beams."""

from formatter_core.generation.api_writers import ApiWriter, AsyncApiWriter
from formatter_core.generation.beams import Beam, BeamSearch, beam_search
from formatter_core.generation.call_settings import CallSettings
from formatter_core.generation.candidates import (
    Candidate,
    ScoreSettings,
    TopTokens,
    as_candidates,
    checked_counts,
    chosen_token,
    top_tokens,
)
from formatter_core.generation.choosing import branches, choose
from formatter_core.generation.faithful import Faithful
from formatter_core.generation.lost_mass import LostMass
from formatter_core.generation.models import (
    NO_SCORES,
    ApiModel,
    AsyncApiModel,
    AsyncChoosingModel,
    BatchSampler,
    ChoosingModel,
    Finished,
    FormatEvent,
    GenerationEvent,
    LogitsModel,
    MixedSampling,
    Picked,
    ScoredText,
    SequenceBatch,
    Snapshot,
    TextDelta,
    TextRequest,
    ValueDelta,
    Weighed,
    WeighingModel,
)
from formatter_core.generation.numpy_logits import NumpyBatch, NumpyLogits, log_softmax
from formatter_core.generation.particles import Particles
from formatter_core.generation.ranking import best_of, log_evidence, mean_logprob, shares, total_logprob
from formatter_core.generation.results import ChosenToken, Generated, Prompt, Stopped, TokenScore, TokenScores, Usage
from formatter_core.generation.sampling import Sampler, Sampling, SamplingRows, greedy, multinomial
from formatter_core.generation.sequences import LogitsWriter, completion, continuation
from formatter_core.generation.threads import AsyncModel, ThreadWriter, async_model
from formatter_core.generation.tries import Branches, OptionScore, OptionTrie, option_scores

__all__ = [
    "NO_SCORES",
    "ApiModel",
    "ApiWriter",
    "AsyncApiModel",
    "AsyncApiWriter",
    "AsyncChoosingModel",
    "AsyncModel",
    "BatchSampler",
    "Beam",
    "BeamSearch",
    "Branches",
    "CallSettings",
    "Candidate",
    "ChoosingModel",
    "ChosenToken",
    "Faithful",
    "Finished",
    "FormatEvent",
    "Generated",
    "GenerationEvent",
    "LogitsModel",
    "LogitsWriter",
    "LostMass",
    "MixedSampling",
    "NumpyBatch",
    "NumpyLogits",
    "OptionScore",
    "OptionTrie",
    "Particles",
    "Picked",
    "Prompt",
    "Sampler",
    "Sampling",
    "SamplingRows",
    "ScoreSettings",
    "ScoredText",
    "SequenceBatch",
    "Snapshot",
    "Stopped",
    "TextDelta",
    "TextRequest",
    "ThreadWriter",
    "TokenScore",
    "TokenScores",
    "TopTokens",
    "Usage",
    "ValueDelta",
    "Weighed",
    "WeighingModel",
    "as_candidates",
    "async_model",
    "beam_search",
    "best_of",
    "branches",
    "checked_counts",
    "choose",
    "chosen_token",
    "completion",
    "continuation",
    "greedy",
    "log_evidence",
    "log_softmax",
    "mean_logprob",
    "multinomial",
    "option_scores",
    "shares",
    "top_tokens",
    "total_logprob",
]
