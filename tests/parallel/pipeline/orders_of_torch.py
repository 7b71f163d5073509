#!/usr/bin/env python3
"""orders_of_torch.py RONDO: compares schedules of `rondo pipeline` with torch.distributed.pipelining.

For many shapes, it checks that the order of compute equals torch's, that torch simulates Rondo's CSV with messages to
its end, and that `rondo pipeline --csv` proves the messages of torch. torch's schedules compute their orders in methods
that need a few numbers and no process group."""
import csv
import pathlib
import subprocess
import sys
import tempfile

from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

RONDO = sys.argv[1]
STYLES = {"ZBVZeroBubble": "v", "DualPipeV": "v"}


def shapes():
    for ranks in (1, 2, 3, 4, 6, 8):
        for rounds in (1, 2, 3):
            for name in ("GPipe", "1F1B"):
                yield name, ranks, 1, rounds * ranks
            for stages in (2, 3):
                yield "Interleaved1F1B", ranks, stages, rounds * ranks
            for stages in (1, 2, 4):
                yield "InterleavedZeroBubble", ranks, stages, rounds * ranks
            yield "ZBVZeroBubble", ranks, 2, rounds * ranks
            yield "DualPipeV", ranks, 2, (rounds + 1) * ranks
    # Rounds with fewer or more microbatches than ranks, and odd numbers.
    yield "Interleaved1F1B", 4, 2, 10
    yield "Interleaved1F1B", 4, 2, 3
    yield "InterleavedZeroBubble", 4, 2, 10
    yield "ZBVZeroBubble", 5, 2, 3
    yield "ZBVZeroBubble", 3, 2, 11
    yield "DualPipeV", 5, 2, 13


def torch_order(name, ranks, stages, microbatches):
    """Returns the compute actions of each rank."""
    schedule = object.__new__(torch_schedules.get_schedule_class(name))
    schedule.pp_group_size = ranks
    schedule.n_local_stages = stages
    schedule.num_stages = schedule._num_stages = ranks * stages
    schedule._n_microbatches = microbatches
    schedule.microbatches_per_round = microbatches // max(1, microbatches // ranks)
    if name in ("GPipe", "1F1B"):
        order = schedule._get_pipeline_order()
        if name == "1F1B":  # torch counts the last rank's forwards from 1, but runs them from 0
            order[ranks - 1] = [a._replace(microbatch_index=a.microbatch_index - 1)
                                if a is not None and a.computation_type == torch_schedules.F else a
                                for a in order[ranks - 1]]
    else:
        order = {rank: schedule._calculate_single_rank_operations(rank) for rank in range(ranks)}
    return {rank: [a for a in actions if a is not None and a.computation_type != torch_schedules.REDUCE_GRAD]
            for rank, actions in order.items()}


def rondo(*words):
    done = subprocess.run([RONDO, "pipeline", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"rondo pipeline {words}: {done.stderr}")


def rows(path):
    with open(path, newline="") as file:
        actions = [[torch_schedules._Action.from_str(cell) for cell in row] for row in csv.reader(file)]
    return {rank: [a for a in row if a is not None] for rank, row in enumerate(actions)}


def compare(folder, name, ranks, stages, microbatches):
    ours, lowered, theirs = folder / "ours.csv", folder / "lowered.csv", folder / "theirs.csv"
    shape = [name, "--ranks", ranks, "--stages-per-rank", stages, "--microbatches", microbatches]
    rondo(*shape, "--write-csv", ours)
    rondo(*shape, "--write-csv", lowered, "--messages")
    expected, written = torch_order(name, ranks, stages, microbatches), rows(ours)
    for rank in range(ranks):
        if written[rank] != expected[rank]:
            sys.exit(f"{shape}, rank {rank}:\n ours  {written[rank]}\n torch {expected[rank]}")
    places = generate_stage_to_rank_mapping(ranks, ranks * stages, STYLES.get(name, "loop"))
    place = places.__getitem__
    if name != "DualPipeV":  # torch's simulator supports neither pairs nor reductions
        played = {rank: [a for a in actions if a.computation_type != torch_schedules.REDUCE_GRAD]
                  for rank, actions in rows(lowered).items()}
        torch_schedules._simulate_comms_compute(played, place, ranks * stages)
    with_reductions = {rank: torch_schedules._add_reduce_grad(actions, microbatches)
                       for rank, actions in expected.items()}
    with_messages = torch_schedules._add_send_recv(with_reductions, place, ranks * stages)
    with open(theirs, "w", newline="") as file:
        csv.writer(file).writerows(with_messages[rank] for rank in range(ranks))
    rondo("--csv", theirs)


count = 0
with tempfile.TemporaryDirectory() as folder:
    for shape in shapes():
        compare(pathlib.Path(folder), *shape)
        count += 1
print(f"{count} schedules equal those of torch")
