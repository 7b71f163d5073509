#!/usr/bin/env bash
# Builds the CUDA preset's programs and a stand-in for the CUDA runtime, and runs recorded steps of the real worker on
# it: what a machine without a GPU can show of them (docs/cuda.md). Interprets the kernels' PTX, too. About two minutes
# once it is built; needs nvcc.
#
# Exit codes: ctest's.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

scripts/build.sh cuda rondo rondo-worker cuda_link_check kernel_check graph_device_check refusal_check stand_in_test ptx_test
exec ctest --test-dir build/cuda --output-on-failure -L stand_in_cuda
