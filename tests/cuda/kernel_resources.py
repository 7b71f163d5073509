#!/usr/bin/env python3
"""Checks the machine code of the CUDA kernels, and its resources, against a table of limits.

    kernel_resources.py BUILD            fails if a kernel exceeds its line of kernel_resources.txt
    kernel_resources.py BUILD --write    rewrites the table

BUILD is a folder of the preset cuda: its commands compile each .cu file again, for the device only. ptxas reports the
resources of each kernel, and nvdisasm prints its machine code (SASS). A line of the table limits a kernel:

    regs, shared, spilled   registers of a thread, bytes of shared memory of a block, bytes that registers spill to local
                            memory. ptxas keeps registers within a kernel's launch bounds by spilling, so spilled bytes
                            are the cost of tight bounds; a main kernel spills none.
    ld, st                  instructions that load or store less than 16 bytes of global memory
    ld16, st16              instructions that load or store 16 bytes of it; at least as many as the table has
    local                   accesses to local memory: spills, and arrays that are indexed at run time
    div                     calls of the division of 64-bit integers, which CUDA computes in software
    mufu, f2f               reciprocals, roots and exponentials; conversions between fp32 and fp64. Both have a sixteenth
                            or an eighth of the rate of a multiplication.

The machine code has both forms of a kernel's branches, so a kernel with ld16 may have ld, too. Needs nvcc, c++filt and
nvdisasm (in PATH, in the toolkit, or from scripts/setup.sh --oracles), no GPU.
"""
import collections
import concurrent.futures
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).with_name("kernel_resources.txt")
ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = {
    "regs": "registers",
    "shared": "bytes of shared memory",
    "spilled": "bytes spilled",
    "ld": "narrow loads",
    "st": "narrow stores",
    "ld16": "loads of 16 bytes",
    "st16": "stores of 16 bytes",
    "local": "accesses to local memory",
    "div": "calls of a division of integers",
    "mufu": "MUFU instructions",
    "f2f": "F2F instructions",
}
AT_LEAST = ("ld16", "st16")
HEAD = "# The most that a kernel may take; of ld16 and st16 the least. kernel_resources.py explains the columns.\n"


def disassembler(nvcc):
    found = shutil.which("nvdisasm")
    places = [pathlib.Path(nvcc).parent, ROOT / ".deps/oracles/nvidia/cu13/bin"]
    for tool in [found] if found else [place / "nvdisasm" for place in places]:
        if pathlib.Path(tool).exists():
            return str(tool)
    sys.exit("kernel_resources: no nvdisasm in PATH or beside nvcc; run scripts/setup.sh --oracles")


def device_code(entry):
    """What ptxas reports of a file's kernels, and their machine code."""
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
        code = subprocess.run([disassembler(words[0]), "-c", out.name], capture_output=True, text=True, check=True)
    return done.stderr, code.stdout


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


def resources(report):
    """{mangled name: counts} of what ptxas reports."""
    found, spilled = {}, 0
    for line in report.splitlines():
        if name := re.search(r"Function properties for (\S+)", line):
            kernel = name[1]
        elif spills := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = max(int(spills[1]), int(spills[2]))
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[kernel] = {"regs": int(used[1]), "shared": int(shared[1]) if shared else 0, "spilled": spilled}
    return found


def column_of(opcode, operands):
    """The column that counts an instruction, or None."""
    if memory := re.match(r"(LD|ST)G?(?=\.E)", opcode):
        return memory[1].lower() + ("16" if ".128" in opcode else "")
    if re.match(r"(LDL|STL)\b", opcode):
        return "local"
    if opcode.startswith("CALL") and re.search(r"__cuda_sm20_(div|rem)_[su]\d+", operands):
        return "div"
    return {"MUFU": "mufu", "F2F": "f2f"}.get(opcode.split(".")[0])


def instructions(code):
    """{mangled name: counts} of the instructions of each column."""
    found, kernel = {}, None
    for line in code.splitlines():
        if section := re.fullmatch(r"\.text\.(\S+):", line):
            kernel = found.setdefault(section[1], collections.Counter())
        elif words := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)(.*)", line):
            kernel[column_of(words[1], words[2])] += 1
    return found


def measured(build):
    """{(file, kernel): a number for each column}"""
    entries = [e for e in json.loads((build / "compile_commands.json").read_text()) if e["file"].endswith(".cu")]
    found = {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for entry, (report, code) in zip(entries, pool.map(device_code, entries)):
            counts = instructions(code)
            for kernel, row in resources(report).items():
                row |= {column: counts[kernel][column] for column in COLUMNS if column not in row}
                found[pathlib.Path(entry["file"]).stem, short(kernel)] = tuple(row[column] for column in COLUMNS)
    return found


def line_of(file, numbers, kernel):
    return f"{file:15}" + "".join(f" {number:>{max(len(c), 3)}}" for c, number in zip(COLUMNS, numbers)) + f"  {kernel}\n"


def written(found):
    lines = [line_of(file, row, kernel) for (file, kernel), row in sorted(found.items())]
    return HEAD + line_of("# file", COLUMNS, "kernel") + "".join(lines)


def allowed():
    rows = {}
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            file, *numbers, kernel = line.split(maxsplit=len(COLUMNS) + 1)
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
            for (column, name), now, limit in zip(COLUMNS.items(), found[key], table[key]):
                if now < limit if column in AT_LEAST else now > limit:
                    yield f"{what} has {now} {name}; the table {'requires' if column in AT_LEAST else 'allows'} {limit}"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    found = measured(pathlib.Path(sys.argv[1]))
    if not found:
        sys.exit(f"kernel_resources: {sys.argv[1]} compiles no .cu file; it must be a folder of the preset cuda")
    if sys.argv[2:]:
        TABLE.write_text(written(found))
        return 0
    wrong = list(complaints(found, allowed()))
    for complaint in wrong:
        print(f"kernel_resources: {complaint}")
    if wrong:
        print(f"kernel_resources: if the change is intended, rewrite the table: {sys.argv[0]} {sys.argv[1]} --write")
    else:
        print(f"kernel_resources: {len(found)} kernels are within the limits of {TABLE.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
