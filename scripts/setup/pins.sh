# shellcheck shell=bash disable=SC2034  # read by the files that source this one
# Every version that set-up brings, in one place. Sourced by scripts/setup.sh.

TORCH_VERSION=2.11.0
# A build for CPUs takes these, too, where they are there already. cmake/libtorch.cmake has the list, too.
TORCH_ALSO=2.15.0

# What a CPU run needs: 1.2 GB on disk. libtorch_cpu.so itself wants the CUDA runtime and CUPTI.
TORCH_WHEELS=("torch==$TORCH_VERSION" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)

# Arrow's C++ libraries, for Parquet; also what tests compare with. cmake/arrow.cmake has the version, too.
ARROW_VERSION=26.0.1

# What libtorch_cuda.so wants besides, at the versions the torch wheel pins.
CUDA_WHEELS=(
  nvidia-cublas==13.1.0.3
  nvidia-cuda-nvrtc==13.0.88
  nvidia-cudnn-cu13==9.19.0.56
  nvidia-cudnn-frontend==1.32.0
  nvidia-cufft==12.0.0.61
  nvidia-cufile==1.15.1.6
  nvidia-curand==10.4.0.35
  nvidia-cusolver==12.0.4.66
  nvidia-cusparse==12.6.3.3
  nvidia-cusparselt-cu13==0.8.0
  nvidia-nccl-cu13==2.28.9
  nvidia-nvjitlink==13.0.88
  nvidia-nvshmem-cu13==3.4.5
)

# The compiler, for machines without a CUDA toolkit.
NVCC_WHEELS=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-cccl==13.0.85
)

# Build tools for machines without root that lack them.
TOOL_WHEELS=(cmake==3.31.6 ninja==1.11.1.4)
