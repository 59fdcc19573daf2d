"""Writes a llama model of random weights, quantised to q4_0: `python model.py FILE`. It needs PyPI's gguf."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

LAYERS, WIDTH, FEED_FORWARD, HEADS, CONTEXT = 10, 512, 1024, 8, 512
SEED = 26


def write_model(path: str) -> None:
    """Write the file. Its vocabulary is the 256 bytes; the weights come from a fixed seed."""
    random = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "\N{LOWER ONE EIGHTH BLOCK}",
    ]
    types = [2, 3, 3, *[6] * 256, 1]  # unknown, control, byte, normal
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def add(name: str, *shape: int) -> None:
        values: npt.NDArray[np.float32] = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", 1 + values / 10)
            return
        kind = gguf.GGMLQuantizationType.Q4_0
        packed = gguf.quants.quantize(values / np.float32(shape[-1] ** 0.5), kind)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)

    add("token_embd", len(tokens), WIDTH)
    add("output", len(tokens), WIDTH)
    add("output_norm", WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}", FEED_FORWARD, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, number in (
        ("layers", LAYERS),
        ("width", WIDTH),
        ("feed_forward", FEED_FORWARD),
        ("heads", HEADS),
    ):
        print(name, number)


if __name__ == "__main__":
    write_model(sys.argv[1])
