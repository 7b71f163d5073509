#!/usr/bin/env python3
"""What `rondo plan --search` finds for 17 jobs, beside ways that people found by hand. Needs Python's own library only.

Prints two tables. The first does not depend on the machine: the job, the search, the best by hand, all by plans of this build.
The ways by hand are those of JOBS and, with --hand N, at most N of a grid that an expert's rules draw.
The second has what the search knew after 2, 10 and 60 seconds of processor time. --check PAGE plans jobs again and compares
their rows of the first table."""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys

BF16_MOMENTS = "--optimizer.implementation=fused_opt_states_bf16"
MIN_CUT = "--activation_checkpoint.mode=none --compile.memory_policy=min_cut"
NO_RESHARD = "--parallelism.fsdp_reshard_after_forward=never"
ROUNDS = "--compile.numerics=rounds"


def capacity(factor):
    return f"--parallelism.expert_capacity_factor={factor}"


def divided(pipeline, tensor, sequences, ranks, *more):
    local = sequences // (ranks // pipeline // tensor)
    return " ".join([f"--parallelism.pipeline_parallel_degree={pipeline} --parallelism.tensor_parallel_degree={tensor}",
                     f"--training.local_batch_size={local} --training.global_batch_size={sequences}", *more])


DROP = "--parallelism.expert_overflow=drop"
STATIC = "--parallelism.expert_parallel_comm_backend=static"

# Name, configuration, ranks, device, flags of the job, ways by hand.
JOBS = [
    ("8B", "llama3_8b", 8, "a100-40gb", "", [
        f"{BF16_MOMENTS} {MIN_CUT}", "--activation_checkpoint.mode=none --compile.memory_policy=eager",
        "--parallelism.tensor_parallel_degree=2 --training.global_batch_size=8 " + MIN_CUT + " " + ROUNDS]),
    ("8B, 128k", "llama3_8b", 16, "h100", "--training.seq_len=131072", [
        f"--parallelism.context_parallel_degree=8 --training.global_batch_size=16 {MIN_CUT} {ROUNDS}",
        f"--parallelism.tensor_parallel_degree=8 --training.global_batch_size=16 {MIN_CUT} {ROUNDS}"]),
    ("70B", "llama3_70b", 16, "h100", "", [
        f"{BF16_MOMENTS} {ROUNDS} --training.local_batch_size=1 --training.global_batch_size=128",
        f"{BF16_MOMENTS} " + divided(4, 4, 128, 16), f"{BF16_MOMENTS} " + divided(2, 8, 128, 16)]),
    ("70B", "llama3_70b", 32, "h100", "", [
        "--training.local_batch_size=2 --training.global_batch_size=256",
        f"--training.local_batch_size=2 --training.global_batch_size=256 {ROUNDS}", divided(4, 4, 256, 32)]),
    ("70B", "llama3_70b", 64, "h100", "", [
        "--training.local_batch_size=4 --training.global_batch_size=512",
        f"--training.local_batch_size=4 --training.global_batch_size=512 {ROUNDS}", divided(8, 4, 512, 64)]),
    ("405B", "llama3_405b", 128, "h200", "", [divided(16, 8, 256, 128), f"{divided(8, 8, 256, 128)} {MIN_CUT}"]),
    ("405B", "llama3_405b", 512, "h200", "", [divided(16, 8, 1024, 512), f"{divided(16, 8, 1024, 512)} {MIN_CUT}"]),
    ("16B", "deepseek_v3_16b", 8, "h100", "", ["--activation_checkpoint.mode=full", f"{MIN_CUT} {capacity(1)}"]),
    ("16B", "deepseek_v3_16b", 64, "h100", "", [
        f"{MIN_CUT} {NO_RESHARD} {capacity(1)}", f"{MIN_CUT} {NO_RESHARD}"]),
    ("671B", "deepseek_v3_671b", 64, "h100", "", [divided(8, 8, 64, 64, DROP, BF16_MOMENTS, "--parallelism.expert_parallel_degree=8")]),
    ("671B", "deepseek_v3_671b", 256, "h100", "", [
        divided(4, 8, 256, 256, DROP), divided(4, 8, 256, 256, DROP, STATIC, capacity(1.25), BF16_MOMENTS)]),
    ("671B", "deepseek_v3_671b", 1024, "h100", "", [
        divided(4, 4, 1024, 1024, DROP), divided(4, 4, 1024, 1024, DROP, STATIC, capacity(1.25), BF16_MOMENTS)]),
    ("gpt-oss 120B", "gpt_oss_120b", 64, "h100", "", [
        NO_RESHARD, f"{capacity(1)} {MIN_CUT} {BF16_MOMENTS}", f"{capacity(1)} {MIN_CUT} {BF16_MOMENTS} {NO_RESHARD}"]),
    ("Qwen3 235B", "qwen3_235b_a22b", 128, "h200", "", [
        f"{STATIC} --activation_checkpoint.mode=none {NO_RESHARD}", f"{STATIC} --activation_checkpoint.mode=none {capacity(1)}"]),
    ("70B", "llama3_70b", 64, "b200", "", [
        f"{ROUNDS} --training.local_batch_size=4 --training.global_batch_size=512",
        f"{MIN_CUT} {ROUNDS} --training.local_batch_size=1 --training.global_batch_size=512", divided(4, 4, 512, 64, MIN_CUT)]),
    ("405B", "llama3_405b", 256, "b200", "", [divided(16, 8, 512, 256), f"{divided(16, 8, 512, 256)} {MIN_CUT}"]),
    ("1B", "llama3_1b", 1, "rtx4090", "", [
        f"{BF16_MOMENTS} {MIN_CUT} {ROUNDS}", f"{BF16_MOMENTS} --training.local_batch_size=1 --training.global_batch_size=4 {ROUNDS} --activation_checkpoint.mode=full"]),
]


