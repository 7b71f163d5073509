"""Greedy texts against transformers, on CPU and in fp32: `rondo generate` chooses the same tokens.

python3 generate_parity.py RONDO: transformers creates tiny models with random weights and saves them. Prints the
number of tokens of each text, and exits with 1 if a token differs.
"""
import os
import subprocess

import deepseek_parity
import llama_parity
import parity
import torch

BYTES, BOS = 258, 256  # the byte tokenizer's: as many ids, and the one before every text
NEW_TOKENS = 40
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
PROMPTS = ["Hello", "a", "the quick brown fox jumps over the lazy dog"]
MODELS = {
    "Llama 3": (llama_parity.FAMILY, {}),
    "Llama 3 with grouped queries and tied embeddings": (llama_parity.FAMILY, dict(num_key_value_heads=2,
                                                                            tie_word_embeddings=True)),
    "DeepSeek-V3": (deepseek_parity.FAMILY, {}),
}


def ours(rondo, folder, prompt):
    command = [rondo, "generate", folder, "--tokenizer=bytes", "--ids", f"--max-new-tokens={NEW_TOKENS}",
               f"--prompt={prompt}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ONE_THREAD, check=True,
                          text=True)
    return [int(word) for word in done.stdout.split()]


def theirs(model, prompt):
    ids = torch.tensor([[BOS, *prompt.encode()]])
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS)
    return made[0, ids.shape[1]:].tolist()


def compare(rondo, scratch):
    failures = 0
    for number, (name, (family, fields)) in enumerate(MODELS.items()):
        folder = scratch / str(number)
        model = parity.save(family, parity.make_model(family, {**fields, "vocab_size": BYTES}), folder)
        for prompt in PROMPTS:
            mine, wanted = ours(rondo, folder, prompt), theirs(model, prompt)
            failures += mine != wanted
            print(f"{'ok  ' if mine == wanted else 'FAIL'} {name}, {prompt!r}: {len(wanted)} tokens")
            if mine != wanted:
                print(f"     rondo        {mine}\n     transformers {wanted}")
    return failures


if __name__ == "__main__":
    parity.in_scratch(compare)
