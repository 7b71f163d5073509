"""Reads exported folders with the transformers that Python finds: python3 read_export.py FOLDER TOKENIZER TEXT OUT.

The version may be another than that which writes the models of the tests. TOKENIZER is the folder whose tokenizer_class
decides how a text becomes ids, TEXT a file.
"""
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def ids_of(folder, text):
    return AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]


def logits_of(folder, ids, **options):
    """Fails unless every weight of the model is in the folder, and none is left over."""
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                         output_loading_info=True, **options)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not report.get(problem), (problem, report[problem])
    with torch.no_grad():
        return model(torch.tensor([ids])).logits


if __name__ == "__main__":
    folder, tokenizer, text, out = sys.argv[1:]
    ids = ids_of(tokenizer, pathlib.Path(text).read_text(encoding="utf-8"))
    save_file({"ids": torch.tensor(ids), "logits": logits_of(folder, ids)}, out)
