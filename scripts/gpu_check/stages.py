"""What scripts/gpu_check.sh checks, in the order of what matters most. Every function is given a Stage."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time

from stage import ROOT, Failed, Missing, Skipped

MIB, GIB = 1 << 20, 1 << 30
CUDAGRAPH = "--compile.passes=default,cudagraph"
LLAMA, DEEPSEEK = "configs/llama3_debug.toml", "configs/deepseek_v3_debug.toml"


# --- runs of rondo ---

def rondo(stage):
    return stage.run.folder / "rondo"


def train_words(stage, name, config, flags):
    return [rondo(stage), "train", f"--job.config_file={ROOT / config}", f"--job.dump_folder={stage.work / name}",
            "--job.device=cuda", f"--training.dataset_path={stage.work / 'corpus'}", "--validation.enable=false",
            "--metrics.log_freq=1000", "--compile.dump=none", "--lr_scheduler.total_steps=1000000", *flags]


def train(stage, name, config, flags, limit_s=60.0):
    return stage.command(name, train_words(stage, name, config, flags), limit_s)


def train_or_say_why(stage, name, config, flags, limit_s=60.0):
    """As `train`, and must end with 0. If it does not, one step is run again in the way that names the op that failed."""
    ended = train(stage, name, config, flags, limit_s)
    if ended.code == 0 or ended.cut:
        return ended.expect()
    flags = [flag for flag in flags if not flag.startswith(("--compile.passes", "--training.steps"))]
    again = stage.command(f"{name}_again", train_words(stage, f"{name}_again", config, [
        *flags, "--compile.executor=interpreter", "--training.steps=1"]), 90, {"CUDA_LAUNCH_BLOCKING": "1"})
    last = [line for line in again.output.splitlines() if "error" in line] or ["no error"]
    try:
        return ended.expect()
    except Failed as what:
        raise Failed(f"{what}; one step of the interpreter with CUDA_LAUNCH_BLOCKING=1: exit code {again.code}, "
                     f"{last[-1][:300]} (logs/{again.log.name})") from None


def lines_of(path):
    """The whole lines of a file of JSON lines; the run may still write it."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def metrics(stage, name):
    return lines_of(stage.work / name / "metrics.jsonl")


def measured_lines(stage, name, warm_up):
    """The metrics of the steps behind the warm-up, but for the last one: its time is too short where numbers come late."""
    return metrics(stage, name)[warm_up:-1]


def event(stage, name, kind):
    return next((e for e in lines_of(stage.work / name / "events.jsonl") if e["event"] == kind), {})


def recorded(stage, name):
    """Figures of what the run recorded. A run with the pass cudagraph that recorded nothing shows nothing."""
    facts = event(stage, name, "replaying")
    if not facts.get("segments"):
        raise Failed("nothing was recorded: events.jsonl has no event \"replaying\" with segments")
    return facts


# --- the GPU ---

def nvidia_smi(query):
    """The first GPU's line."""
    try:
        words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
        asked = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if asked.returncode != 0 or not asked.stdout.strip():
        said = (asked.stdout + asked.stderr).strip().splitlines() or ["it says nothing"]
        raise Failed(f"nvidia-smi: {said[0]}")
    return [word.strip() for word in asked.stdout.strip().splitlines()[0].split(",")]


def gpu_used_mib():
    return int(nvidia_smi("memory.used")[0])


@contextlib.contextmanager
def watch_gpu_memory():
    """The most memory of the GPU that is seen in use, in MiB, in the list that it gives."""
    most, stop = [gpu_used_mib()], threading.Event()

    def watch():
        while not stop.wait(0.1):
            most[0] = max(most[0], gpu_used_mib())
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def watch_clock():
    """Samples clock and power of the first GPU ten times a second, in the list of (MHz, W) that it gives."""
    words = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-i", "0", "-lms", "100"]
    samples = []
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def read():
        for line in child.stdout:
            with contextlib.suppress(ValueError):
                megahertz, watts = line.split(",")
                samples.append((float(megahertz), float(watts)))
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        child.terminate()
        child.wait()
        thread.join()


def clock_under_load(samples):
    """Median clock and power of the samples that draw at least 80 % of the most, which leaves out the start of a run."""
    if not samples:
        return {}
    most = max(watts for _, watts in samples)
    busy = [sample for sample in samples if sample[1] >= 0.8 * most]
    return {"sm_mhz": statistics.median(megahertz for megahertz, _ in busy),
            "power_w": statistics.median(watts for _, watts in busy)}


# --- what is here ---

