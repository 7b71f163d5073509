#!/usr/bin/env python3
"""Plans published training runs with `rondo plan` and compares. Needs Python's own library only.

A row is planned with the device's constants (compiler/plan/devices/devices.cpp), but for three that the published rows
themselves teach. No row teaches itself: each is planned with what the other sources say. A source says the
median of its rows, and the sources together the median of theirs.

CONTENTION  of the time of a hidden collective, what compute beside it loses, from 0 to 1
EXCHANGE    of the links' rate, what tokens reach on their way to experts, where the host has to know sizes
RESERVED    what PyTorch's allocator had reserved, over the bytes that the plan knows
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys

LIMITED = "h100-96gb"  # of torchtitan's published runs: 96 GB of HBM2e at 2.4 TB/s, 500 W
# FlashAttention-2, which PyTorch's attention ran on Hopper in these years, over the kernel of the plan: 35 % of the
# peak (abstract of the FlashAttention-3 paper) over 644 of 989 TFLOP/s. Rows of other attention kernels:
FLASH_ATTENTION_2 = 0.35 / (644 / 989)
OTHER_ATTENTION = {"#3457", "dsv3_scaling", "KempnerForge", "LLMQ"}

DEVICE = {"contention": 0.75, "exchange": 0.10}  # of every GPU in compiler/plan/devices/devices.cpp

WHOLE_LOSS = ["compile.numerics=rounds", "compile.loss_chunks=-1"]
LOSS_IN_CHUNKS = ["compile.numerics=rounds", "compile.loss_chunks=8"]
# How a published program differs from the planned step: which of its ops are one kernel. Norms, SwiGLU and rotations are
# one each in every plan.
PROGRAMS = {
    "separate ops": ["compile.disable_passes=fuse_add_rms_norm"],
    "RMSNorm": WHOLE_LOSS,
    "RMSNorm, loss in chunks": LOSS_IN_CHUNKS,
    "compiled": WHOLE_LOSS,
    "compiled, loss in chunks": LOSS_IN_CHUNKS,
}
NO_OVERLAP = "overlap_activations"  # none of the published programs computes while activations travel

LLAMA_8B, LLAMA_70B, LLAMA_405B, DEEPSEEK_16B, DEEPSEEK_671B = (
    f"configs/{name}.toml" for name in ("llama3_8b", "llama3_70b", "llama3_405b", "deepseek_v3_16b", "deepseek_v3_671b"))
QWEN_1_5B = ["model.dim=1536", "model.n_layers=28", "model.n_heads=12", "model.n_kv_heads=2", "model.ffn_hidden_dim=8960",
             "model.vocab_size=151936", "model.tie_embeddings=true", "model.rope_scaling_factor=1"]

Row = collections.namedtuple("Row", "what source device ranks config program overrides tokens_per_s gib")


def policy(name):
    return f"compile.memory_policy={name}"


def batch(size):
    return f"training.local_batch_size={size}"


def experts(degree, size):
    return [f"parallelism.expert_parallel_degree={degree}", "parallelism.expert_parallel_comm_backend=standard",
            "parallelism.expert_capacity_factor=1", batch(size)]


TP = "parallelism.tensor_parallel_degree="
# Tokens/s and GiB of a GPU; None: not published.
ROWS = [
    Row("8B, local batch 2, eager", "torchtitan docs", LIMITED, 8, LLAMA_8B, "separate ops", [batch(2), policy("eager")], 5762, 82.4),
    Row("8B, local batch 2, torch.compile", "torchtitan docs", LIMITED, 8, LLAMA_8B, "compiled", [batch(2), policy("eager")], 6667, 77.0),
    Row("8B on 128, eager", "torchtitan docs", LIMITED, 128, LLAMA_8B, "separate ops", [batch(2), policy("eager")], 5605, 67.0),
    Row("8B on 128, torch.compile", "torchtitan docs", LIMITED, 128, LLAMA_8B, "compiled", [batch(2), policy("eager")], 6514, 62.0),
    Row("8B on 64, op-wise recomputation", "torchtitan, A100", "a100-80gb", 64, LLAMA_8B, "separate ops", [batch(1), policy("eager")], 2973, None),
    Row("70B on 64, full recomputation", "torchtitan, A100", "a100-80gb", 64, LLAMA_70B, "separate ops", [batch(1), policy("full")], 331, None),
    Row("405B on 128, FSDP 16 x TP 8", "torchtitan, 405B", LIMITED, 128, LLAMA_405B, "separate ops", [batch(2), TP + "8", policy("full")], 109, None),
    Row("70B on 256, FSDP 32 x TP 8", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled", [batch(16), TP + "8", policy("full")], 597, None),
    Row("8B, SimpleFSDP", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("eager")], 7227, 40.96),
    Row("8B, FSDP2 eager", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("eager")], 7380, 47.82),
    Row("8B on 64, SimpleFSDP", "#1881", LIMITED, 64, LLAMA_8B, "RMSNorm", [policy("eager")], 4984, 29.37),
    Row("8B on 64, FSDP2 eager", "#1881", LIMITED, 64, LLAMA_8B, "RMSNorm", [policy("eager")], 5097, 31.41),
    Row("8B, FSDP 4 x TP 2, SimpleFSDP", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("eager")], 5881, 28.28),
    Row("8B, FSDP 4 x TP 2, FSDP2 eager", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("eager")], 5898, 35.33),
    Row("8B, policy default", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("default")], 7890, 52.44),
    Row("8B, policy full", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("full")], 7006, 32.07),
    Row("8B, FSDP 4 x TP 2, policy default", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("default")], 6607, 30.92),
    Row("8B, FSDP 4 x TP 2, policy full", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("full")], 5933, 20.70),
    Row("8B, full inductor, CUDA graph", "#3455", LIMITED, 8, LLAMA_8B, "compiled", [policy("default")], 7403, None),
    Row("8B, TP 8, full inductor, CUDA graph", "#3455", LIMITED, 8, LLAMA_8B, "compiled", [TP + "8", policy("default")], 3916, None),
    Row("8B, policy sac_and_offload", "#3457", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("sac_and_offload")], 7301, None),
    Row("8B, FSDP 4 x TP 2, full inductor", "#3141", LIMITED, 8, LLAMA_8B, "compiled", [TP + "2", policy("default")], 7522, 38.40),
    Row("16B, EP 8, local batch 4, policy default", "#3429", LIMITED, 8, DEEPSEEK_16B, "RMSNorm", [*experts(8, 4), policy("default")], 8325, 84.78),
    Row("16B, EP 8, local batch 4, policy full", "#3429", LIMITED, 8, DEEPSEEK_16B, "RMSNorm", [*experts(8, 4), policy("full")], 7444, 52.02),
    Row("16B, EP 4, local batch 4", "dsv3_scaling", LIMITED, 8, DEEPSEEK_16B, "compiled, loss in chunks", [*experts(4, 4), policy("full")], 7123, 36.1),
    Row("16B, EP 4, local batch 16", "dsv3_scaling", LIMITED, 8, DEEPSEEK_16B, "compiled, loss in chunks", [*experts(4, 16), policy("full")], 10108, 57.5),
    Row("16B, EP 4, local batch 16, FSDP2 eager", "dsv3_scaling", LIMITED, 8, DEEPSEEK_16B, "RMSNorm, loss in chunks", [*experts(4, 16), policy("full")], 10160, 68.8),
    Row("8B, 4096 tokens, full recomputation", "KempnerForge", "h200", 1, LLAMA_8B, "compiled",
        [batch(1), "training.seq_len=4096", "training.dtype=bfloat16", policy("full")], 10471, None),
    Row("1.5B, 16 x 1024 tokens", "LLMQ", "h100", 1, LLAMA_8B, "compiled, loss in chunks",
        [*QWEN_1_5B, "training.seq_len=1024", batch(16), "training.dtype=bfloat16", policy("none")], 58900, None),
]


def pipeline(degree, schedule, size):
    """A pipeline of so many ranks, and a step of one pass over `size` sequences of a rank; torch reduces once a pass."""
    return [f"parallelism.pipeline_parallel_degree={degree}", f"parallelism.pipeline_parallel_schedule={schedule}",
            "parallelism.fsdp_gradient_sync=step", batch(size), policy("full")]


def float8(recipe):
    return ["model.converters=float8", "quantize.linear.float8.filter_fqns=output", f"quantize.linear.float8.recipe_name={recipe}"]


# Runs in float8, which teach nothing: torchao quantizes by other kernels than the plan's, and its tensorwise runs gather in float8.
FLOAT8 = [
    Row("8B, tensorwise", "torchtitan docs", LIMITED, 8, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 8532, 76.8),
    Row("8B on 128, tensorwise", "torchtitan docs", LIMITED, 128, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 8380, 61.8),
    Row("70B on 256, FSDP 32 x TP 8, tensorwise", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled",
        [batch(16), TP + "8", policy("full"), *float8("tensorwise")], 810, None),
    Row("70B on 256, FSDP 32 x TP 8, rowwise", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled",
        [batch(16), TP + "8", policy("full"), *float8("rowwise")], 600, None),
    Row("8B on 32, tensorwise", "Trainy", "h200", 32, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 10938, 47.96),
]

# Runs with pipelines, which teach nothing: two of them are in float8, and the third does not say its schedule.
PIPELINES = [
    Row("405B on 512, FSDP 8 x TP 8 x PP 8, 1F1B, tensorwise", "torchtitan docs", LIMITED, 512, LLAMA_405B, "compiled",
        [TP + "8", *pipeline(8, "1F1B", 32), *float8("tensorwise")], 100, 82.5),
    Row("405B on 512, FSDP 8 x TP 8 x PP 8, Interleaved1F1B, tensorwise", "torchtitan docs", LIMITED, 512, LLAMA_405B, "compiled",
        [TP + "8", *pipeline(8, "Interleaved1F1B", 32), *float8("tensorwise")], 128, 72.7),
    Row("671B on 512, FSDP 64 x EP 32 x PP 8", "#2107", LIMITED, 512, DEEPSEEK_671B, "compiled",
        [TP + "1", *experts(32, 16), "parallelism.expert_overflow=drop", *pipeline(8, "Interleaved1F1B", 16)], 346, 60.2),
]


def flags(row):
    """What the row's program and setup come to; the passes it does without are one list."""
    without = [NO_OVERLAP]
    keys = []
    for key in [*PROGRAMS[row.program], *row.overrides]:
        if key.startswith("compile.disable_passes="):
            without += key.split("=")[1].split(",")
        else:
            keys.append(key)
    return [f"--{key}" for key in [*keys, "compile.disable_passes=" + ",".join(without)]]


