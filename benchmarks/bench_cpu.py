"""Runs the contestants of scripts/bench_cpu.sh in turns and writes the comparison. Needs Python's own library only."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

WARMUP = 3
CORPUS = "data/corpus/headers.packed"
FIRST_STEP = re.compile(r"step: 1\b|step 1 +loss")  # PyTorch's line, and Rondo's
WORK = pathlib.Path("build/bench")
SHORT_DOCUMENTS = WORK / "short_documents.jsonl"

# What --only names, the model's configuration and its step in PyTorch, sequences of a step, tokens of each, more flags.
Workload = collections.namedtuple("Workload", "name title config torch batch length flags")
LLAMA = "configs/llama3_debug.toml", "benchmarks/torch_llama.py"
DEEPSEEK = "configs/deepseek_v3_debug.toml", "benchmarks/torch_deepseek.py"
DOCUMENTS = ["--training.document_attention=true", f"--training.dataset_path={SHORT_DOCUMENTS}"]
DEBUG = Workload("debug", "Llama 3, 4 x 256 tokens", *LLAMA, 4, 256, [])
SMALL = Workload("small", "Llama 3, 1 x 64 tokens", *LLAMA, 1, 64, [])
PACKED = Workload("packed", "Llama 3, 1 x 2048 tokens in documents of 256 (PyTorch: causal attention over whole rows)",
                  *LLAMA, 1, 2048, DOCUMENTS)
MIXTURE = Workload("deepseek", "DeepSeek-V3, 2 x 128 tokens, sigmoid scores (PyTorch: transformers)", *DEEPSEEK, 2, 128,
                   ["--model.score_func=sigmoid"])
WORKLOADS = [DEBUG, SMALL, PACKED, MIXTURE]
PRECISIONS = {"fp32": ["fp32"], "bf16": ["bf16-cast", "bf16-autocast"]}  # and PyTorch's ways to have them
# What makes a CPU with AVX-512 behave as one without.
RESTRICTIONS = ["ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rondo", default="build/cpu/rondo")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--starts", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--idle-wait-s", type=float, default=60)
    p.add_argument("--only", nargs="+", choices=[w.name for w in WORKLOADS], default=[w.name for w in WORKLOADS],
                   help="workloads to run; starts are measured with debug")
    p.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    p.add_argument("--no-compile", action="store_true", help="without torch.compile")
    p.add_argument("--output", default=f"docs/results/cpu_debug_{datetime.date.today()}.md")
    return p.parse_args()


FLOOR = "matrix products alone"


class Rondo:
    def __init__(self, a, executor, precision, workload=DEBUG, ranks=1, threads=None):
        self.ranks, self.precision, self.workload = ranks, precision, workload
        self.threads = threads or a.threads // ranks
        self.name = f"rondo {executor}" + (f", {ranks} ranks" if ranks > 1 else "")
        if self.threads != a.threads:
            self.name += f", {self.threads} thread" + (" each" if ranks > 1 else "")
        self.folder = WORK / f"{workload.name}-{executor}-{precision}-{ranks}x{self.threads}"
        train = ["train", f"--job.config_file={workload.config}", f"--job.dump_folder={self.folder}",
                 f"--training.local_batch_size={workload.batch}", f"--training.seq_len={workload.length}", *workload.flags]
        if executor == "eager":
            train.append("--compile.enable=false")
        else:
            train.append(f"--compile.executor={executor}")
        if precision == "bf16":
            train.append("--training.mixed_precision_param=bfloat16")
        launch = ["launch", "--nproc-per-node", str(ranks), "--"] if ranks > 1 else []
        self.command = [a.rondo, *launch, *train]

    def run(self, a):
        shutil.rmtree(self.folder, ignore_errors=True)
        run = timed([*self.command, f"--training.steps={WARMUP + a.steps}", "--validation.enable=false"], self.threads)
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        run["step_s"] = [line["step_time_s"] for line in lines][WARMUP:]
        run["losses"] = [line["loss"] for line in lines]
        run["tensor_mib"] = max(line["memory_gib"] for line in lines) * 1024
        return run

    def compile_ms(self):
        total = 0.0
        for line in (self.folder / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "compiled":
                total += event["trace_ms"] + sum(p["ms"] for p in event["passes"].values())
        return total

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        return timed([*self.command, "--training.steps=2"], self.threads)["first_step_s"]


class Torch:
    ranks = 1

    def __init__(self, a, name, precision, flags, workload=DEBUG):
        self.name, self.precision, self.threads, self.workload = name, precision, a.threads, workload
        self.command = ["scripts/oracle_python.sh", workload.torch, *flags, "--text", CORPUS,
                        "--batch", str(workload.batch), "--length", str(workload.length)]

    def run(self, a):
        # Turns share one cache, so that only the first of them compiles.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(WORK.resolve() / "inductor")}
        run = timed([*self.command, "--steps", str(a.steps), "--warmup", str(WARMUP)], self.threads, cache)
        result = json.loads(run["output"].splitlines()[-1])
        run["step_s"], run["losses"] = result["step_s"][WARMUP:], result["losses"]
        return run

    def start(self):
        cache = WORK.resolve() / "cold-inductor"
        shutil.rmtree(cache, ignore_errors=True)
        command = [*self.command, "--steps", "1", "--warmup", "0"]
        return timed(command, self.threads, {"TORCHINDUCTOR_CACHE_DIR": str(cache)})["first_step_s"]


def timed(command, threads, variables=None):
    """Runs a command; when its first step was done, and the largest resident memory of any process of it."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(variables or {})}
    busy_before, started, first, output = busy_s(), time.perf_counter(), None, []
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        if first is None and FIRST_STEP.search(line):
            first = time.perf_counter() - started
        output.append(line)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    others_s = busy_s() - busy_before - usage.ru_utime - usage.ru_stime
    others = max(0.0, others_s / (time.perf_counter() - started))
    text = "".join(output)
    if process.returncode != 0 or first is None:
        sys.exit(f"bench_cpu: {' '.join(command)} ended with {process.returncode}:\n{text}")
    return {"first_step_s": first, "rss_mib": usage.ru_maxrss / 1024, "output": text, "others": others}


