"""The small model of this folder as a GGUF file, which is what llama.cpp loads. Needs the gguf package.

python examples/llama_cpp_tiny_model.py tiny.gguf
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "tiny_model"
#: What the model learnt: a sentence, then a line break, then the answer.
CHAT_TEMPLATE = "{{ messages[-1]['content'] }}\n"
#: The names of the tensors of one layer here and there.
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write(path: Path, folder: Path = FOLDER) -> Path:
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_tokenizer(writer, tokenizer, config)
    heads = config["num_attention_heads"]
    for name, tensor in read_safetensors(folder / "model.safetensors").items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensor = halves_to_pairs(tensor, heads)
        writer.add_tensor(name_in_gguf(name), np.ascontiguousarray(tensor, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict[str, Any], config: dict[str, Any]) -> None:
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    kinds = [gguf.TokenType.CONTROL if vocabulary[token] in special else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The format is a length, a header in JSON, and the tensors one after the other."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = {"F16": "<f2", "F32": "<f4"}[entry["dtype"]]
        tensors[name] = np.frombuffer(data[start + begin : start + end], dtype).reshape(entry["shape"])
    return tensors


def halves_to_pairs(weight: NDArray[Any], heads: int) -> NDArray[Any]:
    """llama.cpp turns neighbouring pairs of a head's rows, transformers the first half with the second."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def name_in_gguf(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, number, rest = name.split(".", 3)
    return f"blk.{number}.{LAYER[rest.removesuffix('.weight')]}.weight"


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