class Planner:
    def __init__(self, rondo):
        self.rondo, self.known = rondo, {}

    def plan(self, row, **factors):
        """`factors`: on the device's constants, by name."""
        if row.device != "a100-80gb" and row.source not in OTHER_ATTENTION:
            factors["attention"] = FLASH_ATTENTION_2
        rates = ",".join(f"{name}={max(factor, 0.001):.4f}" for name, factor in sorted(factors.items()))
        command = [self.rondo, "plan", row.config, "--world", str(row.ranks), "--device", row.device, "--json",
                   "--search", "0", "--activation_checkpoint.mode=none", *(["--rates", rates] if rates else []), *flags(row)]
        if tuple(command) not in self.known:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"backcast: {' '.join(command)} ended with {done.returncode}: {done.stderr}")
            self.known[tuple(command)] = json.loads(done.stdout)
        return self.known[tuple(command)]


def has_experts(row):
    return row.config in (DEEPSEEK_16B, DEEPSEEK_671B)


class OneRow:
    """What a plan with the device's own constants says of a row."""

    def __init__(self, planner, row):
        p = planner.plan(row)
        step = p["step"]
        self.published_s = p["tokens_per_step"] / p["world_size"] / row.tokens_per_s
        exchange = (step["collectives"] or {}).get("all-to-all", {"seconds": 0})["seconds"]
        self.exchange_s = exchange * DEVICE["exchange"]  # at the links' rate
        self.hidden_s = max(0.0, step["communication_s"] - step["exposed_s"])
        self.rest_s = step["step_s"] - step["slowed_s"] - exchange
        self.bytes = p["memory"]["total_bytes"]

    def contention(self):
        return min(1.0, max(0.0, (self.published_s - self.rest_s) / self.hidden_s))

    def exchange(self, contention):
        left_s = self.published_s - self.rest_s - contention * self.hidden_s
        return min(1.0, self.exchange_s / left_s) if left_s > 0 else 1.0


