"""Saves and loads a state with torch.distributed.checkpoint, one process: what bench_checkpoint.py compares with.

torch_checkpoint.py FOLDER SIZES.json: SIZES holds the shape of each fp32 tensor. Prints one JSON object with seconds.
"""

import json
import os
import sys
import time

import torch
import torch.distributed.checkpoint as dcp


def sync(folder: str) -> None:
    for root, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                os.fsync(file.fileno())


def main() -> None:
    folder, sizes_file = sys.argv[1:3]
    with open(sizes_file) as file:
        sizes = json.load(file)
    state = {name: torch.rand(shape) for name, shape in sizes.items()}
    begin = time.perf_counter()
    dcp.save(state, checkpoint_id=folder)
    saved = time.perf_counter()
    sync(folder)  # DCP's writer syncs its files itself by default; what is left is little
    synced = time.perf_counter()
    loaded = {name: torch.empty(shape) for name, shape in sizes.items()}
    read_begin = time.perf_counter()
    dcp.load(loaded, checkpoint_id=folder)
    read = time.perf_counter()
    assert all(torch.equal(state[name], loaded[name]) for name in state)
    print(json.dumps({"save_s": synced - begin, "save_call_s": saved - begin, "load_s": read - read_begin}))


if __name__ == "__main__":
    main()
