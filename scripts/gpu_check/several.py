"""The stage "several GPUs" of scripts/gpu_check.sh: what one GPU cannot show. Every rank takes a GPU of this machine."""
import contextlib
import itertools
import os
import pathlib
import signal
import statistics
import subprocess
import time

from stage import Failed, Skipped
from stages import (BF16, CUDAGRAPH, DEEPSEEK, ENDLESS, LLAMA, RECORDED_STEPS, SAME_BITS, WAYS, alive_in, compare, event,
                    lines_of, measured_lines, metrics, recorded, slug, soon, train_words)

MOST_RANKS = 8
MORE_MIB = 64  # of a GPU's memory that may be in use after the runs
LEFT_S = 20  # after the end of one rank the launcher gives the others 10 s


def used_mib():
    """Memory in use, of each GPU."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error
    return [int(line) for line in asked.stdout.split()]


def launched(stage, name, ranks, config, flags):
    rondo, *train = train_words(stage, name, config, flags)
    return [rondo, "launch", "--nproc-per-node", str(ranks), "--", *train]


def run(stage, name, ranks, config, flags, limit_s=90.0, environment=None):
    return stage.command(name, launched(stage, name, ranks, config, flags), limit_s, environment)


def degrees(**of):
    return [f"--parallelism.{name}_degree={degree}" for name, degree in of.items()]


def layouts(ranks):
    """By name: configuration and flags."""
    pipeline = ["--training.local_batch_size=4", *degrees(pipeline_parallel=2)]
    zero_bubble = [*pipeline, "--parallelism.pipeline_parallel_schedule=ZBVZeroBubble"]
    some = {
        "llama3, sharded": (LLAMA, []),
        "llama3, replicated": (LLAMA, degrees(data_parallel_replicate=2)),
        "llama3, gathers beside scatters": (LLAMA, ["--compile.enable_fsdp_ag_rs_overlap=true"]),
        "llama3, tensor parallel": (LLAMA, degrees(tensor_parallel=2)),
        "llama3, context parallel": (LLAMA, degrees(context_parallel=2)),
        "llama3, pipeline": (LLAMA, pipeline),
        "llama3, pipeline without bubbles": (LLAMA, zero_bubble),
        "deepseek_v3, experts": (DEEPSEEK, degrees(expert_parallel=ranks)),
        "deepseek_v3, experts by exact counts": (DEEPSEEK, [
            *degrees(expert_parallel=ranks), "--parallelism.expert_parallel_comm_backend=standard"]),
    }
    if ranks >= 4:
        some["deepseek_v3, tensor parallel and experts"] = (
            DEEPSEEK, degrees(tensor_parallel=2, expert_parallel=ranks))
        some["llama3, pipeline and tensor parallel"] = (
            LLAMA, [*pipeline, *degrees(tensor_parallel=2)])
    return some


COMPARED_WAYS = ("eager", "replay", "cudagraph")
TIMED_WAYS = ("eager", "cudagraph")


def bits(stage, ranks):
    """Eager, replayed and recorded steps of every layout have the same bits, and none of them stands still."""
    for layout, (config, flags) in layouts(ranks).items():
        names = {way: slug("several", layout, way) for way in COMPARED_WAYS}

        def play(way, config=config, flags=flags, names=names):
            ended = run(stage, names[way], ranks, config, [*SAME_BITS, BF16, *flags, *WAYS[way]]).expect()
            figures = {"run_s": ended.seconds}
            return figures | ({"segments": recorded(stage, names[way])["segments"]} if way == "cudagraph" else {})

        for way in names:
            stage.case(f"{layout}: {way}", lambda way=way, play=play: play(way), 15)
        first, *others = COMPARED_WAYS
        for way in others:
            stage.case(f"{layout}: {first} == {way}",
                       lambda way=way, names=names, first=first: compare(stage, names[first], names[way]))


SPEED_STEPS = (6, 14)  # not measured, measured
SPEED = {
    "8 layers of 8B": ("configs/llama3_8b.toml", ["--model.n_layers=8", "--training.seq_len=8192"]),
    "6 layers of DeepSeek-V3 16B": ("configs/deepseek_v3_16b.toml", ["--model.n_layers=6", "--training.seq_len=4096"]),
}
SETTINGS = ("NCCL_GRAPH_MIXING_SUPPORT", "NCCL_LAUNCH_ORDER_IMPLICIT")


def timed(stage, name, ranks, config, flags, environment=None):
    warm_up, steps = SPEED_STEPS
    run(stage, name, ranks, config, [*flags, f"--training.steps={warm_up + steps + 1}"], 120, environment).expect()
    if CUDAGRAPH in flags:
        recorded(stage, name)
    lines = measured_lines(stage, name, warm_up)
    step_s = statistics.median(line["step_time_s"] for line in lines)
    return {"median_ms": step_s * 1e3, "tokens_per_s_a_gpu": statistics.median(line["tokens_per_s"] for line in lines),
            "tensors_gib": max(line["memory_gib"] for line in lines)}


def speed(stage, ranks):
    """Eager against recorded steps, and what NCCL's settings of recordings cost. A hang is a case that does not end."""
    experts = degrees(expert_parallel=ranks)
    for name, (config, flags) in SPEED.items():
        flags = [*flags, "--training.local_batch_size=1", *(experts if "deepseek" in config else [])]
        for way in TIMED_WAYS:
            stage.case(f"{name}: {way}", lambda config=config, flags=flags, name=name, way=way: timed(
                stage, slug("several speed", name, way), ranks, config, [*flags, BF16, *WAYS[way]]), 40)
        for values in itertools.product("01", repeat=len(SETTINGS)):
            environment = dict(zip(SETTINGS, values))
            words = ", ".join(f"{key}={value}" for key, value in environment.items())
            stage.case(f"{name}: {words}", lambda config=config, flags=flags, name=name, words=words, env=environment: timed(
                stage, slug("several speed", name, words), ranks, config, [*flags, BF16, *WAYS["cudagraph"]], env), 40)


