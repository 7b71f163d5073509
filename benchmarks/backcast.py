#!/usr/bin/env python3
"""Plans published training runs with `rondo plan` and compares. Needs Python's own library only.

One set of constants per device (compiler/plan/cost_model.h); no row has a constant of its own.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

LLAMA_8B = "configs/llama3_8b.toml"
TORCHTITAN = "h100-96gb"  # its published runs: H100 with 96 GB HBM2e, 2.4 TB/s, limited to 500 W
QWEN_1_5B = ["model.dim=1536", "model.n_layers=28", "model.n_heads=12", "model.n_kv_heads=2", "model.ffn_hidden_dim=8960",
             "model.vocab_size=151936", "model.tie_embeddings=true", "model.rope_scaling_factor=1"]

# What, device, ranks, overrides, tokens/s of a GPU, GiB of a GPU (None: not published).
ROWS = [
    ("torchtitan docs, 8B, local batch 2, eager", TORCHTITAN, 8, ["training.local_batch_size=2", "compile.memory_policy=eager"], 5762, 82.4),
    ("the same with torch.compile", TORCHTITAN, 8, ["training.local_batch_size=2", "compile.memory_policy=eager"], 6667, 77.0),
    ("torchtitan docs, 8B on 128, local batch 2, eager", TORCHTITAN, 128, ["training.local_batch_size=2", "compile.memory_policy=eager"], 5605, 67.0),
    ("the same with torch.compile", TORCHTITAN, 128, ["training.local_batch_size=2", "compile.memory_policy=eager"], 6514, 62.0),
    ("SimpleFSDP (#1881), 8B", TORCHTITAN, 8, ["compile.memory_policy=eager"], 7227, 40.96),
    ("FSDP2 eager (#1881), 8B", TORCHTITAN, 8, ["compile.memory_policy=eager"], 7380, 47.82),
    ("SimpleFSDP (#1881), 8B on 64", TORCHTITAN, 64, ["compile.memory_policy=eager"], 4984, 29.37),
    ("FSDP2 eager (#1881), 8B on 64", TORCHTITAN, 64, ["compile.memory_policy=eager"], 5097, 31.41),
    ("graph_trainer (#3429), 8B, policy default", TORCHTITAN, 8, ["compile.memory_policy=default"], 7890, 52.44),
    ("graph_trainer (#3429), 8B, policy full", TORCHTITAN, 8, ["compile.memory_policy=full"], 7006, 32.07),
    ("graph_trainer (#3455), 8B, full inductor, CUDA graph", TORCHTITAN, 8, ["compile.memory_policy=default"], 7403, None),
    ("graph_trainer (#3457), 8B, policy sac_and_offload", TORCHTITAN, 8, ["compile.memory_policy=sac_and_offload"], 7301, None),
    ("SimpleFSDP (#1881), 8B, FSDP 4 x TP 2", TORCHTITAN, 8, ["parallelism.tensor_parallel_degree=2", "compile.memory_policy=eager"], 5881, 28.28),
    ("FSDP2 eager (#1881), 8B, FSDP 4 x TP 2", TORCHTITAN, 8, ["parallelism.tensor_parallel_degree=2", "compile.memory_policy=eager"], 5898, 35.33),
    ("graph_trainer (#3429), 8B, FSDP 4 x TP 2, policy default", TORCHTITAN, 8, ["parallelism.tensor_parallel_degree=2", "compile.memory_policy=default"], 6607, 30.92),
    ("graph_trainer (#3429), 8B, FSDP 4 x TP 2, policy full", TORCHTITAN, 8, ["parallelism.tensor_parallel_degree=2", "compile.memory_policy=full"], 5933, 20.70),
    ("graph_trainer (#3141), 8B, FSDP 4 x TP 2, full inductor", TORCHTITAN, 8, ["parallelism.tensor_parallel_degree=2", "compile.memory_policy=default"], 7522, 38.40),
    ("torchtitan docs, 70B on 256, FSDP 32 x TP 8, bf16", TORCHTITAN, 256, ["configs/llama3_70b.toml", "parallelism.tensor_parallel_degree=8",
                                                                      "training.local_batch_size=16", "compile.memory_policy=full"], 597, None),
    ("graph_trainer (#3429), 16B, FSDP 8, EP 8, local batch 4, policy default", TORCHTITAN, 8,
     ["configs/deepseek_v3_16b.toml", "parallelism.expert_parallel_degree=8", "parallelism.expert_parallel_comm_backend=standard",
      "compile.memory_policy=default"], 8325, 84.78),
    ("graph_trainer (#3429), 16B, FSDP 8, EP 8, local batch 4, policy full", TORCHTITAN, 8,
     ["configs/deepseek_v3_16b.toml", "parallelism.expert_parallel_degree=8", "parallelism.expert_parallel_comm_backend=standard",
      "compile.memory_policy=full"], 7444, 52.02),
    ("KempnerForge, 8B on one H200, 4096 tokens, full", "h200", 1, ["training.seq_len=4096", "training.dtype=bfloat16", "compile.memory_policy=full"], 10471, None),
    ("LLMQ, 1.5B on one H100, 16 x 1024 tokens", "h100", 1, [*QWEN_1_5B, "training.seq_len=1024", "training.local_batch_size=16",
                                           "training.dtype=bfloat16", "compile.memory_policy=none"], 58900, None),
]


def plan(rondo, device, ranks, overrides):
    config = next((o for o in overrides if o.startswith("configs/")), LLAMA_8B)
    overrides = [o for o in overrides if o != config]
    command = [rondo, "plan", config, "--world", str(ranks), "--device", device, "--json",
               "--activation_checkpoint.mode=none", *(f"--{o}" for o in overrides)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"backcast: {' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def error(predicted, published):
    return 100 * (predicted / published - 1)


def table(rondo, errors):
    yield "| run | GPUs | tokens/s, published | planned | error | GiB, published | planned | error | bound by |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for what, device, ranks, overrides, tokens_per_s, gib in ROWS:
        p = plan(rondo, device, ranks, overrides)
        speed, memory = p["tokens_per_s_per_rank"], p["memory"]["total_bytes"] / 2**30
        errors["speed"].append(error(speed, tokens_per_s))
        if gib:
            errors["memory"].append(error(memory, gib))
        theirs = f"{gib:.1f} | {memory:.1f} | {errors['memory'][-1]:+.0f} %" if gib else f"| {memory:.1f} |"
        yield (f"| {what} | {ranks} {device} | {tokens_per_s:,} | {speed:,.0f} | {errors['speed'][-1]:+.0f} % | {theirs} | "
               f"{p['bound']} |")


def summary(name, values):
    absolute = [abs(v) for v in values]
    return (f"{name}: {len(values)} rows, median error {statistics.median(values):+.0f} %, median of its size "
            f"{statistics.median(absolute):.0f} %, largest {max(absolute):.0f} %.")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    a = p.parse_args()
    if not pathlib.Path(a.rondo).exists():
        sys.exit(f"backcast: {a.rondo} is not there; build it first (cmake --build build/cpu)")
    errors = {"speed": [], "memory": []}
    for line in table(a.rondo, errors):
        print(line, flush=True)
    print()
    print(summary("Tokens/s", errors["speed"]))
    print(summary("Memory", errors["memory"]))


if __name__ == "__main__":
    main()
