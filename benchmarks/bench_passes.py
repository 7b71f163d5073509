#!/usr/bin/env python3
"""The debug step with and without the passes that bucket and overlap communication, and under each memory policy.

    benchmarks/bench_passes.py [--rondo build/cpu/rondo] [--ranks 2] [--rounds 3] [--steps 15]

Contestants take turns in every round; medians and minima over all rounds, losses compared, as a table in Markdown.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

CONTESTANTS = {
    "eager": ["--compile.enable=false"],
    "one by one": ["--compile.disable_passes=transformer_block_bucketing,overlap_fsdp"],
    "buckets": ["--compile.disable_passes=overlap_fsdp"],
    "buckets, overlapped (the default)": [],
    "gathers in a group of their own": ["--compile.enable_fsdp_ag_rs_overlap=true"],
    "auto_bucketing": ["--compile.passes=default,auto_bucketing"],
    "policy default": ["--compile.memory_policy=default"],
    "policy min_cut": ["--compile.memory_policy=min_cut"],
    "policy budget": ["--compile.memory_policy=budget"],
    "policy full": ["--compile.memory_policy=full"],
    "policy sac_and_offload": ["--compile.memory_policy=sac_and_offload"],
}
WARM_UP = 3


def run(arguments, flags):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.rondo, "launch", "--nproc-per-node", str(arguments.ranks), "--", "train",
                   "--job.config_file=configs/llama3_debug.toml", f"--job.dump_folder={folder}/run",
                   f"--training.steps={arguments.steps + WARM_UP}", "--validation.enable=false"]
        subprocess.run(command + flags, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rondo", default="build/cpu/rondo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    times = {name: [] for name in CONTESTANTS}
    rounds = {name: [] for name in CONTESTANTS}
    memory, losses = {}, {}
    for _ in range(arguments.rounds):
        for name, flags in CONTESTANTS.items():
            steps = run(arguments, flags)
            seconds = [step["step_time_s"] for step in steps[WARM_UP:]]
            times[name] += seconds
            rounds[name].append(round(1000 * statistics.median(seconds)))
            memory[name] = steps[-1]["memory_gib"] * 1024
            losses[name] = steps[-1]["loss"]
    print(f"| {arguments.ranks} ranks | step, median | minimum | medians of the rounds | peak of tensors |\n|---|---|---|---|---|")
    for name in CONTESTANTS:
        median, least = 1000 * statistics.median(times[name]), 1000 * min(times[name])
        print(f"| {name} | {median:.0f} ms | {least:.0f} ms | {', '.join(map(str, rounds[name]))} | {memory[name]:.0f} MiB |")
    print("\nlosses equal" if len(set(losses.values())) == 1 else f"\nLOSSES DIFFER: {losses}")


if __name__ == "__main__":
    main()
