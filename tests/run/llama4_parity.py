"""Llama 4's text model against transformers: python3 llama4_parity.py RONDO. See parity.py."""
import torch
from parity import Family, compare_all
from transformers import Llama4Config, Llama4ForCausalLM, Llama4ForConditionalGeneration, Llama4TextConfig
from transformers.models.llama4.configuration_llama4 import Llama4VisionConfig

SCALED = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 16.0, "low_freq_factor": 1.0,
          "high_freq_factor": 1.0, "original_max_position_embeddings": 32}
SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=48, intermediate_size_mlp=80, num_hidden_layers=4,
             num_attention_heads=4, num_key_value_heads=2, head_dim=24, num_local_experts=8, num_experts_per_tok=1,
             interleave_moe_layer_step=1, attention_chunk_size=7, floor_scale=5, attn_scale=0.1, use_qk_norm=True,
             max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=None,
             rope_parameters=SCALED)

# Family.shapes of this family.
SHAPES = {
    "Scout's parts, chunks shorter than the sequence": ({}, 33, {}),
    "Maverick's parts: dense layers between, no norm": (
        dict(interleave_moe_layer_step=2, use_qk_norm=False,
             rope_parameters={"rope_type": "default", "rope_theta": 500000.0}), 33, {}),
    "a chunk longer than the sequence": (dict(attention_chunk_size=64), 33, {}),
    "chunks of two tokens": (dict(attention_chunk_size=2), 21, {}),
    "rotation blended between long and short waves": (
        dict(rope_parameters={**SCALED, "factor": 8.0, "high_freq_factor": 4.0}, attention_chunk_size=40), 72, {}),
    "no rotation at all, queries that grow fast": (dict(no_rope_layer_interval=1, attn_scale=0.3, floor_scale=3),
                                                    21, {}),
    "queries that do not grow": (dict(attn_temperature_tuning=False, num_key_value_heads=4), 33, {}),
    "two experts a token": (dict(num_experts_per_tok=2), 33, {}),
    "experts that get no token": (dict(num_local_experts=64), 5, {}),
    "odd sizes": (dict(hidden_size=45, intermediate_size=13, intermediate_size_mlp=29, num_attention_heads=9,
                       num_key_value_heads=3, head_dim=10, num_local_experts=9, vocab_size=131, num_hidden_layers=7,
                       interleave_moe_layer_step=3, no_rope_layer_interval=2), 21, {}),
    "tied embeddings": (dict(tie_word_embeddings=True), 33, {}),
    "saved in bfloat16, in many files": ({}, 33, dict(dtype=torch.bfloat16, max_shard_size="60KB")),
    "inside of the model of texts and images": (dict(interleave_moe_layer_step=2), 33, dict(whole=True)),
}


def rewrite(folder, whole=False):
    """Replaces a saved model by one of texts and images that contains it, and saves the text model in folder/text."""
    if not whole:
        return folder
    text = Llama4ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    vision = Llama4VisionConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                                vision_output_dim=16, image_size=28, patch_size=14, projector_input_dim=16,
                                projector_output_dim=16)
    model = Llama4ForConditionalGeneration(Llama4Config(text_config=text.config.to_dict(), vision_config=vision))
    model.language_model.load_state_dict(text.state_dict())
    text.save_pretrained(folder / "text")
    model.save_pretrained(folder)
    return folder / "text"


FAMILY = Family(Llama4TextConfig, Llama4ForCausalLM, SMALL, SHAPES, rewrite, ("whole",))

if __name__ == "__main__":
    compare_all(FAMILY)