def facts(stage):
    def gpu():
        try:
            name, driver, memory, used = nvidia_smi("name,driver_version,memory.total,memory.used")
        except Failed as what:
            raise Missing(f"no NVIDIA GPU is here ({what}); run the check on a machine with one") from None
        clock, most, power, limit = nvidia_smi("clocks.sm,clocks.max.sm,power.draw,power.limit")
        return {"gpu": name, "driver": driver, "memory_mib": int(memory), "used_mib": int(used), "sm_mhz": clock,
                "most_sm_mhz": most, "power_w": power, "power_limit_w": limit}

    def programs():
        ended = stage.command("version", [stage.run.folder / "rondo-worker", "--version"], 60).expect()
        packed = (stage.run.folder / "packed.txt").read_text(encoding="utf-8").splitlines()
        return {"worker": ended.output.strip(), "packed": packed[0]}

    def torch():
        code = ("import json, torch; print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
                "'cudnn': torch.backends.cudnn.version(), 'nccl': '.'.join(map(str, torch.cuda.nccl.version())), "
                "'device': torch.cuda.get_device_name(0), "
                "'capability': '%d.%d' % torch.cuda.get_device_capability(0)}))")
        return json.loads(stage.command("torch", ["python3", "-c", code], 60).expect().output.splitlines()[-1])

    def corpus():
        there = ROOT / "data" / "corpus" / "headers.packed"
        if there.exists():
            (stage.work / "corpus").mkdir()
            shutil.copy(there, stage.work / "corpus")
            return {"from": "data/corpus"}
        for headers in (ROOT, pathlib.Path(os.environ["RONDO_GPU_CHECK_TORCH"]) / "include"):
            ended = stage.command("corpus", ["sh", ROOT / "scripts/make_corpus.sh", headers, stage.work / "corpus"], 40)
            if ended.code == 0:
                return {"from": str(headers)}
        return ended.expect()

    def variables():
        kept = ("NCCL_", "CUDA_", "CUBLAS_", "CUDNN_", "TORCH_", "PYTORCH_")
        return {name: value for name, value in sorted(os.environ.items()) if name.startswith(kept)}

    def one_step():
        train_or_say_why(stage, "one_step", LLAMA, ["--training.steps=1"])
        return {"loss": metrics(stage, "one_step")[0]["loss"]}

    stage.case("GPU", gpu)
    stage.case("corpus", corpus)  # nothing trains without it
    stage.case("programs", programs)
    stage.case("torch", torch)
    stage.case("variables of the libraries", variables)
    stage.case("one step on the GPU", one_step)


# --- programs that try ops, and recordings ---

def program(stage, name, flags=()):
    """Runs a check program, each of whose cases is a line of JSON, and takes over its cases as they come."""
    began = time.monotonic()
    child, log = stage.start(" ".join([name, *flags]), [stage.run.folder / name, "--device=cuda", *flags])
    seen = 0

    def take_over():
        nonlocal seen
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
                 if line.startswith("{") and line.endswith("}\n")]
        for line in lines[seen:]:
            found = json.loads(line)
            stage.record(found["case"], found["status"], found["seconds"], found["figures"], found["message"])
        seen = len(lines)

    while child.poll() is None and stage.left() > 0:
        time.sleep(0.2)
        take_over()
    ended = stage.finish(child, log, began, stage.left())
    take_over()
    if ended.code not in (0, 1):
        ended.expect()
    if seen == 0:
        raise Failed(f"{name} told of no case (logs/{log.name})")


# After an error that a context does not survive every later case fails, so each group has a process of its own.
GROUPS = ["attention", "experts", "bits", "float8", "fused", "loss", "matmul"]


def kernels(stage):
    stage.cases({f"group {group}": lambda g=group: program(stage, "kernel_check", [f"--group={g}"]) for group in GROUPS},
                at_once=3)


def kernel_times(stage):
    program(stage, "kernel_check", ["--group=times"])


