#!/usr/bin/env python3
"""Training losses of a debug model in bf16, and with linear layers or experts in each emulated recipe of low precision.

    benchmarks/bench_low_precision.py [--rondo build/cpu/rondo] [--model deepseek_v3] [--steps 2000] [--seeds 1,2,3] [-- FLAGS]

FLAGS go to every run. Prints the mean loss of the last tenth of the steps, by recipe and seed, as a table in Markdown; each
recipe's distance is from bf16 of the same seed. Seeds and recipes take turns, so the table of fewer seeds is whole.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def linear(recipe):
    return ["--model.converters=float8", "--quantize.linear.float8.emulate=true",
            "--quantize.linear.float8.filter_fqns=output", f"--quantize.linear.float8.recipe_name={recipe}"]


def converted(section):
    return [f"--model.converters={section}", f"--{section}.emulate=true"]


def experts(section):
    return [*converted(section), f"--{section}.fqns=experts"]


def experts_in_float8(recipe):
    return [*experts("quantize.grouped_mm.float8"), f"--quantize.grouped_mm.float8.recipe_name={recipe}"]


BF16 = "bf16"
LINEAR = {
    BF16: [],
    "linear layers, `rowwise`": linear("rowwise"),
    "linear layers, `blockwise`": linear("blockwise"),
    "linear layers, MXFP8": converted("quantize.linear.mx"),
    "linear layers, NVFP4": converted("quantize.linear.nvfp4"),
}
EXPERTS = {
    "experts, `rowwise`": experts_in_float8("rowwise"),
    "experts, `rowwise_with_gw_hp`": experts_in_float8("rowwise_with_gw_hp"),
    "experts, `blockwise`": experts_in_float8("blockwise"),
    "experts, MXFP8": experts("quantize.grouped_mm.mx"),
}
RECIPES = {"llama3": LINEAR, "deepseek_v3": {**LINEAR, **EXPERTS}}


def loss(arguments, seed, flags):
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.rondo, "train", f"configs/{arguments.model}_debug.toml", f"--job.dump_folder={folder}/run",
                   f"--training.steps={arguments.steps}", f"--debug.seed={seed}", "--validation.enable=false",
                   "--training.mixed_precision_param=bfloat16", *arguments.flags, *flags]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
        lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    return statistics.mean(losses[-max(1, len(losses) // 10):])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", default="build/cpu/rondo")
    parser.add_argument("--model", choices=RECIPES, default="deepseek_v3")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("flags", nargs="*")
    arguments = parser.parse_args()
    seeds = arguments.seeds.split(",")
    losses = {recipe: [] for recipe in RECIPES[arguments.model]}
    for seed in seeds:
        for recipe, flags in RECIPES[arguments.model].items():
            losses[recipe].append(loss(arguments, seed, flags))
            print(f"seed {seed}, {recipe}: {losses[recipe][-1]:.4f}", file=sys.stderr, flush=True)
    print("| recipe | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | above bf16 |\n" + "|---" * (len(seeds) + 3) + "|")
    for recipe, of_seeds in losses.items():
        above = [one - base for one, base in zip(of_seeds, losses[BF16])]
        distance = "" if recipe == BF16 else f"{statistics.mean(above):+.4f} ({min(above):+.4f} to {max(above):+.4f})"
        print(f"| {recipe} | " + " | ".join(f"{one:.4f}" for one in of_seeds) +
              f" | {statistics.mean(of_seeds):.4f} | {distance} |")


if __name__ == "__main__":
    main()
