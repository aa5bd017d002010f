"""Draw exact samples of the model's own distribution given the format, by adaptive rejection; see `lost_mass`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from formatter_core.errors import NoExactSample
from formatter_core.errors.arguments import one_of, true_or_false, whole_number
from formatter_core.generation.draws import stream_of
from formatter_core.generation.loop import LoopSettings, Row, ended, news, run_together
from formatter_core.generation.lost_mass import LostMass, Node, Pick
from formatter_core.generation.models import GenerationEvent, LogitsModel, WeighingModel, weighing
from formatter_core.generation.weighed_batch import Position, WeighedBatch, chosen_at, sampling_of

__all__ = ["Faithful", "Otherwise", "run_faithful"]

#: What happens to a sample when its drafts are used up.
Otherwise = Literal["error", "weighted"]


@dataclass(frozen=True)
class Faithful:
    """The settings for drawing faithful samples.

    Attributes:
        max_draws: the maximum number of drafts of each sample; each takes at least one forward pass.
        otherwise: what happens to a sample when its drafts are used up: `"error"` ends it with `NoExactSample`;
            `"weighted"` draws it under the masks, with its weight as `Generated.log_weight`.
        with_end: whether the end of an output has the probability that the model gives it. False counts the end as
            certain where the format allows nothing else, for models that keep writing after an answer: samples are then
            drawn from the texts that begin with an output of the format.
        memory_bytes: the memory for what was learnt about all prompts; once it is used up, more drafts are rejected.
        keep: whether later calls also use what was learnt. Outputs then depend on earlier calls, with or without a
            seed; call `writer.lost_mass.clear()` when the model's weights change.
    """

    max_draws: int = 1000
    otherwise: Otherwise = "error"
    with_end: bool = True
    memory_bytes: int = 64 * 2**20
    keep: bool = False

    def __post_init__(self) -> None:
        whole_number(self.max_draws, "max_draws", 1)
        one_of(self.otherwise, "otherwise", get_args(Otherwise))
        true_or_false(self.with_end, "with_end")
        whole_number(self.memory_bytes, "memory_bytes", 0)
        true_or_false(self.keep, "keep")


def run_faithful(
    model: LogitsModel, rows: Sequence[Row], settings: LoopSettings, *, how: Faithful, known: LostMass
) -> Iterator[GenerationEvent]:
    """Write exact samples to their ends, together; a run that stops early forgets what it has learnt.

    Rows without a format are sampled normally: their distribution is not changed.
    """
    yield from run_together(model, [row for row in rows if row.cursor is None], settings)
    drafts = [_Draft(row) for row in rows if row.cursor is not None]
    is_over = False
    try:
        yield from _Drafts(weighing(model), drafts, settings, how, known).run()
        is_over = not settings.cancelled()
    finally:
        if not is_over:
            for draft in drafts:
                known.drop(draft.key)


class _Draft:
    """A sample, with the draft that is being written.

    Attributes:
        start: the sequence before its first token.
        row: the current draft.
        key: identifies the trie, which samples of one prompt share.
        node: the draft's current node; None if the trie does not have it.
        last: the previous node; `token` leads from it to the current one.
        kept: the mass below `token` that was not known to be lost when the token was chosen.
        pick: what was drawn at `node` among its unlisted tokens; None if nothing was.
        fresh: the probabilities of all tokens at the nodes that were computed last.
    """

    def __init__(self, row: Row) -> None:
        self.start = row
        self.row = row.fork()
        self.key: Hashable = _key(row)
        self.uniform = stream_of(row.key)
        self.last: Node | None = None
        self.node: Node | None = None
        self.token = -1
        self.kept = 1.0
        self.pick: Pick | None = None
        self.fresh: dict[int, Position] = {}


class _Drafts:
    """The drafts of one batch, one of each sample at a time."""

    def __init__(
        self, model: WeighingModel, drafts: Sequence[_Draft], settings: LoopSettings, how: Faithful, known: LostMass
    ) -> None:
        self._model = model
        self._drafts = drafts
        self._settings = settings
        self._how = how
        self._known = known
        self._keys = {draft.key for draft in drafts}
        forces = settings.forced_text != "off"
        self._batch = WeighedBatch(model, len(drafts), forces=forces, with_end=how.with_end)

    def run(self) -> Iterator[GenerationEvent]:
        open_drafts = dict(enumerate(self._drafts))
        for draft in open_drafts.values():
            self._to_root(draft)
        while open_drafts:
            if self._settings.cancelled():
                yield from ended([draft.row for draft in open_drafts.values()], self._settings)
                return
            for slot, draft in [*open_drafts.items()]:
                self._advance(draft)
                if draft.row.stopped is not None:
                    del open_drafts[slot]
                    self._batch.remember(slot)
                    yield from news(draft.row, self._settings)
            found = self._batch.weigh({slot: draft.row for slot, draft in open_drafts.items()}, open_drafts)
            for slot, draft in open_drafts.items():
                if slot in found:
                    self._learn(draft, found[slot])

    def _advance(self, draft: _Draft) -> None:
        """Continue until the draft is kept or needs the model; a new draft replaces a rejected one."""
        while draft.row.stopped is None and (node := draft.node) is not None:
            if draft.pick is None:
                mass = draft.uniform() * draft.kept
                if draft.row.log_weight is not None and node.kept > 0:  # nothing is rejected; the weight corrects it
                    draft.row.log_weight += math.log(node.kept / draft.kept)
                    mass *= node.kept / draft.kept
                if mass >= node.kept:
                    self._throw_away(draft)
                    continue
                pick = node.pick(mass)
                if pick.token is not None:
                    self._take(draft, node, pick.token, pick.share, pick.kept)
                    continue
                draft.pick = pick
            position = draft.fresh.get(id(node))
            if position is None:
                return
            token, draft.pick = node.unlisted(position.row, draft.pick), None
            if token is None:
                self._throw_away(draft)
                continue
            self._known.list_also(draft.key, node, token, position.row)
            self._take(draft, node, token, float(position.row[token]), 1.0)

    def _take(self, draft: _Draft, node: Node, token: int, share: float, kept: float) -> None:
        row = draft.row
        row.chosen.append(chosen_at(node, token, share))
        row.take(token, self._model.vocabulary, self._settings.stop_ids)
        row.pending = []
        draft.last, draft.token, draft.kept = node, token, kept
        draft.node = node.children.get(token)
        if row.stopped == "length":  # an output that does not end is not an output of the format
            node.lose(token)
            self._throw_away(draft)
        elif row.stopped is not None:
            node.learnt()

    def _throw_away(self, draft: _Draft) -> None:
        """Learn from a rejected draft, and begin another one."""
        deepest = draft.node or draft.last
        if deepest is not None:
            deepest.learnt()
        old, how = draft.row, self._how
        draft.row = row = draft.start.fork()
        row.passes, row.draws = old.passes, old.draws + 1
        self._to_root(draft)
        if old.draws % how.max_draws == 0 and draft.node is not None and draft.node.kept > 0:
            if how.otherwise == "error" or old.log_weight is not None:
                row.draws = old.draws
                row.fail(NoExactSample(old.draws, draft.node.kept))
            row.log_weight = 0.0
        else:
            row.log_weight = None if old.log_weight is None else 0.0
        if row.log_weight is not None and draft.node is not None and draft.node.kept > 0:
            row.log_weight = math.log(draft.node.kept)

    def _to_root(self, draft: _Draft) -> None:
        draft.last, draft.pick, draft.fresh = None, None, {}
        draft.node = self._known.root(draft.key)
        draft.kept = 1.0 if draft.node is None else draft.node.kept
        if draft.node is not None and draft.kept <= 0:
            draft.row.fail(NoExactSample(draft.row.draws, 0.0))

    def _learn(self, draft: _Draft, found: list[Position]) -> None:
        """Put the model's probabilities into the trie, and give them to the draft."""
        draft.fresh = {}
        if draft.node is not None:  # the node is known, except for its unlisted tokens
            draft.fresh[id(draft.node)] = found[0]
            return
        node, token = draft.last, draft.token
        for position in found:
            if node is None:
                root = self._known.root(draft.key)
                node = self._known.begin(draft.key, position.node, self._keys) if root is None else root
            else:
                node = self._known.add(draft.key, node, token, position.node)
            draft.fresh[id(node)] = position
            draft.node = draft.node or node
            token = -1 if position.forced is None else position.forced


def _key(row: Row) -> Hashable:
    """Return what rows with the same trie share: prompt, format, text written so far, length and sampling."""
    format = None if row.cursor is None else row.cursor.formatter.compiled.format.key()
    written = 0 if row.resumed is None else len(row.resumed.tokens)
    return row.before, format, written, row.room, sampling_of(row)