def sanitizer(stage):
    """Races and wrong addresses, which running kernels on the host cannot show."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(tool, os.X_OK):
        raise Skipped("there is no compute-sanitizer here")

    def watched(kind, group):
        # Of our kernels alone: those of libraries take long, and are known to be reported. Without LibTorch's cache each
        # tensor is an allocation of its own, over whose end memcheck sees.
        ended = stage.command(f"{kind} {group}", [
            tool, "--tool", kind, "--error-exitcode", "99", "--report-api-errors", "no", "--kernel-name", "kns=rondo",
            stage.run.folder / "kernel_check", "--device=cuda", f"--group={group}"], 80,
            {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if kind == "memcheck" else None)
        if ended.code is None:
            raise Skipped(f"it did not end within {ended.seconds:.0f} s (logs/{ended.log.name})")
        if "Internal Sanitizer Error" in ended.output:
            raise Skipped(f"the tool itself failed (logs/{ended.log.name})")
        said = [line.strip("= ") for line in ended.output.splitlines() if line.startswith("=========") and line.strip("= ")]
        tried = ended.output.count('"status":"ok"')
        if ended.code in (0, 1) and tried > 0 and any("SUMMARY: 0 " in line for line in said):
            return {"seconds": ended.seconds, "cases": tried}  # what a case found the stage "kernels" tells
        raise Failed(f"exit code {ended.code}, {tried} cases ran; {'; '.join(dict.fromkeys(said[1:3] + said[-1:]))[:400]} "
                     f"(logs/{ended.log.name})")

    stage.cases({f"{kind}, {group}": lambda k=kind, g=group: watched(k, g)
                 for group in ("fused", "bits", "experts", "loss") for kind in ("memcheck", "racecheck")}, at_once=3)


def contract(stage):
    for name in ("graph_device_check", "refusal_check"):
        stage.case(name, lambda n=name: program(stage, n))


# --- the same bits however a step is run ---

STEPS = 12
BF16 = "--training.mixed_precision_param=bfloat16"
FLOAT8_EXPERTS = ["--model.converters=quantize.grouped_mm.float8", "--quantize.grouped_mm.float8.fqns=experts"]
EXPERTS_IN_BLOCKS = [*FLOAT8_EXPERTS, "--quantize.grouped_mm.float8.recipe_name=blockwise", "--quantize.grouped_mm.float8.emulate=true"]
MXFP8 = ["--model.converters=quantize.linear.mx", "--quantize.linear.mx.emulate=true"]
NVFP4 = ["--model.converters=quantize.linear.nvfp4", "--quantize.linear.nvfp4.emulate=true"]
EXPERTS_IN_MXFP8 = ["--model.converters=quantize.grouped_mm.mx", "--quantize.grouped_mm.mx.fqns=experts",
                    "--quantize.grouped_mm.mx.emulate=true"]
FP32 = "--training.mixed_precision_param=float32"
SAME_BITS = ["--debug.deterministic=true", "--debug.hash_every=1", f"--training.steps={STEPS}"]
WAYS = {"eager": ["--compile.enable=false"], "interpreter": ["--compile.executor=interpreter"],
        "replay": ["--compile.executor=replay"], "cudagraph": ["--compile.executor=replay", CUDAGRAPH]}
MODELS = {
    "llama3 fp32": (LLAMA, [FP32]),
    "llama3 bf16": (LLAMA, [BF16]),
    "llama3 bf16, documents": (LLAMA, [BF16, "--training.document_attention=true"]),
    "llama3 bf16, 2 microbatches": (LLAMA, [BF16, "--training.global_batch_size=8"]),
    "llama3 bf16, 2 overlapped microbatches": (LLAMA, [BF16, "--parallelism.overlapped_microbatches=2"]),
    "deepseek_v3 fp32": (DEEPSEEK, [FP32]),
    "deepseek_v3 bf16": (DEEPSEEK, [BF16]),
    "deepseek_v3 bf16, experts in float8": (DEEPSEEK, [BF16, *FLOAT8_EXPERTS]),
    "deepseek_v3 bf16, experts in blocks of float8, emulated": (DEEPSEEK, [BF16, *EXPERTS_IN_BLOCKS]),
    "deepseek_v3 bf16, experts in MXFP8, emulated": (DEEPSEEK, [BF16, *EXPERTS_IN_MXFP8]),
    "llama3 bf16, linear layers in MXFP8, emulated": (LLAMA, [BF16, *MXFP8]),
    "llama3 bf16, linear layers in NVFP4, emulated": (LLAMA, [BF16, *NVFP4]),
}
# Compared with the interpreter of the same graph: fused kernels and a loss in chunks round differently from an eager step,
# and eager steps have neither early updates nor state in host memory.
FUSED = ["--compile.numerics=rounds"]
EARLY = ["--optimizer.early_step_in_backward=true", "--training.max_norm=inf"]
ON_HOST = ["--training.enable_cpu_offload=true"]
GRAPH_MODELS = {
    "llama3 bf16, fused": (LLAMA, [BF16, *FUSED]),
    "deepseek_v3 bf16, fused": (DEEPSEEK, [BF16, *FUSED]),
    "llama3 bf16, early updates": (LLAMA, [BF16, *EARLY]),
    "llama3 bf16, state in host memory": (LLAMA, [BF16, *ON_HOST]),
    "deepseek_v3 bf16, early updates of state in host memory": (DEEPSEEK, [BF16, *EARLY, *ON_HOST]),
}
POLICIES = ["default", "full", "eager", "min_cut", "budget", "sac_and_offload"]


def slug(*words):
    return re.sub(r"[^a-z0-9]+", "_", " ".join(words).lower())


def compare(stage, a, b):
    """Both runs ended well, and all of their steps are equal, hashes of all state included."""
    for name in (a, b):
        if len(metrics(stage, name)) != STEPS:
            raise Skipped(f"the run {name} has not all of its {STEPS} steps")
    ended = stage.command(f"{a} and {b}", [rondo(stage), "compare", stage.work / a, stage.work / b], 20)
    if ended.code != 0:
        raise Failed(next((line for line in ended.output.splitlines() if "differ" in line), ended.output[:200]))
    return {"steps": STEPS, "last_loss": metrics(stage, a)[-1]["loss"]}


def spread(stage, a, b):
    one, other = metrics(stage, a), metrics(stage, b)
    if len(one) != STEPS or len(other) != STEPS:
        raise Skipped("a run has not all of its steps")
    apart = [abs(x["loss"] - y["loss"]) / abs(y["loss"]) for x, y in zip(one, other)]
    return {"steps": STEPS, "largest_relative_difference": max(apart),
            "equal_steps": sum(difference == 0 for difference in apart)}


# What the first half of a check tries.
CORE = ("llama3 fp32", "llama3 bf16", "deepseek_v3 bf16")


def core_bits(stage):
    compare_ways(stage, {model: MODELS[model] for model in CORE}, {}, {}, twice=False)


LOSS_STEPS = 10
LARGEST_LOSS_DIFFERENCE = 2e-3


def losses(stage):
    """The one check of meaning from end to end: the same model on the same data, on the CPU and on the GPU."""
    flags = [FP32, f"--training.steps={LOSS_STEPS}"]

    def apart(model, config):
        names = {device: slug("loss", model, device) for device in ("cpu", "cuda")}
        for device, name in names.items():
            train(stage, name, config, [*flags, f"--job.device={device}"], 60).expect()
        cpu, cuda = ([line["loss"] for line in metrics(stage, name)] for name in names.values())
        if len(cpu) != LOSS_STEPS or len(cuda) != LOSS_STEPS:
            raise Failed("a run has not all of its steps")
        most = max(abs(a - b) for a, b in zip(cpu, cuda))
        if most > LARGEST_LOSS_DIFFERENCE:
            raise Failed(f"losses differ by {most:.2e}, at most {LARGEST_LOSS_DIFFERENCE} is allowed: {cpu} and {cuda}")
        return {"largest_difference": most, "last_loss": cuda[-1]}

    stage.cases({f"{model}: CPU and GPU": lambda m=model, c=config: apart(m, c)
                 for model, config in {"llama3": LLAMA, "deepseek_v3": DEEPSEEK}.items()}, at_once=2)


def other_bits(stage):
    compare_ways(stage, {model: how for model, how in MODELS.items() if model not in CORE}, GRAPH_MODELS,
                 {"llama3 bf16": POLICIES, "deepseek_v3 bf16": ["default", "full"]}, twice=True)
    stage.case("llama3 bf16, cudagraph: state on the device == in host memory", lambda: compare(
        stage, slug("llama3 bf16", "cudagraph"), slug("llama3 bf16, state in host memory", "cudagraph")))
    stage.record("deepseek_v3: standard exchange", "skipped", message="by exact counts needs several ranks: stage \"several GPUs\"")


def compare_ways(stage, models, graph_models, policies_of, twice):
    jobs = {}

    def job(name, config, flags, records=False):
        def run():
            ended = train(stage, name, config, flags)
            ended.expect()
            figures = {"run_s": ended.seconds}
            if records:
                figures["segments"] = recorded(stage, name)["segments"]
            return figures
        jobs[f"run {name}"] = run

    for model, (config, flags) in models.items():
        for way, how in WAYS.items():
            job(slug(model, way), config, SAME_BITS + flags + how, way == "cudagraph")
    for model, (config, flags) in graph_models.items():
        for way in ("interpreter", "replay", "cudagraph"):
            job(slug(model, way), config, SAME_BITS + flags + WAYS[way], way == "cudagraph")
    for model, policies in policies_of.items():
        config, flags = MODELS[model]
        job(slug(model, "cudagraph"), config, SAME_BITS + flags + WAYS["cudagraph"], True)
        for policy in policies:
            job(slug(model, policy), config,
                SAME_BITS + flags + WAYS["cudagraph"] + [f"--compile.memory_policy={policy}"], True)
    free = [flag for flag in SAME_BITS if "deterministic" not in flag]
    for number in ("one", "other") if twice else ():
        job(f"free_{number}", LLAMA, free + [BF16] + WAYS["cudagraph"], True)

    stage.cases(jobs, at_once=5, needs_s=15)
    for model in models:
        whole = [way for way in WAYS if len(metrics(stage, slug(model, way))) == STEPS]
        for way in whole[1:]:
            stage.case(f"{model}: {whole[0]} == {way}",
                       lambda m=model, a=whole[0], b=way: compare(stage, slug(m, a), slug(m, b)))
        if len(whole) < len(WAYS):
            stage.record(f"{model}: all ways", "skipped", message="not all of their runs have all steps")
    for model in graph_models:
        for way in ("replay", "cudagraph"):
            stage.case(f"{model}: interpreter == {way}",
                       lambda m=model, w=way: compare(stage, slug(m, "interpreter"), slug(m, w)))
    for model, policies in policies_of.items():
        for policy in policies:
            stage.case(f"{model}, cudagraph: memory policy none == {policy}",
                       lambda m=model, p=policy: compare(stage, slug(m, "cudagraph"), slug(m, p)))
    if twice:
        stage.case("llama3 bf16: two runs without debug.deterministic", lambda: spread(stage, "free_one", "free_other"))


# --- the figure to beat, and where its time goes ---

EIGHT_B = "configs/llama3_8b.toml"
COMPASS = ["--training.seq_len=4096", "--training.dtype=bfloat16", "--activation_checkpoint.mode=none", *FUSED]
FLOAT8 = ["--model.converters=float8", "--quantize.linear.float8.filter_fqns=output"]
COMPASS_STEPS = (4, 10)  # not measured, measured
COMPASS_CASES = {
    "batch 1": [],
    "batch 1, attention by flash": ["--compile.attention=flash"],
    "32,768 tokens in 8 microbatches": ["--training.global_batch_size=8"],
    "8,192 tokens": ["--training.seq_len=8192"],
    "batch 1, the loss in eight chunks": ["--compile.loss_chunks=8"],
    "batch 2": ["--training.local_batch_size=2"],
    "batch 1, everything recomputed": ["--activation_checkpoint.mode=full"],
    "batch 1, exact": ["--compile.numerics=exact"],
    "batch 1, float8, a scale a matrix": [*FLOAT8, "--quantize.linear.float8.recipe_name=tensorwise"],
    "batch 1, float8, scales of 128": [*FLOAT8, "--quantize.linear.float8.recipe_name=blockwise"],
}


def plan_of_compass(stage, name, flags):
    """What `rondo plan` says for this GPU. Skipped where that has not the memory."""
    words = [rondo(stage), "plan", ROOT / EIGHT_B, "--world", "1", "--json", "--search-plans=0", *COMPASS, *flags]
    ended = stage.command(f"plan {name}", [*words, "--device", nvidia_smi("name")[0]], 30)
    if ended.code == 2:  # a GPU that it does not know: an H200's plan is better than none
        ended = stage.command(f"plan {name}", words, 30)
    planned = json.loads(ended.expect().output)
    memory = planned["memory"]
    if not memory["fits"]:
        raise Skipped(f"{memory['total_bytes'] / GIB:.1f} GiB are planned, "
                      f"and tensors can have {memory['usable_bytes'] / GIB:.1f}")
    return planned


def compass(stage):
    warm_up, measured = COMPASS_STEPS

    def speed_of(name, flags):
        planned = plan_of_compass(stage, name, flags)
        with watch_clock() as clock:
            train_or_say_why(stage, slug("compass", name), EIGHT_B,
                             [*COMPASS, *flags, CUDAGRAPH, f"--training.steps={warm_up + measured + 1}"], 90)
        lines = measured_lines(stage, slug("compass", name), warm_up)
        step_s = statistics.median(line["step_time_s"] for line in lines)
        facts_of = recorded(stage, slug("compass", name))
        return {"tokens_per_s": planned["tokens_per_step"] / step_s, "median_ms": step_s * 1e3,
                "mfu": statistics.median(line["mfu"] for line in lines),
                "planned_tokens_per_s": planned["tokens_per_s"], **clock_under_load(clock),
                "tensors_gib": max(line["memory_gib"] for line in lines),
                "planned_gib": planned["memory"]["total_bytes"] / GIB, "planned_for": planned["device"],
                "segments": facts_of["segments"], "last_loss": lines[-1]["loss"]}

    for name, flags in COMPASS_CASES.items():
        stage.case(f"llama3 8B bf16, {name}", lambda n=name, f=flags: speed_of(n, f), 20)

    def with_measured_algorithms():
        table = stage.work / "matmul_algorithms.json"
        stage.command("tune", [rondo(stage), "tune", ROOT / EIGHT_B, "--out", table, *COMPASS], 60).expect()
        rows = json.loads(table.read_text(encoding="utf-8"))["products"]
        saved = sum(row["calls"] * (row["libtorch_us"] - row["us"]) for row in rows)
        return {**speed_of("measured algorithms", [f"--compile.matmul_algorithms={table}"]),
                "products": len(rows), "saved_alone_ms": saved / 1e3}

    stage.case("llama3 8B bf16, batch 1, measured algorithms of products", with_measured_algorithms, 40)


def profile_of_last(steps):
    """Flags that profile the last of so many steps."""
    return [f"--training.steps={steps}", "--profiling.enable_profiling=true", f"--profiling.profile_freq={steps}",
            "--profiling.profiler_active=1", "--profiling.profiler_warmup=1"]


def record_kernels(stage, name, label, most):
    """A result for each of the kernels that took longest in the profile of a run; returns the sums over all."""
    trace = next((stage.work / name).glob("profile_traces/*/rank0_trace.json"))
    spent = {}
    for found in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]:
        if found.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            microseconds, launches = spent.get(found["name"], (0.0, 0))
            spent[found["name"]] = (microseconds + found["dur"], launches + 1)
    trace.unlink()  # too large to be brought home
    if not spent:
        raise Failed("the trace of the profiler has no kernel")
    total = sum(microseconds for microseconds, _ in spent.values())
    for kernel, (microseconds, launches) in sorted(spent.items(), key=lambda item: -item[1][0])[:most]:
        stage.record(f"{label}: {kernel[:120]}", "ok",
                     figures={"ms": microseconds / 1e3, "launches": launches, "share": microseconds / total})
    return {"kernels": len(spent), "launches": sum(n for _, n in spent.values()), "ms": total / 1e3}


def kernel_table(stage):
    """The kernels of one step of the compass that take longest, by the profiler, replayed with and without recordings."""
    for way in ("replay", "cudagraph"):
        name = slug("profiled", way)

        def profiled(name=name, way=way):
            train_or_say_why(stage, name, EIGHT_B, [*COMPASS, *WAYS[way], *profile_of_last(6)], 90)
            return record_kernels(stage, name, way, 40)
        stage.case(f"{way}: all kernels of a step", profiled, 10)


# As much of each model as a step takes half a second for.
WHOLE = ["--training.dtype=bfloat16", "--activation_checkpoint.mode=none", *FUSED, "--training.seq_len=4096"]
OTHER_MODELS = {
    "qwen3 8B, 4,096 tokens": ("configs/qwen3_8b.toml", [*WHOLE, "--training.local_batch_size=1"]),
    "llama3 8B, 16 layers, 8,192 tokens in documents": (EIGHT_B, [
        *WHOLE, "--model.n_layers=16", "--training.seq_len=8192", "--training.document_attention=true"]),
    "deepseek_v3 16B, 8 layers, 16,384 tokens": ("configs/deepseek_v3_16b.toml", [
        *WHOLE, "--model.n_layers=8", "--parallelism.expert_parallel_degree=1"]),
    "deepseek_v3 16B, 8 layers, 16,384 tokens, experts in float8": ("configs/deepseek_v3_16b.toml", [
        *WHOLE, "--model.n_layers=8", "--parallelism.expert_parallel_degree=1", *FLOAT8_EXPERTS]),
    "gpt_oss 20B, 6 layers, 8,192 tokens": ("configs/gpt_oss_20b.toml", [
        *WHOLE, "--model.n_layers=6", "--parallelism.expert_parallel_degree=1", "--training.local_batch_size=2"]),
}


def other_models(stage):
    """Speed of recorded steps, and the kernels of one of them."""
    steps = 12

    def measured(name, config, flags):
        train_or_say_why(stage, name, config, [*flags, CUDAGRAPH, *profile_of_last(steps)], 90)
        lines = metrics(stage, name)
        step_s = statistics.median(line["step_time_s"] for line in lines[4:-2])
        return {"median_ms": step_s * 1e3, "tokens_per_s": statistics.median(line["tokens_per_s"] for line in lines[4:-2]),
                "mfu": statistics.median(line["mfu"] for line in lines[4:-2]),
                "tensors_gib": max(line["memory_gib"] for line in lines), "last_loss": lines[-1]["loss"],
                **record_kernels(stage, name, name, 20)}

    for name, (config, flags) in OTHER_MODELS.items():
        stage.case(name, lambda n=slug("model", name), c=config, f=flags: measured(n, c, f), 15)


# --- checkpoints ---

HALF = STEPS // 2
SAVING = ["--checkpoint.enable=true", f"--checkpoint.interval={HALF}"]
VALIDATING = ["--validation.enable=true", "--validation.freq=4", "--validation.steps=2"]


def checkpoints(stage):
    """Resumed runs continue with the same bits, and the CPU reads what a GPU saved. These are the first validations, too."""
    def words(name, *flags):
        return train_words(stage, name, LLAMA, [*SAME_BITS, *VALIDATING, *WAYS["cudagraph"], *flags])

    def run(name, *flags):
        return stage.command(name, words(name, *flags), 60).expect()

    def until_half(name, *flags):
        stage.command(f"{name}_half", [*words(name, *SAVING, *flags), f"--training.steps={HALF}"], 60).expect()

    def resumed(name, *flags):
        until_half(name, BF16)
        run(name, BF16, *SAVING, *flags)
        return compare(stage, "uninterrupted", name)

    def saved_beside_steps():
        run("saved_beside_steps", BF16, "--checkpoint.enable=true", "--checkpoint.interval=1", "--checkpoint.async_mode=async")
        return compare(stage, "uninterrupted", "saved_beside_steps")

    def evaluated_on_the_cpu():
        run("evaluated", FP32, *SAVING)
        on_gpu = metrics(stage, "evaluated")[-1]["validation_loss"]
        ended = stage.command("eval", [rondo(stage), "eval", stage.work / "evaluated"], 60).expect()
        on_cpu = float(re.search(r"^loss (\S+)", ended.output, re.MULTILINE).group(1))
        if abs(on_gpu - on_cpu) > LARGEST_LOSS_DIFFERENCE:
            raise Failed(f"the validation loss is {on_gpu} on the GPU and {on_cpu} on the CPU")
        return {"on_gpu": on_gpu, "difference": abs(on_gpu - on_cpu)}

    def resumed_on_the_cpu():
        until_half("on_cpu", FP32)
        name = "on_cpu"
        run(name, FP32, *SAVING, "--job.device=cpu", "--compile.passes=default")
        losses_of = {key: [line["loss"] for line in metrics(stage, key)] for key in (name, "evaluated")}
        if len(losses_of[name]) != STEPS or len(losses_of["evaluated"]) != STEPS:
            raise Skipped("a run has not all of its steps")
        most = max(abs(a - b) for a, b in zip(*losses_of.values()))
        if most > LARGEST_LOSS_DIFFERENCE:
            raise Failed(f"losses differ by {most:.2e}: {losses_of}")
        return {"largest_difference": most}

    stage.case("uninterrupted", lambda: (run("uninterrupted", BF16), {"steps": len(metrics(stage, "uninterrupted"))})[1])
    stage.cases({
        "resumed": lambda: resumed("resumed"),
        "resumed by eager steps": lambda: resumed("resumed_eager", "--compile.enable=false", "--compile.passes=default"),
        "saved beside steps, each": saved_beside_steps,
        "evaluated on the CPU": evaluated_on_the_cpu,
    }, at_once=3, needs_s=15)
    stage.case("resumed on the CPU", resumed_on_the_cpu, 15)


# --- every way to end ---

def alive_in(session):
    """The processes of a session, but for those that have ended and that nobody has waited for."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(path.parent.name))
    return found