def of_sources(values, without):
    """(source, value) pairs: the median of the sources' medians."""
    by_source = collections.defaultdict(list)
    for source, value in values:
        if source != without:
            by_source[source].append(value)
    return statistics.median(statistics.median(v) for v in by_source.values())


class Constants:
    def __init__(self, planner):
        self.rows = [(row, OneRow(planner, row)) for row in ROWS]

    def without(self, source):
        """CONTENTION, EXCHANGE and RESERVED from all other sources; from all where `source` is None."""
        contention = of_sources([(r.source, one.contention()) for r, one in self.rows
                                 if r.ranks > 1 and not has_experts(r)], source)
        exchange = of_sources([(r.source, one.exchange(contention)) for r, one in self.rows if has_experts(r)], source)
        reserved = of_sources([(r.source, r.gib * 2**30 / one.bytes) for r, one in self.rows if r.gib], source)
        return contention, exchange, reserved


def error(predicted, published):
    return 100 * (predicted / published - 1)


def table(planner, constants, rows, errors):
    yield "| run | source | GPUs | program | CONTENTION | EXCHANGE | tokens/s, published | planned | error | GiB, published | planned | error |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        contention, exchange, reserved = constants.without(row.source)
        p = planner.plan(row, contention=contention / DEVICE["contention"], exchange=exchange / DEVICE["exchange"])
        speed, memory = p["tokens_per_s_per_rank"], reserved * p["memory"]["total_bytes"] / 2**30
        errors["speed"].append(error(speed, row.tokens_per_s))
        theirs = "| | |"
        if row.gib:
            errors["memory"].append(error(memory, row.gib))
            theirs = f"| {row.gib:.1f} | {memory:.1f} | {errors['memory'][-1]:+.0f} %"
        used = f"{contention:.2f} | " if row.ranks > 1 else " | "
        used += f"{exchange:.2f}" if has_experts(row) else ""
        yield (f"| {row.what} | {row.source} | {row.ranks} {row.device} | {row.program} | {used} | {row.tokens_per_s:,} | "
               f"{speed:,.0f} | {errors['speed'][-1]:+.0f} % {theirs} |")