def plan(a, job, flags):
    _, config, ranks, device, own, _ = job
    command = [a.rondo, "plan", f"configs/{config}.toml", "--world", str(ranks), "--device", device, "--json", *own.split(), *flags]
    process = subprocess.run(command, capture_output=True, text=True)
    return json.loads(process.stdout) if process.returncode == 0 else None


def by_rules(job, asked, most):
    """At most so many ways of a grid: tensor parallelism within a node, pipelines by powers of two, context parallelism for long
    rows, experts over a node or over as many ranks as divide the data, and what an expert tries in each layout: recomputation,
    small microbatches, weights that stay gathered, moments in bf16. The sequences of a step are the job's."""
    _, config, ranks, _, own, _ = job
    sequences, has_experts = asked["global_batch_size"], asked["expert_parallel"] > 1
    grid = []
    for tensor, pipeline, context in itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2, 4, 8) if "seq_len=131072" in own else (1,)):
        data = ranks // (tensor * pipeline * context)
        if data * tensor * pipeline * context != ranks or sequences % data:
            continue
        share = sequences // data
        layout = [f"--parallelism.tensor_parallel_degree={tensor}", f"--parallelism.pipeline_parallel_degree={pipeline}",
                  f"--parallelism.context_parallel_degree={context}", f"--training.global_batch_size={sequences}", ROUNDS]
        sizes = (share,) if pipeline > 1 else tuple(size for size in (1, 2, 4) if share % size == 0)
        exchanges = [[]]
        if has_experts:
            exchanges = [[f"--parallelism.expert_parallel_degree={degree}", DROP] for degree in (8, 64) if (data * tensor) % degree == 0]
        for size, exchange, policy, moments, reshard in itertools.product(sizes, exchanges, ("full", "min_cut", "eager"), ("", BF16_MOMENTS),
                                                                         ("", NO_RESHARD)):
            grid.append([*layout, f"--training.local_batch_size={size}", *exchange, "--activation_checkpoint.mode=none",
                         f"--compile.memory_policy={policy}", *filter(None, (moments, reshard))])
    return [grid[i * len(grid) // most] for i in range(most)] if len(grid) > most else grid


def in_words(tokens_per_s):
    return f"{tokens_per_s:,.0f}" if tokens_per_s else "-"


def state_fits(job, asked, flags):
    """Whether parameters and moments fit if every rank has a share of them; so no way fits where they do not."""
    bytes_of_parameter = 8 if BF16_MOMENTS in flags else 12
    return bytes_of_parameter * asked["parameters"] / job[2] <= asked["memory"]["usable_bytes"]


def by_hand(a, job, asked):
    speeds = [0.0]
    for flags in [*(way.split() for way in job[5]), *by_rules(job, asked, a.hand)]:
        if not state_fits(job, asked, flags):
            continue
        p = plan(a, job, ["--search-plans", "0", *flags])
        if p and p["memory"]["fits"]:
            speeds.append(p["tokens_per_s"])
    return max(speeds)


def best(ways, key):
    return ways[key][0] if ways[key] else None


def rows_of(a, job):
    name, _, ranks, device, _, _ = job
    asked = plan(a, job, ["--search", "--search-plans", str(a.plans)])
    if asked is None:
        sys.exit(f"plan_search: {name} on {ranks} {device} cannot be planned; {a.rondo} plan configs/{job[1]}.toml --world {ranks} says why")
    ways = asked["remedies"] or asked["faster"]
    fits = asked["memory"]["fits"]
    own = asked["tokens_per_s"] if fits else 0
    found, changing = best(ways, "found"), best(ways, "changing")
    here = [w for w in (found, changing) if w and w["world_size"] == ranks]
    top = max([w["tokens_per_s"] for w in here], default=own)
    equal = True
    for way in filter(None, (found, changing, best(ways, "other_tokens"))):
        flags = [flag for flag in way["flags"] if not flag.startswith("--world")]
        again = plan(a, (name, job[1], way["world_size"], device, job[4], []), ["--search-plans", "0", *flags])
        equal = equal and again["memory"]["total_bytes"] == way["total_bytes"] and again["tokens_per_s"] == way["tokens_per_s"]
    hand = by_hand(a, job, asked)
    cell = f"{name}, {ranks} {device}"
    state = in_words(own) if fits else f"{asked['memory']['total_bytes'] / 2**30:.1f} of {asked['memory']['usable_bytes'] / 2**30:.1f} GiB"
    elsewhere = f" ({found['world_size']} ranks: {in_words(found['tokens_per_s'])})" if found and found["world_size"] != ranks else ""
    first = (f"| {cell} | {state} | {in_words(found['tokens_per_s'] if found in here else 0)}{elsewhere} | "
             f"{in_words(changing['tokens_per_s'] if changing else 0)} | {in_words(hand)} | "
             f"{f'{100 * (top / hand - 1):+.1f} %' if hand and top else '-'} | {ways['estimated'] + ways['planned']} | {'yes' if equal else 'NO'} |")

    def after(seconds):
        known = [i["tokens_per_s"] for i in ways["improvements"] if i["cpu_s"] <= seconds]
        return in_words(max(known, default=0))

    start = f"{ways['improvements'][0]['cpu_s']:.1f} s" if ways["improvements"] else "-"
    second = f"| {cell} | {start} | {after(2)} | {after(10)} | {after(60)} | {after(1e9)} |"
    return first, second


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    p.add_argument("--plans", type=int, default=300, help="most plans of each search")
    p.add_argument("--hand", type=int, default=50, help="most ways of the grid of each job")
    p.add_argument("--jobs", default="", help="numbers of jobs from 1, with commas; default: all")
    p.add_argument("--check", metavar="PAGE", help="compare with the first table of this page")
    a = p.parse_args()
    chosen = [JOBS[int(number) - 1] for number in a.jobs.split(",")] if a.jobs else JOBS
    if a.check:
        page = pathlib.Path(a.check).read_text().splitlines()
        missing = [first for first, _ in (rows_of(a, job) for job in chosen) if first not in page]
        print("\n".join(missing) if missing else f"{a.check} has these {len(chosen)} rows")
        return 1 if missing else 0
    print("| job | as configured | search | with the training changed | best by hand | search to hand | plans | equal |\n"
          "|---|---|---|---|---|---|---|---|")
    times = []
    for job in chosen:
        first, second = rows_of(a, job)
        times.append(second)
        print(first, flush=True)
        print(second, file=sys.stderr)
    print("\n| job | first answer | 2 s | 10 s | 60 s | end |\n|---|---|---|---|---|---|")
    print("\n".join(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
