"""Forced text as drafts: what hooks propose to loops that verify drafts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the transformers adapter needs torch")

from formatter_core import CompiledFormat, Compiler, Vocabulary, formats  # noqa: E402
from formatter_core.errors import InvalidArgument, InvalidVocabulary  # noqa: E402
from tests.adapters.llama_cpp_stand_ins import Llama, llama_cpp_of  # noqa: E402
from tests.adapters.mlx_stand_ins import mlx_of  # noqa: E402
from tests.adapters.transformers_loops import generate, provide_transformers  # noqa: E402

provide_transformers()

END, WIDTH = 256, 260
FORMAT = formats.regex("size: [0-9]{1,2} cm, (good|bad)")


def compiled() -> CompiledFormat:
    return Compiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])).compile(FORMAT)


class Tokenizer:
    """One token for each byte, or no text at all."""

    def __init__(self, *, spells: bool = True) -> None:
        self.spells = spells

    def __len__(self) -> int:
        return WIDTH

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode()

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return list(map(chr, ids))

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return list(text.encode()) if self.spells else [END]

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": self.encode(text, add_special_tokens)}


#: Texts, each with the text that must follow.
CASES = [
    ("", "size: "),
    ("si", "ze: "),
    ("size: 1", ""),
    ("size: 12", " cm, "),
    ("size: 1 ", "cm, "),
    ("size: 1 cm, g", "ood"),
]


class TestTransformers:
    def proposed(self, text: str, tokenizer: Any, most: int = 16, prompts: int = 1) -> list[int]:
        """Return the text proposed after a text, and check that the masks are those without a proposal."""
        from formatter_transformers import ForcedDrafts, FormatterLogitsProcessor

        drafts, hook = ForcedDrafts(tokenizer), FormatterLogitsProcessor([compiled()])
        prompt = [1, 2, 3]

        def decode(processors: Any) -> list[int]:
            found: list[int] = []
            for count in range(len(text) + 1):
                ids = torch.tensor([[*prompt, *text[:count].encode()]] * prompts)
                found = drafts.propose(hook, ids, most)
                allowed = processors(ids, torch.zeros((prompts, WIDTH)))[0].isfinite().nonzero().flatten().tolist()
                assert not found or found[0] in allowed
            return found

        return generate(decode, hook)

    @pytest.mark.parametrize(("text", "follows"), CASES)
    def test_certain_text(self, text: str, follows: str) -> None:
        assert bytes(self.proposed(text, Tokenizer())).decode() == follows
        assert bytes(self.proposed(text, Tokenizer(), most=2)).decode() == follows[:2]
        assert self.proposed(text, Tokenizer(), most=0) == []

    def test_a_tokenizer_without_these_tokens(self) -> None:
        assert self.proposed("", Tokenizer(spells=False)) == []

    def test_several_rows(self) -> None:
        """They are refused before there is a loop; a hook does not say which row is meant."""
        from formatter_transformers import FormatterLogitsProcessor

        assert self.proposed("", Tokenizer(), prompts=2) == []
        with pytest.raises(InvalidArgument, match="one row"):
            FormatterLogitsProcessor([compiled()]).formatter_after(torch.tensor([[1], [2]]))

    def test_no_format(self) -> None:
        from formatter_transformers import ForcedDrafts, FormatterLogitsProcessor

        assert ForcedDrafts(Tokenizer()).propose(FormatterLogitsProcessor([None]), torch.tensor([[1]]), 9) == []

    def test_a_row_that_failed_or_ended(self) -> None:
        for text in ("sizes", "size: 1 cm, good\0"):
            from formatter_transformers import ForcedDrafts, FormatterLogitsProcessor

            hook = FormatterLogitsProcessor([compiled()])

            def decode(processors: Any, text: str = text, hook: Any = hook) -> list[int]:
                ids = [1, *(END if byte == 0 else byte for byte in text.encode())]
                for count in range(1, len(ids) + 1):
                    processors(torch.tensor([ids[:count]]), torch.zeros((1, WIDTH)))
                return ForcedDrafts(Tokenizer()).propose(hook, torch.tensor([ids]), 9)

            assert generate(decode, hook) == []


@pytest.mark.parametrize("release", ["0.2.90", "0.3.36"])
def test_llama_cpp(release: str) -> None:
    """The text is that without drafts, and most of it is proposed."""
    with llama_cpp_of(release):
        from formatter_llama_cpp import ForcedDrafts, create_logits_processor

        drafts = ForcedDrafts(most=4)
        for seed in range(6):
            texts = []
            for options in ({}, {"draft_model": drafts}):
                llama = Llama(release, seed=seed, **options)
                with create_logits_processor(llama, FORMAT) as processor:
                    output = llama.create_completion("the", logits_processor=processor)
                    texts.append(processor.result(output).text)
                assert not llama.swallowed
            assert texts[0] == texts[1]
        assert drafts.proposed > 20


class TestMlx:
    class Model:
        layers = ()

        def __call__(self, ids: np.ndarray) -> np.ndarray:
            return np.zeros((*ids.shape, WIDTH), np.float32)

    def left(self, text: str, tokenizer: Any) -> tuple[set[int], int]:
        """Return the ids that a proposal leaves after a text, and how many were proposed."""
        from formatter_mlx import ForcedDrafts
        from formatter_mlx.sequences import Sequence

        drafts = ForcedDrafts(self.Model(), tokenizer)
        sequence = Sequence(compiled(), np.array([1, 2], np.int64), True)
        sequence.follow(np.array([1, 2, *text.encode()], np.int64))
        logits = drafts(np.zeros((1, 1), np.int64), drafts.make_cache())
        found = drafts.propose(sequence, np.asarray(logits)[:, -1])
        return {int(token) for token in np.flatnonzero(np.isfinite(found[0]))}, drafts.proposed

    @pytest.mark.parametrize(("text", "follows"), CASES)
    def test_certain_text(self, text: str, follows: str) -> None:
        with mlx_of():
            ids, proposed = self.left(text, Tokenizer())
            if follows:
                assert (ids, proposed) == ({ord(follows[0])}, 1)
            else:
                assert (ids, proposed) == ({*b"0123456789 "}, 0)
            assert self.left(text, Tokenizer(spells=False))[1] == 0

    def test_what_is_refused(self) -> None:
        with mlx_of():
            from formatter_mlx import ForcedDrafts

            for model in (None, 5):
                with pytest.raises(InvalidArgument):
                    ForcedDrafts(model, Tokenizer())
            with pytest.raises(InvalidVocabulary):
                ForcedDrafts(self.Model(), "a name")
