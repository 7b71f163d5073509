#!/usr/bin/env python3
"""Plans published training runs (published_runs.py) with `rondo plan` and compares. Needs Python's own library only.

A row is planned with the device's constants (compiler/plan/devices/devices.cpp). Three of them are learned once more
from the rows themselves, and no row teaches itself: a row is reckoned with what the other sources say. A source says the
median of its rows, and the sources together the median of theirs.

SUSTAINED  of a card: factor on its time for products and attention, from dense models in bf16
EXCHANGE   of the links' rate, what tokens reach on their way to experts, where the host has to know sizes
RESERVED   what PyTorch's allocator had reserved, over the bytes that the plan knows
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

from published_runs import (DIM_1_SOURCES, EAGER_BYTES, EAGER_LLAMA_SOURCES, FLASH_ATTENTION_2, FLASH_ATTENTION_2_SOURCES,
                            PROGRAMS, ROWS)

EXCHANGE, HOST_WAIT_S = 0.50, 50e-6  # of every GPU in compiler/plan/devices/devices.cpp
MEMORY_BYTES_PER_S = {"a100-80gb": 0.80 * 2.039e12, "h100-96gb": 0.80 * 2.4e12, "h200": 0.80 * 4.8e12}  # as the plan has it
# None of the published programs computes while activations travel, or adds the input gradients of experts without a kernel
# of its own.
OURS_ALONE = ["overlap_activations", "fuse_add_permute_tokens"]


def flags(row):
    """What the row's program and setup come to; the passes it does without are one list."""
    without = [] if row.program == "Rondo" else list(OURS_ALONE)
    keys = []
    for key in [*PROGRAMS[row.program], *row.overrides]:
        if key.startswith("compile.disable_passes="):
            without += key.split("=")[1].split(",")
        else:
            keys.append(key)
    if without:
        keys.append("compile.disable_passes=" + ",".join(without))
    return [f"--{key}" for key in keys]


