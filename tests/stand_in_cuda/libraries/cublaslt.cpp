// cuBLASLt: two algorithms for every product. A product is recorded in the journal. A small bf16
// product is also computed, unless it is captured, so that its operands can be compared with a
// CPU's product.
#include <cublasLt.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/stand_in_cuda/libraries/library.h"

namespace {

// Scales of a float8 operand.
struct Scales {
  const void* numbers = nullptr;
  cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;

  // `lines` are multiplied, each of `inner` elements.
  std::size_t bytes(std::uint64_t lines, std::uint64_t inner) const {
    const std::uint64_t pieces = (inner + 127) / 128;
    switch (mode) {
      case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
        return lines * sizeof(float);
      case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
        return lines * pieces * sizeof(float);
      case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
        return (lines + 127) / 128 * ((pieces + 3) / 4 * 4) * sizeof(float);
      default:
        return sizeof(float);
    }
  }
};

struct Description {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  Scales of_a, of_b;
};

// A column-major layout.
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;

  std::size_t bytes() const {
    const std::size_t before_last = columns == 0 ? 0 : (columns - 1) * static_cast<std::size_t>(stride);
    return (before_last + rows) * element_bytes(type);
  }
};

constexpr std::uint64_t kAlgorithm = 0x42;  // the first word of each algorithm, before its number
constexpr int kAlgorithms = 2;
constexpr std::size_t kWorkspace = 4096;  // of the second algorithm
constexpr std::uint64_t kMaxComputed = 1 << 22;

template <class Handle, class Object>
cublasStatus_t made(Handle* handle, Object* object) {
  *handle = reinterpret_cast<Handle>(object);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Object, class Handle>
cublasStatus_t freed(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

float number(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }
std::uint16_t rounded(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Matrix {
  const std::uint16_t* data;
  const Layout& layout;
  bool transposed;

  std::uint64_t rows() const { return transposed ? layout.columns : layout.rows; }
  std::uint64_t columns() const { return transposed ? layout.rows : layout.columns; }
  float at(std::uint64_t row, std::uint64_t column) const {
    if (transposed) std::swap(row, column);
    return number(data[column * static_cast<std::uint64_t>(layout.stride) + row]);
  }
};

void compute(const Matrix& a, const Matrix& b, float factor, const Matrix& c, std::uint16_t* d) {
  for (std::uint64_t column = 0; column < b.columns(); ++column)
    for (std::uint64_t row = 0; row < a.rows(); ++row) {
      float sum = factor == 0 ? 0 : factor * c.at(row, column);
      for (std::uint64_t k = 0; k < a.columns(); ++k) sum += a.at(row, k) * b.at(k, column);
      d[column * static_cast<std::uint64_t>(c.layout.stride) + row] = rounded(sum);
    }
}

bool records(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

}  // namespace

size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t, cudaDataType_t) {
  return made(handle, new Description);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return freed<Description>(handle); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name, const void* value,
                                              size_t) {
  auto& description = *reinterpret_cast<Description*>(handle);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto& member) {
    if (name == attribute) member = *static_cast<const std::remove_reference_t<decltype(member)>*>(value);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, description.a);
  set(CUBLASLT_MATMUL_DESC_TRANSB, description.b);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, description.of_a.numbers);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, description.of_b.numbers);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, description.of_a.mode);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, description.of_b.mode);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  return made(handle, new Layout{type, rows, columns, stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return freed<Layout>(handle); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                                const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return made(handle, new char);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return freed<char>(handle);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void*,
                                                    size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = most < kAlgorithms ? most : kAlgorithms;
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].state = CUBLAS_STATUS_SUCCESS;
    found[i].algo.data[0] = kAlgorithm;
    found[i].algo.data[1] = static_cast<std::uint64_t>(i);
    found[i].workspaceSize = i == 0 ? 0 : kWorkspace;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void*, const void* a,
                              cublasLtMatrixLayout_t a_handle, const void* b, cublasLtMatrixLayout_t b_handle,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_handle, const cublasLtMatmulAlgo_t* algorithm, void*,
                              size_t workspace, cudaStream_t stream) {
  const auto& description = *reinterpret_cast<const Description*>(desc);
  const auto layout = [](cublasLtMatrixLayout_t handle) { return *reinterpret_cast<const Layout*>(handle); };
  const Layout of_a = layout(a_handle), of_b = layout(b_handle), of_d = layout(d_handle);
  const Matrix left{static_cast<const std::uint16_t*>(a), of_a, description.a != CUBLAS_OP_N};
  const Matrix right{static_cast<const std::uint16_t*>(b), of_b, description.b != CUBLAS_OP_N};
  if (left.rows() != of_d.rows || right.columns() != of_d.columns || left.columns() != right.rows())
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout& one : {of_a, of_b, of_d})
    if (one.stride < static_cast<std::int64_t>(one.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm == nullptr || algorithm->data[0] != kAlgorithm ||
      (algorithm->data[1] == 1 && workspace < kWorkspace))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool of_float8 = element_bytes(of_a.type) == 1 || element_bytes(of_b.type) == 1;
  // On Hopper the rows of both operands are along the summed dimension, in multiples of 16 bytes.
  if (of_float8 &&
      (description.a != CUBLAS_OP_T || description.b != CUBLAS_OP_N || of_a.rows % 16 != 0 ||
       of_d.rows % 16 != 0 || description.of_a.numbers == nullptr || description.of_b.numbers == nullptr))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool all_bf16 = of_a.type == CUDA_R_16BF && of_b.type == CUDA_R_16BF && of_d.type == CUDA_R_16BF;
  if (all_bf16 && of_d.rows * of_d.columns * left.columns() <= kMaxComputed && !records(stream))
    compute(left, right, *static_cast<const float*>(beta),
            {static_cast<const std::uint16_t*>(c), of_d, false}, static_cast<std::uint16_t*>(d));
  const stand_in_touched all[] = {
      {a, of_a.bytes(), false},
      {b, of_b.bytes(), false},
      {d, of_d.bytes(), true},
      {description.of_a.numbers, description.of_a.bytes(left.rows(), left.columns()), false},
      {description.of_b.numbers, description.of_b.bytes(right.columns(), right.rows()), false}};
  return stand_in_launch("cublasLtMatmul", stream, all, of_float8 ? 5 : 3, nullptr) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
