"""Models of transformers against Rondo, on CPU and in fp32: logits and the gradients of all parameters.

transformers creates models of many shapes with random weights and saves them; `rondo logits` reads them. A difference
is the largest absolute difference of a tensor's elements, divided by the largest absolute element of that tensor, or of
the tensors that it is measured with. A family of models is a Family below; see llama_parity.py.
"""
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Callable

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
import torch
from safetensors.torch import load_file
from transformers.utils import logging

# fp32 has a precision of 6e-8. Sums in other orders differ by at most 7e-6 (measured on x86-64).
TOLERANCE = 2e-5


@dataclasses.dataclass
class Family:
    config: type
    model: type
    small: dict   # the fields of every shape
    # name: (fields that differ from `small`, tokens in a sequence, options of saving: dtype, save_pretrained's options,
    # and arguments of `rewrite`)
    shapes: dict
    # Called as rewrite(folder, **options) after a model was saved; returns the folder that transformers can read.
    rewrite: Callable = lambda folder: folder
    rewrite_options: tuple = ()
    # {name as saved: gradient}
    gradients: Callable = lambda model: {name: parameter.grad for name, parameter in model.named_parameters()}
    # The names of the gradients whose largest element measures that of `name`.
    measured_with: Callable = lambda name, names: [name]
    options: dict = dataclasses.field(default_factory=dict)  # of from_pretrained


def make_model(family, fields):
    """Random weights of a size at which every part of the model matters to the logits."""
    config = family.config(**{**family.small, **fields})
    model = family.model._from_config(config, attn_implementation="eager").float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.2)
            elif "embed" in name and not config.tie_word_embeddings:
                parameter.normal_(0.0, 1.0)
            else:
                parameter.normal_(0.0, 1.5 / parameter.shape[-1] ** 0.5)
        for name, buffer in model.named_buffers():
            if "e_score_correction_bias" in name:
                buffer.normal_(0.0, 0.1)
    return model


def save(family, model, folder, dtype=torch.float32, **how):
    """Saves the model in `dtype`, and returns the model that transformers reads from the files in fp32."""
    rewriting = {name: how.pop(name) for name in family.rewrite_options if name in how}
    model.to(dtype).save_pretrained(folder, **how)
    if "max_shard_size" in how:
        assert (folder / "model.safetensors.index.json").exists(), "the model was to be saved in many files"
    return family.model.from_pretrained(family.rewrite(folder, **rewriting), dtype=torch.float32,
                                        attn_implementation="eager", **family.options)


def difference(ours, theirs, scale):
    assert ours.shape == theirs.shape and ours.dtype == torch.float32, (ours.shape, theirs.shape, ours.dtype)
    return ((ours - theirs).abs().max() / scale).item()


def compare(family, rondo, folder, fields, length, how):
    """Returns (difference of the logits, largest difference of a gradient and its name)."""
    model = save(family, make_model(family, fields), folder, **how)
    tokens = torch.randint(model.config.vocab_size, (3, length))
    (folder / "tokens.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in tokens.tolist()))
    command = [rondo, "logits", folder, "--tokens", folder / "tokens.txt", "--out", folder / "logits.safetensors",
               "--gradients", folder / "gradients.safetensors"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    result = model(tokens, labels=tokens)
    result.loss.backward()
    output, _ = process.communicate()
    assert process.returncode == 0, output
    ours = load_file(folder / "logits.safetensors")
    assert list(ours) == ["logits"], list(ours)
    gradients = load_file(folder / "gradients.safetensors")
    wanted = family.gradients(model)
    assert set(gradients) == set(wanted), set(gradients) ^ set(wanted)
    largest = {name: gradient.abs().max() for name, gradient in wanted.items()}
    worst = (0.0, "")
    for name, theirs in wanted.items():
        scale = max(largest[other] for other in family.measured_with(name, wanted))
        worst = max(worst, (difference(gradients[name], theirs, scale), name))
    logits = result.logits.detach()
    return difference(ours["logits"], logits, logits.abs().max()), *worst


def in_scratch(test):
    """Calls test(RONDO, an empty folder) with the program of the command line; exits with 1 after any failure."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        failures = test(sys.argv[1], pathlib.Path(scratch))
    sys.exit(1 if failures else 0)


def compare_families(families, rondo, scratch):
    """Prints the differences. Returns how many are above the tolerance."""
    failures = 0
    for family in families:
        torch.manual_seed(1)
        print(family.model.__name__)
        for number, (name, (fields, length, how)) in enumerate(family.shapes.items()):
            folder = scratch / f"{family.model.__name__} {number}"
            logits, gradient, parameter = compare(family, rondo, folder, fields, length, how)
            good = max(logits, gradient) <= TOLERANCE
            failures += not good
            print(f"{'ok  ' if good else 'FAIL'} {name:45} logits {logits:.1e}  "
                  f"gradients {gradient:.1e} ({parameter})")
    return failures


def compare_all(*families):
    in_scratch(lambda rondo, scratch: compare_families(families, rondo, scratch))
