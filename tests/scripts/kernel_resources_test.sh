#!/usr/bin/env bash
# tests/cuda/kernel_resources.py without nvcc: stand-ins print what ptxas and nvdisasm would of one kernel.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_kernel_resources_test.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/tests/cuda" "$dir/build"
cp "$root/tests/cuda/kernel_resources.py" "$dir/tests/cuda/"
cat >"$dir/build/compile_commands.json" <<JSON
[{"directory": "$dir", "file": "$dir/fast.cu", "command": "$dir/nvcc -O3 -c fast.cu -o fast.o"},
 {"directory": "$dir", "file": "$dir/host.cpp", "command": "/bin/false host.cpp"}]
JSON

cat >"$dir/nvdisasm" <<SH
#!/bin/sh
cat "$dir/machine_code"
SH
chmod +x "$dir/nvdisasm"
PATH=$dir:$PATH

kernel_takes() {  # REGISTERS SPILLED [NAME [INSTRUCTION]]
  cat >"$dir/nvcc" <<SH
#!/bin/sh
cat >&2 <<TEXT
ptxas info    : Function properties for _ZN5rondo4cuda${3:-12_GLOBAL__N_14copyIfEEvPf}
    0 bytes stack frame, $2 bytes spill stores, $2 bytes spill loads
ptxas info    : Used $1 registers, used 1 barriers, 128 bytes smem
TEXT
SH
  chmod +x "$dir/nvcc"
  cat >"$dir/machine_code" <<TEXT
.text._ZN5rondo4cuda${3:-12_GLOBAL__N_14copyIfEEvPf}:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/                   ${4:-STG.E.128} desc[UR4][R6.64], R4 ;
        /*0020*/              @!P0 CALL.REL.NOINC \`(\$__internal_0_\$__cuda_sm20_div_s64) ;
TEXT
}
resources() {  # WORDS...: sets `code` and `output`
  output=$("$dir/tests/cuda/kernel_resources.py" "$dir/build" "$@" 2>&1)
  code=$?
}
explain() { printf 'exit %s\n%s\n' "$code" "$output"; }
ends_with() { [[ $code == "$1" && $output == *"$2"* ]]; }

kernel_takes 40 0
resources --write
resources
check "a kernel takes what its line says" ends_with 0 "1 kernels are within the limits of tests/cuda/kernel_resources.txt"
kernel_takes 32 0
resources
check "it may take less" ends_with 0 "1 kernels"
kernel_takes 41 8
resources
check "more registers are told" ends_with 1 "copy<float> of fast.cu has 41 registers; the table allows 40"
check "a spill is told" ends_with 1 "has 8 bytes spilled; the table allows 0"
kernel_takes 40 0 "" STG.E.U16
resources
check "a wide store that became narrow is told" ends_with 1 "has 0 stores of 16 bytes; the table requires 1"
check "a narrow store is told" ends_with 1 "has 1 narrow stores; the table allows 0"
kernel_takes 40 0 "" "CALL.REL.NOINC \`(\$__internal_0_\$__cuda_sm20_div_u64); //"
resources
check "a division of integers is told" ends_with 1 "has 2 calls of a division of integers; the table allows 1"
kernel_takes 8 0 4moveEPf
resources
check "a kernel without a line is told" ends_with 1 "move of fast.cu is missing from the table"
check "a line without a kernel is told" ends_with 1 "copy<float> of fast.cu is in the table but in no file"
check_summary
