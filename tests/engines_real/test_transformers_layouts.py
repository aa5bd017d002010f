"""Every layout on a model of transformers: answers drawn under the masks are complete, valid, and read back alike.

With FORMATTER_CHAT_TEMPLATES, a folder of chat templates such as `models/templates` of llama.cpp, those whose layout is
found there write the prompts; else a small one does that opens the reasoning, if the layout has any.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

from formatter_core import ChatAnswer, Layout, formats, parse  # noqa: E402
from formatter_core.errors import UnsupportedLayout  # noqa: E402
from formatter_core.generation import completion  # noqa: E402
from formatter_transformers import transformers_model  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "tiny_model"
PLAIN = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}Answer: {% endif %}"
SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "maximum": 9}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "set_light": {
        "type": "object",
        "properties": {
            "on": {"type": "boolean"},
            "rooms": {"type": "array", "items": {"type": "string", "enum": ["kitchen", "hall"]}, "maxItems": 2},
            "note": {"type": "string", "maxLength": 8},
        },
        "required": ["on", "rooms"],
        "additionalProperties": False,
    },
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "Acts.", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
#: The most tokens that a draw needs; calls are long if each character is a token.
MOST = 300


def chat_templates() -> dict[str, list[str]]:
    """Return the chat templates at hand, by the name of their layout."""
    found: dict[str, list[str]] = {}
    folder = os.environ.get("FORMATTER_CHAT_TEMPLATES")
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    for path in sorted(Path(folder).glob("*.jinja")) if folder else ():
        tokenizer.chat_template = path.read_text(encoding="utf-8")
        try:
            layout = Layout.from_tokenizer(tokenizer)
        except UnsupportedLayout:
            continue
        found.setdefault(layout.name, []).append(tokenizer.chat_template)
    return found


@pytest.fixture(scope="module")
def templates() -> dict[str, list[str]]:
    return chat_templates()


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    return (
        transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32),
        transformers.AutoTokenizer.from_pretrained(FOLDER),
    )


def with_markers(loaded: tuple[Any, Any], layout: Layout) -> tuple[Any, Any]:
    """Make the model and its tokenizer; a marker that is no common text is a special token, as in chat models."""
    model, tokenizer = copy.deepcopy(loaded)
    special = [marker for marker in layout.markers if marker[0] in "<[" and marker[-1] in ">]"]
    tokenizer.add_tokens([transformers.AddedToken(marker, special=True, normalized=False) for marker in special])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.config.max_position_embeddings = 8_192  # tools make prompts long
    return model, tokenizer


@pytest.mark.parametrize("name", Layout.names())
def test_a_drawn_answer_is_complete_and_read_back(
    name: str, loaded: tuple[Any, Any], templates: dict[str, list[str]]
) -> None:
    layout = Layout.named(name)
    torch_model, tokenizer = with_markers(loaded, layout)
    opening = layout.reasoning.open if layout.reasoning is not None else ""
    for template in templates.get(name) or [PLAIN.replace("Answer: ", "Answer: " + opening.replace("\n", "\\n"))]:
        tokenizer.chat_template = template
        model = transformers_model(torch_model, tokenizer=tokenizer)
        prompt = tokenizer.apply_chat_template(MESSAGES, tools=TOOLS, tokenize=False, add_generation_prompt=True)
        for choice, parallel in (("auto", True), ("required", False)):
            format = formats.chat_answer(
                layout, tools=TOOLS, tool_choice=choice, parallel=parallel,
                max_reasoning_tokens=MOST // 4 if layout.reasoning is not None else None,
            )  # fmt: skip
            written = completion(model, format, max_tokens=MOST, temperature=1.0)(MESSAGES, seed=7)
            assert written.result.is_complete, written.text
            answer = written.value
            assert isinstance(answer, ChatAnswer)
            vocabulary = model.compiler.vocabulary
            text = b"".join(vocabulary.spelled(token) for token in written.tokens if token not in vocabulary.end_ids)
            assert parse(format.after(prompt), text.decode()).value == answer
            assert answer.tool_calls or choice == "auto"
            assert parallel or len(answer.tool_calls) <= 1
            for call in answer.tool_calls:
                jsonschema.validate(json.loads(json.dumps(call.arguments)), SCHEMAS[call.name])
