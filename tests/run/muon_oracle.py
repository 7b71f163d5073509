"""Steps of Muon against torch.optim.Muon: python3 muon_oracle.py RONDO [sample]. See parity.py.

transformers computes the gradients, torch.optim.Muon updates the matrices of hidden layers, and torch.optim.AdamW all
other parameters. Rondo trains from the same weights on the same tokens and exports what it has after one step or ten.
torch's Newton-Schulz iterations run in fp32 here, as Rondo's do without mixed precision. A difference is the largest of
any element, divided by the largest change of an element of the same tensor.
"""
import subprocess
import sys

import torch
from deepseek_parity import FAMILY as DEEPSEEK
from llama_parity import FAMILY as LLAMA
from parity import in_scratch, make_model, save
from safetensors.torch import load_file

# AdamW turns the rounding of gradients far below EPS into updates far below RATE.
LENGTH, RATE, DECAY, EPS = 32, 0.02, 0.1, 1e-3
TOLERANCE = 5e-4  # the largest difference measured is 1.2e-4
OTHER = dict(adjust_lr_fn="original", nesterov=False, momentum=0.8, ns_steps=3)
CASES = {
    "Llama, other settings, one step": (LLAMA, dict(num_key_value_heads=2), OTHER, 1),
    "Llama": (LLAMA, {}, {}, 10),
    "DeepSeek-V3": (DEEPSEEK, dict(n_group=1, topk_group=1), {}, 10),
}


def matrices_of(name, parameter):
    """The matrices of hidden layers that a parameter consists of, as views; [] for any other parameter."""
    if not name.startswith("model.layers.") or parameter.dim() < 2 or name.endswith(".gate.weight"):
        return []
    if parameter.dim() == 2:
        return [parameter]
    return [half for expert in parameter for half in (expert.chunk(2) if "gate_up" in name else [expert])]


def train(model, tokens, steps, muon):
    """Trains on one row of tokens."""
    parameters = dict(model.named_parameters())
    matrices = [(parameter, matrix.detach(), torch.nn.Parameter(matrix.detach().clone()))
                for name, parameter in parameters.items() for matrix in matrices_of(name, parameter)]
    optimizers = [
        torch.optim.Muon([own for _, _, own in matrices], lr=RATE, weight_decay=DECAY,
                         **{"adjust_lr_fn": "match_rms_adamw", **muon}),
        torch.optim.AdamW([p for name, p in parameters.items() if not matrices_of(name, p)], lr=RATE,
                          betas=(0.9, 0.95), eps=EPS, weight_decay=DECAY)]
    for _ in range(steps):
        model.zero_grad()
        logits = model(tokens[None]).logits[0]
        torch.nn.functional.cross_entropy(logits, tokens.roll(-1)).backward()
        for parameter, matrix, own in matrices:
            own.grad = parameter.grad.as_strided(matrix.shape, matrix.stride(), matrix.storage_offset()).clone()
        for optimizer in optimizers:
            optimizer.step()
        for _, matrix, own in matrices:
            matrix.copy_(own.detach())


def exported(rondo, folder, steps, muon):
    run = folder / f"run-{steps}"
    flags = {"job.dump_folder": run, "model.hf_config": folder, "training.dataset_path": folder / "row.ds",
             "training.tokenizer": "bytes", "training.local_batch_size": 1, "training.seq_len": LENGTH,
             "training.steps": steps, "training.mixed_precision_param": "float32", "training.max_norm": "inf",
             "lr_scheduler.warmup_steps": 0, "lr_scheduler.decay_ratio": 0, "optimizer.name": "Muon",
             "optimizer.lr": RATE, "optimizer.weight_decay": DECAY, "optimizer.eps": EPS,
             "optimizer.muon_momentum": muon.get("momentum", 0.95),
             "optimizer.muon_nesterov": str(muon.get("nesterov", True)).lower(),
             "optimizer.muon_ns_steps": muon.get("ns_steps", 5),
             "optimizer.muon_adjust_lr": muon.get("adjust_lr_fn", "match_rms_adamw"),
             "checkpoint.enable": "true", "checkpoint.initial_load_in_hf": "true",
             "checkpoint.initial_load_path": folder, "checkpoint.last_save_in_hf": "true",
             "checkpoint.export_dtype": "float32", "model.load_balance_coeff": 0}
    if "deepseek" not in (folder / "config.json").read_text():
        del flags["model.load_balance_coeff"]
    config = folder / "empty.toml"
    config.touch()
    done = subprocess.run([rondo, "train", config, *(f"--{key}={value}" for key, value in flags.items())], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    weights = {}
    for file in (run / "checkpoint" / f"step-{steps}-hf").glob("*.safetensors"):
        weights.update(load_file(file))
    return weights


def compare(rondo, folder, family, fields, muon, steps):
    """Returns the largest difference and its parameter."""
    torch.manual_seed(1)
    folder.mkdir()
    model = save(family, make_model(family, dict(vocab_size=258, **fields)), folder)
    before = load_file(folder / "model.safetensors")
    tokens = torch.randint(model.config.vocab_size, (LENGTH,))
    rows = tokens.repeat(steps + 2).to(torch.uint16).numpy()
    rows.tofile(folder / "row.ds")
    torch.tensor([len(rows)], dtype=torch.int64).numpy().tofile(folder / "row.ds.index")
    model.train()
    train(model, tokens, steps, muon)
    model.save_pretrained(folder / "torch")
    theirs, ours = load_file(folder / "torch" / "model.safetensors"), exported(rondo, folder, steps, muon)
    assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
    changes = {name: (theirs[name] - before[name]).abs().max() for name in theirs}
    worst = {name: ((ours[name] - theirs[name]).abs().max() / changes[name]).item()
             for name in theirs if changes[name] > 0}
    return max((value, name) for name, value in worst.items())


def test(rondo, scratch):
    torch.Tensor.bfloat16 = torch.Tensor.clone  # the dtype of torch's iterations
    failures = 0
    cases = list(CASES.items())[:1 if "sample" in sys.argv else None]
    for number, (case, (family, fields, muon, steps)) in enumerate(cases):
        worst, name = compare(rondo, scratch / str(number), family, fields, muon, steps)
        failures += not worst <= TOLERANCE
        print(f"{'ok  ' if worst <= TOLERANCE else 'FAIL'} {case:32} {worst:.1e} ({name})")
    return failures


if __name__ == "__main__":
    in_scratch(test)