def memory(stage, ranks):
    """What CUDA, NCCL and cuBLAS take beside the tensors of a rank; `rondo plan` keeps 3 GiB for them."""
    before = used_mib()
    config, flags = SPEED["6 layers of DeepSeek-V3 16B"]
    name = "several_memory"
    child, log = stage.start(name, launched(stage, name, ranks, config, [
        *flags, *degrees(expert_parallel=ranks), BF16, *ENDLESS, *WAYS["cudagraph"], "--training.local_batch_size=1"]))
    began = time.monotonic()
    try:
        if not soon(lambda: len(metrics(stage, name)) >= RECORDED_STEPS or child.poll() is not None, 90):
            raise Failed(f"there are no recorded steps (logs/{log.name})")
        used = [now - then for now, then in zip(used_mib(), before)][:ranks]
        facts = event(stage, name, "replaying")
    finally:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(30)
        stage.finish(child, log, began, 1)
    tensors = max(line["memory_gib"] for line in metrics(stage, name)) * 1024
    return {"in_use_mib": max(used), "least_in_use_mib": min(used), "tensors_mib": tensors,
            "beside_tensors_mib": max(used) - tensors, "pool_mib": facts.get("pool_bytes", 0) / (1 << 20)}


def worker_of(session, rank):
    for pid in alive_in(session):
        with contextlib.suppress(OSError):
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in variables and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "rondo-worker":
                return pid
    raise Failed(f"there is no process of rank {rank}")


def end_of(stage, name, ranks, flags, code, act, says=""):
    """act(process) while recorded steps run: the exit code, what is said, and that no process is left."""
    child, log = stage.start(name, launched(stage, name, ranks, LLAMA, [BF16, *ENDLESS, *WAYS["cudagraph"], *flags]))
    began = time.monotonic()
    if not soon(lambda: len(metrics(stage, name)) >= RECORDED_STEPS or child.poll() is not None, 60):
        child.kill()
    asked = time.monotonic()
    if child.poll() is None:
        act(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(max(1.0, min(60.0, stage.left())))
    ended_s = time.monotonic() - asked
    left = [] if soon(lambda: not alive_in(child.pid), 2) else alive_in(child.pid)
    ended = stage.finish(child, log, began, 1).expect(code)
    if left:
        raise Failed(f"processes {left} outlived the run (logs/{log.name})")
    if says not in ended.output:
        raise Failed(f"it does not say \"{says}\" (logs/{log.name})")
    return {"exit_code": ended.code, "ended_in_s": ended_s}


def ends(stage, ranks):
    """Other ranks wait in a recording for one that is dead, stopped or asked to end."""
    before = used_mib()

    def send(number, rank=1):
        return lambda child: os.kill(worker_of(child.pid, rank), number)

    def soon_enough(figures):
        if figures["ended_in_s"] > LEFT_S:
            raise Failed(f"it took {figures['ended_in_s']:.1f} s")
        return figures

    saving = ["--checkpoint.enable=true", "--training.global_batch_size=16"]
    stage.case("a rank is killed inside a recorded step", lambda: soon_enough(end_of(
        stage, "several_killed", ranks, [], 137, send(signal.SIGKILL))), 30)
    stage.case("a rank is stopped inside a recorded step", lambda: end_of(
        stage, "several_stopped", ranks, ["--comm.train_timeout_seconds=10"], 7, send(signal.SIGSTOP),
        "rank 1 blocks the others"), 60)
    stage.case("the launcher is asked to end, and saves", lambda: soon_enough(end_of(
        stage, "several_saved", ranks, saving, 75, lambda child: child.terminate())), 30)

    def on_half():
        name = "several_saved"
        steps = max((line["step"] for line in lines_of(stage.work / name / "metrics.jsonl")), default=0)
        if not steps:
            raise Skipped("no run has saved")
        run(stage, name, ranks // 2, LLAMA, [BF16, *saving, *WAYS["cudagraph"], f"--training.steps={steps + 4}"]).expect()
        return {"saved_at": steps, "last_step": metrics(stage, name)[-1]["step"]}
    stage.case("half of the GPUs go on from what all have saved", on_half, 20)

    def memory_is_free():
        after = used_mib()

        def free():
            after[:] = used_mib()
            return all(now <= then + MORE_MIB for now, then in zip(after, before))
        if not soon(free, 10, 0.5):
            raise Failed(f"memory in use before and after the runs, in MiB: {before} and {after}")
        return {"most_in_use_mib": max(after)}
    stage.case("the memory of all GPUs is free again", memory_is_free)


def check(stage):
    gpus = len(used_mib())
    ranks = min(MOST_RANKS, gpus - gpus % 2)
    if ranks < 2:
        raise Skipped(f"{gpus} GPU is here; this stage needs two")
    stage.command("topology", ["nvidia-smi", "topo", "-m"], 20)
    bits(stage, ranks)
    ends(stage, ranks)
    stage.case("memory beside tensors", lambda: memory(stage, ranks), 40)
    speed(stage, ranks)
