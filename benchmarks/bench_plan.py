#!/usr/bin/env python3
"""How long `rondo plan` takes on one core: trace, all passes, verifier, plan. Needs Python's own library only."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Preset, ranks, seconds and GiB that it may take.
PRESETS = [("configs/llama3_8b.toml", 8, 0.5, 1.0), ("configs/llama3_70b.toml", 256, 1.0, 1.0),
           ("configs/llama3_405b.toml", 512, 2.0, 1.0)]
LAYERS = [16, 32, 64, 128]


def run(rondo, config, ranks, flags, core):
    """The plan's own times, the wall clock of the whole process, and its peak of resident memory."""
    command = [rondo, "plan", config, "--world", str(ranks), "--search-plans", "0", "--json", *flags]
    with tempfile.TemporaryFile() as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
                                   env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"bench_plan: {' '.join(command)} ended with {process.returncode}")
        wall_s = time.perf_counter() - started
        out.seek(0)
        plan = json.load(out)
    return {**plan["times_ms"], "nodes": plan["nodes"], "wall_ms": wall_s * 1e3,
            "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1e3, "rss_mib": usage.ru_maxrss / 1024}


def measure(a, config, ranks, flags=()):
    runs = [run(a.rondo, config, ranks, [*flags, *a.flags], a.core) for _ in range(a.rounds)]
    median = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
    return {**median, "least_ms": min(r["total"] for r in runs)}


def row(name, m):
    return (f"| {name} | {m['nodes']:,.0f} | {m['model'] + m['trace']:.0f} | {m['passes']:.0f} | {m['plan']:.0f} | "
            f"{m['total']:.0f} | {m['least_ms']:.0f} | {m['wall_ms']:.0f} | {m['cpu_ms']:.0f} | {m['rss_mib']:.0f} |")


HEADER = ["| | nodes | trace, ms | passes and verifier, ms | plan, ms | together, median | least | whole process | its CPU time | peak resident, MiB |",
          "|---|---|---|---|---|---|---|---|---|---|"]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--core", type=int, default=0)
    p.add_argument("flags", nargs="*", help="--section.key=value for every plan, after --")
    a = p.parse_args()
    if not pathlib.Path(a.rondo).exists():
        sys.exit(f"bench_plan: {a.rondo} is not there; build it first (cmake --build build/cpu)")
    kept = True
    print("\n".join(HEADER))
    for config, ranks, limit_s, limit_gib in PRESETS:
        m = measure(a, config, ranks)
        kept = kept and m["least_ms"] <= limit_s * 1e3 and m["rss_mib"] <= limit_gib * 1024
        print(row(f"{pathlib.Path(config).stem}, {ranks} ranks; limit {limit_s} s", m), flush=True)
    per_layer = []
    for layers in LAYERS:
        m = measure(a, PRESETS[0][0], 8, [f"--model.n_layers={layers}"])
        per_layer.append(m["least_ms"] / layers)
        print(row(f"8B with {layers} layers, {per_layer[-1]:.2f} ms a layer", m), flush=True)
    print(f"\nFrom {LAYERS[0]} to {LAYERS[-1]} layers the time of a layer changed by {per_layer[-1] / per_layer[0]:.2f}.")
    print("All limits are kept." if kept else "A limit is broken.")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