def soon(condition, limit_s, interval_s=0.1):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(interval_s)
    return True


ENDLESS = ["--training.steps=1000000"]
RECORDED_STEPS = 4  # warm-up, recording, and some that are launched


def end_of_run(stage, name, flags, code, act=None, launch=False, environment=None):
    """A recorded run; act(process) once it is under way. Its exit code, and that no process of it is left."""
    words = train_words(stage, name, LLAMA, [BF16, WAYS["cudagraph"][0], CUDAGRAPH, *flags])
    if launch:
        words = [words[0], "launch", "--nproc-per-node", "1", "--", *words[1:]]
    began = time.monotonic()
    child, log = stage.start(name, words, environment)
    asked = None
    if act is not None:
        under_way = soon(lambda: len(metrics(stage, name)) >= RECORDED_STEPS or child.poll() is not None, 40)
        asked = time.monotonic()
        if under_way and child.poll() is None:
            act(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(max(1.0, min(30.0, stage.left())))
    ended_s = time.monotonic() - (asked or began)
    left = [] if soon(lambda: not alive_in(child.pid), 2) else alive_in(child.pid)
    ended = stage.finish(child, log, began, 1)
    ended.expect(code)
    if left:
        raise Failed(f"processes {left} outlived the run (logs/{log.name})")
    return {"exit_code": ended.code, "ended_in_s": ended_s}


def kill_rank(child):
    for pid in alive_in(child.pid):
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "rondo-worker":
                os.kill(pid, signal.SIGKILL)


def interrupt_twice(child):
    child.send_signal(signal.SIGSTOP)  # it cannot finish its step in between
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGCONT)
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)