def summary(name, values):
    sizes = [abs(v) for v in values]
    near = sum(size <= 10 for size in sizes)
    return (f"{name}: {len(values)} rows, median error {statistics.median(values):+.0f} %, median of its size "
            f"{statistics.median(sizes):.0f} %, largest {max(sizes):.0f} %; {near} rows within 10 %.")


def results(rondo):
    """The table, and what it comes to."""
    planner = Planner(rondo)
    constants = Constants(planner)
    errors = {"speed": [], "memory": []}
    rows = list(table(planner, constants, ROWS, errors))
    for others in (PIPELINES, FLOAT8):
        rows += ["", *table(planner, constants, others, {"speed": [], "memory": []})]
    contention, exchange, reserved = constants.without(None)
    return rows, [summary("Tokens/s", errors["speed"]), summary("Memory", errors["memory"]),
                  f"From all sources: CONTENTION {contention:.2f}, EXCHANGE {exchange:.2f}, RESERVED {reserved:.2f}."]


def missing(page, lines):
    """Lines that a page lacks; it may break them anywhere."""
    text = " ".join(pathlib.Path(page).read_text().split())
    return [f"backcast: not in {page}: {line}" for line in lines if " ".join(line.split()) not in text]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    p.add_argument("--check", nargs=2, metavar=("RESULTS", "PAGE"),
                   help="fail unless the first page has the table and what it comes to, and the second the latter")
    a = p.parse_args()
    if not pathlib.Path(a.rondo).exists():
        sys.exit(f"backcast: {a.rondo} is not there; build it first (cmake --build build/cpu)")
    rows, summaries = results(a.rondo)
    if not a.check:
        print("\n".join([*rows, "", *summaries]))
        return 0
    wrong = missing(a.check[0], [*rows, *summaries]) + missing(a.check[1], summaries)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
