// cuBLAS: products are kernels that are only recorded in the journal. A handle takes device memory,
// as the real one does, so that a handle created within a capture is detected.
#include <cublas_v2.h>

#include "tests/stand_in_cuda/libraries/library.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  void* memory = nullptr;
};

namespace {

struct Matrix {
  const void* data;
  cublasOperation_t operation;
  int rows, columns;  // after the operation
  int stride;
  long long batch_stride;
};

// `batches` column-major matrices.
stand_in_touched touched(const Matrix& matrix, cudaDataType type, int batches, bool written) {
  const bool plain = matrix.operation == CUBLAS_OP_N;
  const long long rows = plain ? matrix.rows : matrix.columns, columns = plain ? matrix.columns : matrix.rows;
  const long long elements = (batches - 1) * matrix.batch_stride + (columns - 1) * matrix.stride + rows;
  return {matrix.data, static_cast<std::size_t>(elements) * element_bytes(type), written};
}

cublasStatus_t product(cublasHandle_t handle, const char* name, cublasOperation_t of_a,
                       cublasOperation_t of_b, int m, int n, int k, const void* a, cudaDataType a_type,
                       int a_stride, long long a_batch, const void* b, cudaDataType b_type, int b_stride,
                       long long b_batch, const void* c, cudaDataType c_type, int c_stride, long long c_batch,
                       int batches) {
  const stand_in_touched all[] = {touched({a, of_a, m, k, a_stride, a_batch}, a_type, batches, false),
                                  touched({b, of_b, k, n, b_stride, b_batch}, b_type, batches, false),
                                  touched({c, CUBLAS_OP_N, m, n, c_stride, c_batch}, c_type, batches, true)};
  return stand_in_launch(name, handle->stream, all, 3, nullptr) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  auto* const made = new cublasContext;
  if (cudaMalloc(&made->memory, 4 << 20) != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  cudaFree(handle->memory);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m,
                              int n, int k, const float*, const float* a, int a_stride, const float* b,
                              int b_stride, const float*, float* c, int c_stride) {
  return product(handle, "cublasSgemm", of_a, of_b, m, n, k, a, CUDA_R_32F, a_stride, 0, b, CUDA_R_32F,
                 b_stride, 0, c, CUDA_R_32F, c_stride, 0, 1);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t of_a,
                                         cublasOperation_t of_b, int m, int n, int k, const float*,
                                         const float* a, int a_stride, long long a_batch, const float* b,
                                         int b_stride, long long b_batch, const float*, float* c,
                                         int c_stride, long long c_batch, int batches) {
  return product(handle, "cublasSgemmStridedBatched", of_a, of_b, m, n, k, a, CUDA_R_32F, a_stride, a_batch,
                 b, CUDA_R_32F, b_stride, b_batch, c, CUDA_R_32F, c_stride, c_batch, batches);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m,
                            int n, int k, const void*, const void* a, cudaDataType a_type, int a_stride,
                            const void* b, cudaDataType b_type, int b_stride, const void*, void* c,
                            cudaDataType c_type, int c_stride, cublasComputeType_t, cublasGemmAlgo_t) {
  return product(handle, "cublasGemmEx", of_a, of_b, m, n, k, a, a_type, a_stride, 0, b, b_type, b_stride, 0,
                 c, c_type, c_stride, 0, 1);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t of_a,
                                          cublasOperation_t of_b, int m, int n, int k, const void*,
                                          const void* a, cudaDataType a_type, int a_stride, long long a_batch,
                                          const void* b, cudaDataType b_type, int b_stride, long long b_batch,
                                          const void*, void* c, cudaDataType c_type, int c_stride,
                                          long long c_batch, int batches, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  return product(handle, "cublasGemmStridedBatchedEx", of_a, of_b, m, n, k, a, a_type, a_stride, a_batch, b,
                 b_type, b_stride, b_batch, c, c_type, c_stride, c_batch, batches);
}

const char* cublasGetStatusString(cublasStatus_t) { return "an error of the stand-in"; }
