"""Tool calls: the model must call a tool with arguments that the tool takes, and the call is run.

python examples/tool_calls.py                          # the small model in this folder; no download
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from formatter_core import formats
from formatter_core.generation import completion
from formatter_transformers import transformers_model

PROMPT = "Zoë, a nurse from Kraków, is 29.\n"
Text = Annotated[str, {"maxLength": 20}]


def add_person(name: Text, age: int, city: Text, job: Text) -> str:
    """Put a person into the address book."""
    return f"added {name}, {age}, a {job} from {city}"


TOOLS: dict[str, Callable[..., Any]] = {"add_person": add_person}


def main() -> None:
    model = transformers_model(str(Path(__file__).parent / "tiny_model"))
    answer = formats.chat_answer("hermes", tools=list(TOOLS.values()), tool_choice="required", parallel=False)
    output = completion(model, answer, max_tokens=120)(PROMPT)
    print(f"the model wrote  {output.text!r}")
    for call in output.value.tool_calls:
        print(f"the call         {call.name}({call.arguments})")
        print(f"the tool says    {TOOLS[call.name](**call.arguments)}")


if __name__ == "__main__":
    main()
