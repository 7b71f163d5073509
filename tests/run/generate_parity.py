"""Greedy texts against transformers, on CPU and in fp32: `rondo generate` chooses the same tokens.

python3 generate_parity.py RONDO FOLDER: transformers makes tiny models with random weights and saves them into FOLDER.
Prints the number of tokens of each text, and exits 1 where one differs.
"""
import os
import pathlib
import subprocess
import sys

import deepseek_parity
import llama_parity
import torch
from transformers.utils import logging

BYTES, BOS = 258, 256  # the byte tokenizer's: as many ids, and the one before every text
NEW_TOKENS = 40
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
PROMPTS = ["Hello", "a", "the quick brown fox jumps over the lazy dog"]
MODELS = {
    "Llama 3": (llama_parity, {}),
    "Llama 3 with grouped queries and tied embeddings": (llama_parity, dict(num_key_value_heads=2,
                                                                            tie_word_embeddings=True)),
    "DeepSeek-V3": (deepseek_parity, {}),
}


def ours(rondo, folder, prompt):
    command = [rondo, "generate", folder, "--tokenizer=bytes", "--ids", f"--max-new-tokens={NEW_TOKENS}",
               f"--prompt={prompt}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ONE_THREAD, check=True, text=True)
    return [int(word) for word in done.stdout.split()]


def theirs(model, prompt):
    ids = torch.tensor([[BOS, *prompt.encode()]])
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS)
    return made[0, ids.shape[1]:].tolist()


def main(rondo, folder):
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    failures = 0
    for number, (name, (parity, fields)) in enumerate(MODELS.items()):
        place = pathlib.Path(folder) / str(number)
        model = parity.save(parity.make_model({**fields, "vocab_size": BYTES}), place)
        for prompt in PROMPTS:
            mine, wanted = ours(rondo, place, prompt), theirs(model, prompt)
            failures += mine != wanted
            print(f"{'ok  ' if mine == wanted else 'FAIL'} {name}, {prompt!r}: {len(wanted)} tokens")
            if mine != wanted:
                print(f"     rondo        {mine}\n     transformers {wanted}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