def plan(rondo, row):
    rates = dict(row.rates)
    if row.source in FLASH_ATTENTION_2_SOURCES and not row.device.startswith("a100"):
        rates = FLASH_ATTENTION_2 | rates
    listed = ",".join(f"{name}={factor:.4f}" for name, factor in sorted(rates.items()))
    nodes = ["--gpus-per-node", str(row.gpus_per_node)] if row.gpus_per_node else []
    command = [rondo, "plan", row.config, "--world", str(row.ranks), "--device", row.device, "--json", "--search-plans", "0",
               "--activation_checkpoint.mode=none", *(["--rates", listed] if listed else []), *nodes, *flags(row)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"backcast: {' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def copied_bytes(row, step):
    """Of a program that divides dim 1 of [batch, length, width]: gathers and reduce-scatters of torch exchange dim 0, and a
    copy puts their pieces in order (_functional_collectives.py)."""
    collectives = step["collectives"] or {}
    if row.source not in DIM_1_SOURCES:
        return 0
    kinds = [collectives[kind]["groups"] for kind in ("all-gather", "reduce-scatter") if kind in collectives]
    return 2 * sum(groups["tp"]["bytes"] for groups in kinds if "tp" in groups)


def more_traffic_s(row, p):
    """Of the published program: memory traffic beyond the planned step's."""
    step = p["step"]
    more = copied_bytes(row, step)
    if row.program == "separate ops" and row.source in EAGER_LLAMA_SOURCES:
        more += EAGER_BYTES[row.config] * p["tokens_per_s_per_rank"] * step["step_s"]
    busy = 1 - step["bubble_s"] / step["step_s"]
    return more / MEMORY_BYTES_PER_S[row.device] / busy if more else 0


class Run:
    """A row, and its plan with the device's own constants."""

    def __init__(self, row, p):
        step = p["step"]
        self.row, self.job = row, p["accuracy"]["class"]
        self.band = p["accuracy"]["percent_of_80"]
        self.step_s, self.dense_s = step["step_s"] + more_traffic_s(row, p), step["matmul_s"] + step["attention_s"]
        self.speed, self.bytes = p["tokens_per_s_per_rank"] * step["step_s"] / self.step_s, p["memory"]["total_bytes"]
        self.published_s = self.step_s * self.speed / row.tokens_per_s
        exchange = (step["collectives"] or {}).get("all-to-all", {"seconds": 0, "count": 0})
        self.exchange_s = max(0.0, exchange["seconds"] - HOST_WAIT_S * exchange["count"]) * EXCHANGE  # at the links' rate

    def teaches_sustained(self):
        return self.job.startswith("dense models") and not self.row.apart

    def teaches_exchange(self):
        """Programs that send a token once to a node hardly exchange."""
        return self.job == "models with experts" and not self.row.apart and "exchange" not in self.row.rates

    def sustained(self):
        return max(0.1, 1 + (self.published_s - self.step_s) / self.dense_s)

    def exchange(self):
        left_s = self.published_s - self.step_s + self.exchange_s / EXCHANGE
        return min(1.0, self.exchange_s / left_s) if left_s > 0 else 1.0

    def speed_with(self, sustained, exchange):
        step_s = (self.step_s + (sustained - 1) * self.dense_s + self.exchange_s * (1 / exchange - 1 / EXCHANGE))
        return self.speed * self.step_s / step_s


def of_sources(values, without):
    """(source, value) pairs: the median of the sources' medians, or None."""
    by_source = collections.defaultdict(list)
    for source, value in values:
        if source != without:
            by_source[source].append(value)
    return statistics.median(statistics.median(v) for v in by_source.values()) if by_source else None


class Constants:
    def __init__(self, runs):
        self.runs = runs

    def sustained(self, device, source):
        """Without another source of the card: its own constant."""
        return of_sources([(r.row.source, r.sustained()) for r in self.runs
                           if r.row.device == device and r.teaches_sustained()], source) or 1.0

    def exchange(self, source):
        return of_sources([(r.row.source, r.exchange()) for r in self.runs
                           if r.teaches_exchange()], source)

    def reserved(self, source):
        return of_sources([(r.row.source, r.row.gib * 2**30 / r.bytes) for r in self.runs if r.row.gib], source)


def error(predicted, published):
    return 100 * (predicted / published - 1)


def held_by(sizes, share):
    """The size that so large a share of them does not exceed."""
    return sorted(sizes)[math.ceil(share * len(sizes)) - 1]


def table(runs, constants, errors):
    yield ("| run | source | GPUs | program | tokens/s, published | planned | error | without its source | "
           "GiB, published | planned | error | of another kind |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for r in runs:
        row = r.row
        others = r.speed_with(constants.sustained(row.device, row.source), constants.exchange(row.source))
        speed = error(r.speed, row.tokens_per_s)
        held_out = error(others, row.tokens_per_s)
        errors["speed"].append((r, speed))
        errors["held out"].append((r, held_out))
        theirs = "| | |"
        if row.gib:
            memory = constants.reserved(row.source) * r.bytes / 2**30
            errors["memory"].append((r, error(memory, row.gib)))
            theirs = f"| {row.gib:.1f} | {memory:.1f} | {errors['memory'][-1][1]:+.0f} %"
        yield (f"| {row.what} | {row.source} | {row.ranks} {row.device} | {row.program} | {row.tokens_per_s:,} | "
               f"{r.speed:,.0f} | {speed:+.0f} % | {held_out:+.0f} % {theirs} | {row.apart} |")


MIN_ROWS = 5  # of a class; with fewer in kind, all of its rows count


def in_kind(values):
    return [(r, value) for r, value in values if not r.row.apart]


def by_class(values):
    own, every = collections.defaultdict(list), collections.defaultdict(list)
    for r, value in values:
        every[r.job].append((r, value))
    for r, value in in_kind(values):
        own[r.job].append((r, value))
    return {job: own[job] if len(own[job]) >= MIN_ROWS else every[job] for job in every}


def classes(errors):
    yield "| class | runs | median error | median size | 80 % within | largest | without their source: median size | 80 % within |"
    yield "|---|---|---|---|---|---|---|---|"
    held = by_class(errors["held out"])
    for job, runs in sorted(by_class(errors["speed"]).items()):
        own, held_out = [value for _, value in runs], [value for _, value in held[job]]
        sizes, others = [abs(v) for v in own], [abs(v) for v in held_out]
        yield (f"| {job} | {len(own)} | {statistics.median(own):+.0f} % | {statistics.median(sizes):.0f} % | "
               f"{held_by(sizes, 0.8):.0f} % | {max(sizes):.0f} % | {statistics.median(others):.0f} % | "
               f"{held_by(others, 0.8):.0f} % |")


def wrong_bands(errors):
    """Classes whose band in compiler/plan/devices/accuracy.cpp is not what the runs say."""
    for job, runs in by_class(errors["held out"]).items():
        held, band = math.ceil(held_by([abs(value) for _, value in runs], 0.8)), runs[0][0].band
        if held != band:
            yield f"backcast: {job}: 80 % of the runs are within {held} %, the plan says {band} %"


def summary(name, values):
    sizes = [abs(v) for _, v in values]
    near = sum(size <= 10 for size in sizes)
    return (f"{name}: {len(values)} rows, median error {statistics.median(v for _, v in values):+.0f} %, median of its size "
            f"{statistics.median(sizes):.0f} %, largest {max(sizes):.0f} %; {near} rows within 10 %.")


def results(rondo):
    """The tables, what they come to, and what is wrong with the plan's bands."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(lambda row: Run(row, plan(rondo, row)), ROWS))
    constants = Constants(runs)
    errors = {"speed": [], "held out": [], "memory": []}
    rows = list(table(runs, constants, errors))
    cards = sorted({r.row.device for r in runs if r.teaches_sustained()})
    learned = ", ".join(f"{card} {constants.sustained(card, None):.2f}" for card in cards)
    return [*rows, "", *classes(errors)], [
        summary("Tokens/s", in_kind(errors["speed"])), summary("Tokens/s without their source", in_kind(errors["held out"])),
        summary("Tokens/s of other kinds", [(r, value) for r, value in errors["speed"] if r.row.apart]),
        summary("Memory", errors["memory"]),
        f"From all sources: EXCHANGE {constants.exchange(None):.2f}, RESERVED {constants.reserved(None):.2f}, SUSTAINED {learned}.",
    ], list(wrong_bands(errors))


def missing(page, lines):
    """Lines that a page lacks; it may break them anywhere."""
    text = " ".join(pathlib.Path(page).read_text().split())
    return [f"backcast: not in {page}: {line}" for line in lines if " ".join(line.split()) not in text]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    p.add_argument("--check", nargs=2, metavar=("RESULTS", "PAGE"),
                   help="fail unless the first page has the tables and what they come to, the second the latter, "
                        "and the bands of the plan are those of the runs")
    a = p.parse_args()
    if not pathlib.Path(a.rondo).exists():
        sys.exit(f"backcast: {a.rondo} is not there; build it first (cmake --build build/cpu)")
    rows, summaries, wrong = results(a.rondo)
    if not a.check:
        print("\n".join([*rows, "", *summaries, *wrong]))
        return 0
    wrong += missing(a.check[0], [*rows, *summaries]) + missing(a.check[1], summaries)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
