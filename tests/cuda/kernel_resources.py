#!/usr/bin/env python3
"""Checks the resources of the CUDA kernels on a multiprocessor against a table of limits.

    kernel_resources.py BUILD            fails if a kernel exceeds its line of kernel_resources.txt
    kernel_resources.py BUILD --write    rewrites the table

BUILD is a folder of the preset cuda: its commands compile each .cu file again, for the device only, and ptxas reports
the resources of each kernel. A line of the table limits a kernel: registers of a thread, bytes of shared memory of a
block, bytes that registers spill to local memory. ptxas keeps registers within a kernel's launch bounds by spilling, so
spilled bytes are the cost of tight bounds; a main kernel spills none. Needs nvcc and c++filt, no GPU.
"""
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).with_name("kernel_resources.txt")
ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = "# The most that a kernel may take: registers of a thread, shared bytes of a block, bytes spilled. kernel_resources.py\n"


def said_by_ptxas(entry):
    """The device code's compilation, and what ptxas says of it. The file is the second word of the result."""
    words = shlex.split(entry["command"])
    if words[0].endswith("ccache"):
        words = words[1:]
    kept, skip = [], False
    for word in words:
        if skip or word == "-o":
            skip = word == "-o"
        elif word.startswith("--generate-code"):
            kept.append(re.sub(r"\[.*?(sm_\d+)\]", r"\1", word))
        else:
            kept.append(word)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        done = subprocess.run([*kept, "-cubin", "-Xptxas", "-v", "-o", out.name], cwd=entry["directory"],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kernel_resources: {entry['file']} does not compile: {done.stderr}")
    return done.stderr


def short(mangled):
    """rms_norm's `void rondo::cuda::(anonymous namespace)::forward_kernel<float, 1>(...)` as `forward_kernel<float, 1>`."""
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    name = re.sub(r"(\(anonymous namespace\)|_GLOBAL__N__\w+|rondo::cuda|rondo)::", "", name).removeprefix("void ")
    depth = 0
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def resources(build):
    """{(file, kernel): (registers, shared, spilled)}"""
    entries = [e for e in json.loads((build / "compile_commands.json").read_text()) if e["file"].endswith(".cu")]
    found = {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for entry, text in zip(entries, pool.map(said_by_ptxas, entries)):
            kernel, spilled = None, 0
            for line in text.splitlines():
                if named := re.search(r"Function properties for (\S+)", line):
                    kernel = short(named[1])
                elif spills := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
                    spilled = max(int(spills[1]), int(spills[2]))
                elif used := re.search(r"Used (\d+) registers", line):
                    shared = re.search(r"(\d+) bytes smem", line)
                    found[pathlib.Path(entry["file"]).stem, kernel] = (int(used[1]), int(shared[1]) if shared else 0, spilled)
    return found


def written(found):
    lines = [f"{file:21} {registers:4} {shared:6} {spilled:4}  {kernel}\n"
             for (file, kernel), (registers, shared, spilled) in sorted(found.items())]
    return HEAD + f"# {'file':19} regs shared spilled  kernel\n" + "".join(lines)


def allowed():
    rows = {}
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            file, *numbers, kernel = line.split(maxsplit=4)
            rows[file, kernel] = tuple(map(int, numbers))
    return rows


def complaints(found, table):
    for key in sorted(found.keys() | table.keys()):
        what = "{} of {}.cu".format(key[1], key[0])
        if key not in table:
            yield f"{what} is missing from the table"
        elif key not in found:
            yield f"{what} is in the table but in no file"
        else:
            for name, now, most in zip(("registers", "bytes of shared memory", "bytes spilled"), found[key], table[key]):
                if now > most:
                    yield f"{what} takes {now} {name}; the table allows {most}"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    found = resources(pathlib.Path(sys.argv[1]))
    if not found:
        sys.exit(f"kernel_resources: {sys.argv[1]} compiles no .cu file; it must be a folder of the preset cuda")
    if sys.argv[2:]:
        TABLE.write_text(written(found))
        return 0
    wrong = list(complaints(found, allowed()))
    for complaint in wrong:
        print(f"kernel_resources: {complaint}")
    if wrong:
        print(f"kernel_resources: if the increase is intended, rewrite the table: {sys.argv[0]} {sys.argv[1]} --write")
    else:
        print(f"kernel_resources: {len(found)} kernels are within the limits of {TABLE.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