def busy_s():
    """Seconds that the cores have spent on anything but idling since the machine started."""
    user, nice, system, _, _, irq, softirq = (int(x) for x in pathlib.Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def wait_for_silence(limit_s):
    """Until other processes leave the cores idle, or it has taken too long."""
    deadline, busy = time.monotonic() + limit_s, 1.0
    while busy > 0.15 and time.monotonic() < deadline:
        before = busy_s()
        time.sleep(1)
        busy = busy_s() - before


def torch_llama(a, mode, precision, variant, workload=DEBUG):
    name = {"eager": "PyTorch eager", "compile": "torch.compile", "products": FLOOR}[mode]
    if precision == "bf16" and mode != "products":
        name += ", autocast" if variant == "bf16-autocast" else ", weights cast"
    return Torch(a, name, precision, ["--mode", mode, "--precision", variant], workload)


def contestants(a):
    for precision, variants in PRECISIONS.items():
        yield from (Rondo(a, executor, precision) for executor in ("eager", "interpreter", "replay"))
        modes = ["eager"] if a.no_compile else ["eager", "compile"]
        yield from (torch_llama(a, mode, precision, variant) for mode in modes for variant in variants)
        yield torch_llama(a, "products", precision, variants[0])
        yield Rondo(a, "replay", precision, ranks=2)
        yield Rondo(a, "replay", precision, threads=a.threads // 2)  # what each of the two ranks would do alone
        for workload in (SMALL, PACKED):
            yield Rondo(a, "replay", precision, workload)
            yield from (torch_llama(a, mode, precision, variants[0], workload) for mode in ("eager", "products"))
    yield from (Rondo(a, executor, "fp32", MIXTURE) for executor in ("eager", "replay"))
    yield from (Torch(a, f"transformers, {experts} experts", "fp32", ["--experts", experts], MIXTURE)
                for experts in ("eager", "grouped_mm"))


def write_short_documents():
    """Pieces of the corpus, 1 to 511 bytes long: 256 on average."""
    text, lengths, begin = pathlib.Path(CORPUS).read_bytes()[:1 << 22], random.Random(0), 0
    with SHORT_DOCUMENTS.open("w") as file:
        while begin < len(text):
            length = lengths.randint(1, 511)
            file.write(json.dumps({"text": text[begin:begin + length].decode("latin-1")}) + "\n")
            begin += length


def summary(contestant, runs):
    steps = [s for run in runs for s in run["step_s"]]
    return {"name": contestant.name, "workload": contestant.workload.title, "precision": contestant.precision, "command": contestant.command,
            "threads": contestant.threads, "median_ms": statistics.median(steps) * 1e3, "min_ms": min(steps) * 1e3,
            "round_medians_ms": [statistics.median(run["step_s"]) * 1e3 for run in runs],
            "tokens_per_s": contestant.workload.batch * contestant.workload.length * contestant.ranks /
                            statistics.median(steps),
            "rss_mib": max(run["rss_mib"] for run in runs),
            "tensor_mib": max(run.get("tensor_mib", 0) for run in runs), "losses": runs[0]["losses"],
            "others": [run["others"] for run in runs], "step_s": [run["step_s"] for run in runs]}


def measure(a):
    everyone = [c for c in contestants(a) if c.workload.name in a.only and c.precision in a.precisions]
    runs = {c: [] for c in everyone}
    for number in range(a.rounds):
        for c in everyone:
            wait_for_silence(a.idle_wait_s)
            runs[c].append(c.run(a))
            median_ms = statistics.median(runs[c][-1]["step_s"]) * 1e3
            print(f"round {number + 1}: {c.precision} {c.name}: {median_ms:.1f} ms "
                  f"(others used {runs[c][-1]['others']:.2f} cores)", flush=True)
    return [summary(c, runs[c]) for c in everyone]


def measure_starts(a):
    everyone = [Rondo(a, "replay", "fp32"), torch_llama(a, "eager", "fp32", "fp32"),
                torch_llama(a, "compile", "fp32", "fp32")]
    taken, compile_ms = {c.name: [] for c in everyone}, []
    for _ in range(a.starts):
        for c in everyone:
            wait_for_silence(a.idle_wait_s)
            taken[c.name].append(c.start())
            print(f"start: {c.name}: {taken[c.name][-1]:.2f} s", flush=True)
        compile_ms.append(everyone[0].compile_ms())
    return {"first_step_s": taken, "compile_ms": compile_ms}


def lower_quartile_of_ratios(of, to):
    """Of the rounds' medians: machines are noisy, and what three of four rounds show is believed."""
    ratios = sorted(a / b for a, b in zip(of["round_medians_ms"], to["round_medians_ms"]))
    return ratios[(len(ratios) - 1) // 4]


def steps_table(rows):
    replay = next(r for r in rows if r["name"] == "rondo replay")
    floor = next((r for r in rows if r["name"] == FLOOR), None)
    yield ("| | step, median | minimum | tokens/s | time over replay's | share of the products | peak of tensors | "
           "peak resident | loss 1, 2, last |")
    yield "|---|---|---|---|---|---|---|---|---|"
    for r in rows:
        tensors = f"{r['tensor_mib']:.0f} MiB" if r["tensor_mib"] else ""
        losses = ", ".join(f"{r['losses'][i]:.4f}" for i in (0, 1, -1) if r["losses"])
        over = f"{lower_quartile_of_ratios(r, replay):.2f}" if r is not replay else ""
        share = f"{100 * lower_quartile_of_ratios(floor, r):.0f} %" if floor and r is not floor else ""
        yield (f"| {r['name']} | {r['median_ms']:.1f} ms | {r['min_ms']:.1f} ms | {r['tokens_per_s']:,.0f} | {over} | "
               f"{share} | {tensors} | {r['rss_mib']:.0f} MiB | {losses} |")


def starts_table(starts):
    yield "| | process start to first finished step, median | minimum |"
    yield "|---|---|---|"
    for name, taken in starts["first_step_s"].items():
        cold = ", cold cache" if name == "torch.compile" else ""
        yield f"| {name}{cold} | {statistics.median(taken):.2f} s | {min(taken):.2f} s |"
    yield ""
    yield (f"Rondo's trace and passes of the training step and the validation step together: "
           f"{statistics.median(starts['compile_ms']):.1f} ms.")


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    version = subprocess.run(["scripts/oracle_python.sh", "-c", "import torch; print(torch.__version__)"],
                             capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}; torch {version}, rondo at {commit}"


def report(a, rows, starts, load):
    others = [o for r in rows for o in r["others"]]
    yield f"# The debug steps on CPU, {datetime.date.today()}"
    yield ""
    yield (f"`{LLAMA[0]}` (6.2M parameters) and `{DEEPSEEK[0]}` (33M). {machine()}. {a.rounds} interleaved rounds of "
           f"{a.steps} steps each after {WARMUP} that are not counted; every contestant has {a.threads} threads in all. "
           f"Load average {load[0]} before and {load[1]} after; during a turn, other processes used "
           f"{statistics.median(others):.2f} cores (median; at most {max(others):.2f}).")
    yield ""
    restrictions = "".join(f"{name}={os.environ[name]} " for name in RESTRICTIONS if name in os.environ)
    yield (f"Command: `{restrictions}ROUNDS={a.rounds} STEPS={a.steps} STARTS={a.starts} THREADS={a.threads} "
           f"scripts/bench_cpu.sh --only {' '.join(a.only)} --precisions {' '.join(a.precisions)}{' --no-compile' if a.no_compile else ''}`.")
    yield ""
    yield (f"\"{FLOOR}\" are the step's products of linear layers alone, in PyTorch. Ratios are lower quartiles over the rounds: "
           "of a contestant's time over that of replay in the same round, and of the products' over a contestant's. Each of "
           "2 ranks has a whole batch and half of the threads: beside it stands 1 rank with half of the threads.")
    for workload in WORKLOADS:
        for precision in ("fp32", "bf16"):
            of_both = [r for r in rows if r["precision"] == precision and r["workload"] == workload.title]
            if of_both:
                yield from ("", f"## {workload.title}, {precision}", "", *steps_table(of_both))
    yield ""
    yield ("Losses of Rondo's executors are equal where the ranks are; PyTorch starts from other random numbers of the same "
           "distributions and reads other lines of the same text.")
    if starts:
        yield from ("", "## Start", "", *starts_table(starts))


def main():
    a = arguments()
    WORK.mkdir(parents=True, exist_ok=True)
    write_short_documents()
    def load():
        return " ".join(pathlib.Path("/proc/loadavg").read_text().split()[:3])
    before = load()
    rows = measure(a)
    starts = measure_starts(a) if DEBUG.name in a.only and a.starts else None
    (WORK / "cpu_debug.json").write_text(json.dumps({"steps": rows, "starts": starts}, indent=1))
    text = "\n".join(report(a, rows, starts, (before, load()))) + "\n"
    output = pathlib.Path(a.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