def teardown(stage):
    before = gpu_used_mib()

    def failed_recording():
        # Without its cache LibTorch takes memory from the driver in the recording, which the driver refuses.
        name, flags = "failed_recording", ["--training.steps=6"]
        try:
            return end_of_run(stage, name, flags, 10, environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        except Failed:
            if len(metrics(stage, name)) == 6:
                raise Skipped("PYTORCH_NO_CUDA_MEMORY_CACHING=1 let no recording fail") from None
            raise

    stage.cases({
        "normal": lambda: end_of_run(stage, "normal", ["--training.steps=6"], 0),
        "configuration error": lambda: end_of_run(stage, "config_error", ["--training.seq_len=0"], 3),
        "SIGTERM": lambda: end_of_run(stage, "sigterm", ENDLESS, 143, lambda p: p.terminate()),
        "SIGTERM, saved": lambda: end_of_run(stage, "sigterm_saved", [*ENDLESS, "--checkpoint.enable=true"], 75,
                                             lambda p: p.terminate()),
        "SIGINT twice": lambda: end_of_run(stage, "sigint", ENDLESS, 130, interrupt_twice),
        "kill -9 of a rank": lambda: end_of_run(stage, "killed", ENDLESS, 137, kill_rank, launch=True),
        "a step that is not finite": lambda: end_of_run(
            stage, "not_finite", ["--training.steps=20", "--optimizer.lr=1e30"], 8),
        "a recording that fails": failed_recording,
    }, at_once=3, needs_s=10)

    def memory_is_free():
        after = [before]

        def free():
            after[0] = gpu_used_mib()
            return after[0] <= before + 64
        if not soon(free, 8, 0.5):
            raise Failed(f"{after[0] - before} MiB more of the GPU are in use than before the runs")
        return {"before_mib": before, "after_mib": after[0]}
    stage.case("the GPU's memory is free again", memory_is_free)


# --- memory ---

ONE_B = ["--training.local_batch_size=2", "--training.seq_len=4096", BF16]


def memory(stage):
    plan_words = [rondo(stage), "plan", ROOT / "configs/llama3_1b.toml", "--world", "1", "--json", *ONE_B]
    seen = {}

    def run(name, flags):
        def measured():
            before = gpu_used_mib()
            with watch_gpu_memory() as most:
                train(stage, name, "configs/llama3_1b.toml", ["--training.steps=30", *ONE_B, *flags], 90).expect()
            seen[name] = most[0] - before
            facts_of = event(stage, name, "replaying")
            figures = {"in_use_mib": seen[name], "tensors_mib": max(m["memory_gib"] for m in metrics(stage, name)) * 1024}
            if facts_of:
                figures |= {"planned_arena_mib": facts_of["arena_bytes"] / MIB, "pool_mib": facts_of["pool_bytes"] / MIB,
                            "copied_bytes_a_step": facts_of["batch_bytes"]}
            return figures
        return measured

    def plan():
        ended = stage.command("plan", plan_words, 20).expect()
        return {"planned_mib": json.loads(ended.output)["memory"]["total_bytes"] / MIB}

    stage.case("llama3 1B: rondo plan", plan)
    stage.case("llama3 1B: replay", run("memory_replay", WAYS["replay"]), 15)
    stage.case("llama3 1B: cudagraph", run("memory_cudagraph", WAYS["cudagraph"]), 15)

    def recordings_cost_little():
        if len(seen) < 2:
            raise Skipped("a run is missing")
        share = seen["memory_cudagraph"] / seen["memory_replay"] - 1
        if share > 0.02:
            raise Failed(f"recordings take {share:.1%} more of the GPU than a replay without; the aim is 2 %")
        return {"more": share}
    stage.case("recordings take at most 2 % more of the GPU", recordings_cost_little)


# --- ranks ---

def ranks(stage):
    def two_on_one_gpu():
        torch_folder = pathlib.Path(os.environ["RONDO_GPU_CHECK_TORCH"])
        library = next(torch_folder.parent.glob("nvidia/nccl/lib/libnccl.so.2"), None)
        if library is None:
            raise Skipped("there is no libnccl.so.2 beside torch to ask for its version")
        version = ctypes.c_int()
        ctypes.CDLL(str(library)).ncclGetVersion(ctypes.byref(version))
        found = f"NCCL {version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"
        if version.value < 23000:
            raise Skipped(f"{found} refuses two ranks on one GPU; 2.30 and later allow it where asked to")
        raise Skipped(f"{found} allows it (NCCL_MULTI_RANK_GPU_ENABLE=1), but each rank of ours takes a GPU by LOCAL_RANK")
    stage.case("two ranks on one GPU", two_on_one_gpu)


def several_gpus(stage):
    import several  # which imports this module
    several.check(stage)


# --- speed, in all of the time that is left ---

SIZES = {
    "8 layers of 8B": {"config": "configs/llama3_8b.toml",
                       "flags": ["--model.n_layers=8", "--training.seq_len=8192", "--activation_checkpoint.mode=none"],
                       "steps": (6, 20), "batch": 1, "length": 8192,
                       "torch": ["--dim=4096", "--layers=8", "--heads=32", "--kv-heads=8", "--ffn=14336",
                                 "--vocabulary=128256"]},
    "1B": {"config": "configs/llama3_1b.toml", "flags": ["--training.local_batch_size=2", "--training.seq_len=4096"],
           "steps": (6, 20), "batch": 2, "length": 4096,
           "torch": ["--dim=2048", "--layers=16", "--heads=32", "--kv-heads=8", "--ffn=8192", "--vocabulary=128256",
                     "--tied"]},
    "debug": {"config": LLAMA, "flags": [BF16], "steps": (20, 100), "batch": 4, "length": 256,
              "torch": ["--dim=256", "--layers=6", "--heads=16", "--kv-heads=16", "--ffn=768", "--vocabulary=2048"]},
}


def figures_of(size, step_s):
    median = statistics.median(step_s)
    return {"tokens_per_s": size["batch"] * size["length"] / median, "median_ms": median * 1e3,
            "fastest_ms": min(step_s) * 1e3, "steps": len(step_s)}


def our_speed(stage, name, size, flags):
    warm_up, steps = size["steps"]
    train(stage, name, size["config"], [*size["flags"], *flags, f"--training.steps={warm_up + steps + 1}"], 120).expect()
    if CUDAGRAPH in flags:
        recorded(stage, name)
    lines = measured_lines(stage, name, warm_up)
    return {**figures_of(size, [line["step_time_s"] for line in lines]),
            "tensors_gib": max(line["memory_gib"] for line in lines), "last_loss": lines[-1]["loss"]}


def torch_speed(stage, name, size, round_number):
    """One process for both of PyTorch's ways, which take turns in it; a case for each."""
    warm_up, steps = size["steps"]
    words = ["python3", "benchmarks/gpu_pytorch_step.py", *size["torch"], f"--batch={size['batch']}",
             f"--length={size['length']}", f"--warmup={warm_up}", f"--steps={steps}",
             f"--text={next((stage.work / 'corpus').iterdir())}"]
    ended = stage.command(f"torch_{name}_{round_number}", words, 150,
                          {"TORCHINDUCTOR_CACHE_DIR": str(stage.work / "inductor")})
    found = {}
    for line in ended.output.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    for mode, label in (("eager", "PyTorch eager"), ("compile", "torch.compile")):
        def taken(mode=mode):
            if mode not in found:
                ended.expect()
                raise Failed(found.get("failed", {}).get(mode, f"no figures (logs/{ended.log.name})"))
            return {**figures_of(size, found[mode]["step_s"]), "tensors_gib": found[mode]["peak_gib"],
                    "last_loss": found[mode]["losses"][-1]}
        stage.case(f"{name}, round {round_number}: {label}", taken)
    return ended.seconds


def speed(stage):
    """As many rounds as there is time for, at most two. The second one begins with PyTorch."""
    needed_s = {name: 40.0 for name in SIZES}
    for round_number in (1, 2):
        for name, size in SIZES.items():
            if stage.left() < needed_s[name]:
                stage.record(f"{name}, round {round_number}", "skipped",
                             message=f"{max(0, stage.left()):.0f} s are left, a round needs about {needed_s[name]:.0f}")
                continue
            began = time.monotonic()

            def ours(name=name, size=size, round_number=round_number):
                for way, flags in {"cudagraph": WAYS["cudagraph"], "cudagraph, fused": WAYS["cudagraph"] + FUSED,
                                   "replay": WAYS["replay"], "eager": WAYS["eager"]}.items():
                    label = slug(name, way, str(round_number))
                    stage.case(f"{name}, round {round_number}: rondo {way}",
                               lambda flags=flags, label=label: our_speed(stage, label, size, flags), 10)

            def theirs(name=name, size=size, round_number=round_number):
                torch_speed(stage, name, size, round_number)
            for contestant in ((ours, theirs) if round_number == 1 else (theirs, ours)):
                contestant()
            needed_s[name] = time.monotonic() - began


# Name, seconds it may take, seconds without which it is not begun.
STAGES = [
    ("facts", 150, 5, facts),
    ("kernels", 70, 10, kernels),
    ("compass", 230, 30, compass),
    ("core bits", 80, 20, core_bits),
    ("losses", 40, 15, losses),
    ("kernel times", 40, 10, kernel_times),
    ("kernel table", 60, 15, kernel_table),
    ("other models", 100, 20, other_models),
    ("contract", 30, 8, contract),
    ("other bits", 110, 20, other_bits),
    ("checkpoints", 60, 15, checkpoints),
    ("teardown", 60, 15, teardown),
    ("sanitizer", 110, 20, sanitizer),
    ("memory", 60, 20, memory),
    ("ranks", 10, 1, ranks),
    ("speed", 400, 40, speed),
    ("several GPUs", 520, 20, several_gpus),
]
# One command's worth each; the last one is for a machine with several GPUs.
HALVES = {"first": ["kernels", "compass", "core bits", "losses", "kernel times", "kernel table", "contract", "other bits", "teardown"],
          "second": ["checkpoints", "sanitizer", "other models", "memory", "ranks", "speed"],
          "several": ["several GPUs"]}
