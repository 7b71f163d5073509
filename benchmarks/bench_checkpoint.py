"""Saves and loads the same state with Rondo and with torch.distributed.checkpoint, side by side, in turns.

scripts/oracle_python.sh benchmarks/bench_checkpoint.py build/cpu/rondo FOLDER [ROUNDS]: FOLDER is on the disk to measure.
One process each. Rondo's figures are those of its own log: a save ends when the checkpoint is committed (written, hashed,
synced), a load when every byte was hashed again. Prints medians.
"""

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

# 1.0 GB of fp32 weights and AdamW state.
MODEL = {"dim": 768, "n_layers": 11, "n_heads": 12, "n_kv_heads": 12, "multiple_of": 256, "vocab_size": 4096}


def flags(folder: Path, steps: int) -> list[str]:
    sizes = [f"--model.{name}={value}" for name, value in MODEL.items()]
    return ["configs/llama3_debug.toml", "--validation.enable=false", *sizes] + [
        "--training.seq_len=16", "--training.local_batch_size=1", f"--training.steps={steps}",
        "--training.dataset_path=README.md", "--lr_scheduler.warmup_steps=0", "--checkpoint.enable=true",
        "--lr_scheduler.total_steps=2", "--compile.dump=none",
        f"--job.dump_folder={folder}",
    ]


def event(folder: Path, name: str) -> dict:
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return next(line for line in lines if line["event"] == name)


def rondo(program: str, folder: Path) -> dict:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([program, "train", *flags(folder, 1)], check=True, capture_output=True)
    saved = event(folder, "checkpoint")
    subprocess.run([program, "train", *flags(folder, 2)], check=True, capture_output=True)  # resumes after step 1
    return {"save_s": saved["seconds"], "load_s": event(folder, "resumed")["seconds"], "bytes": saved["bytes"]}


def torch_sizes(folder: Path) -> dict:
    manifest = json.loads((folder / "checkpoint/step-1/manifest.json").read_text())
    return {tensor["name"]: tensor["shape"] for tensor in manifest["tensors"]}


def torch(folder: Path, sizes: Path) -> dict:
    shutil.rmtree(folder, ignore_errors=True)
    script = Path(__file__).with_name("torch_checkpoint.py")
    done = subprocess.run([sys.executable, script, folder, sizes], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    program, base = sys.argv[1], Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    base.mkdir(parents=True, exist_ok=True)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(rondo(program, base / "rondo"))
        (base / "sizes.json").write_text(json.dumps(torch_sizes(base / "rondo")))
        theirs.append(torch(base / "torch", base / "sizes.json"))
    gigabytes = ours[0]["bytes"] / 1e9
    print(f"{gigabytes:.2f} GB, {rounds} rounds in turns, medians")
    for name, results in (("Rondo", ours), ("torch.distributed.checkpoint", theirs)):
        save = statistics.median(result["save_s"] for result in results)
        load = statistics.median(result["load_s"] for result in results)
        print(f"{name:30} save {save:.2f} s ({gigabytes / save:.2f} GB/s)   load {load:.2f} s ({gigabytes / load:.2f} GB/s)")


if __name__ == "__main__":
    main()
