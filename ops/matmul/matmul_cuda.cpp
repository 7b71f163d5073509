// Matrices of cuBLASLt are column-major. A row-major [M, N] is read as its transpose, so the
// product is computed as out' = b' a' on the same memory: b comes first, and a dimension is dense
// or the operand is "transposed".
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <cublasLt.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "ops/kernel/launch.h"
#include "ops/matmul/matmul.h"
#include "support/error.h"
#include "support/median.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr int kMaxAlgorithms = 16, kRounds = 7, kCallsOfARound = 5;
constexpr std::int64_t kCyclesAhead = 1'000'000;  // of the device's clock: about half a millisecond
constexpr std::uint32_t kAlignedBytes = 16;
constexpr std::size_t kMaxWorkspace = 32 << 20;  // the size that LibTorch gives cuBLAS on Hopper

void require_success(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ExitCode::environment,
                fmt::format("{} failed with status {}", call, static_cast<int>(status)));
}

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};
using Description =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy<&cublasLtMatmulDescDestroy>>;
using Matrix =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy<&cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                                   Destroy<&cublasLtMatmulPreferenceDestroy>>;

// An operand as cuBLASLt reads its memory.
struct Operand {
  cublasOperation_t operation;
  std::uint64_t rows, columns;
  std::int64_t stride;  // from column to column

  explicit Operand(const Tensor& x) {
    const bool rows_are_dense = x.stride(1) == 1 || x.size(1) == 1;
    RONDO_ASSERT(rows_are_dense || x.stride(0) == 1, "rondo::mm: operands must have dense rows or columns");
    const std::int64_t dense = rows_are_dense ? 1 : 0;
    operation = rows_are_dense ? CUBLAS_OP_N : CUBLAS_OP_T;
    rows = static_cast<std::uint64_t>(x.size(dense));
    columns = static_cast<std::uint64_t>(x.size(1 - dense));
    stride = std::max(x.stride(1 - dense), x.size(dense));
  }
  Matrix matrix() const {
    cublasLtMatrixLayout_t made = nullptr;
    require_success(cublasLtMatrixLayoutCreate(&made, CUDA_R_16BF, rows, columns, stride),
                    "cublasLtMatrixLayoutCreate");
    return Matrix(made);
  }
};

// out = a b, or out = sum + a b if there is a sum, which may be the result. The tensors must
// outlive this object.
class Product {
 public:
  Product(const Tensor& a, const Tensor& b, const Tensor* sum, const Tensor& out)
      : a_(a), b_(b), sum_(sum == nullptr ? out : *sum), out_(out), beta_(sum == nullptr ? 0.0F : 1.0F) {
    for (const Tensor* x : {&a, &b, &sum_, &out}) {
      RONDO_ASSERT(x->scalar_type() == at::kBFloat16, "rondo::mm: operands must be bf16");
      RONDO_ASSERT(reinterpret_cast<std::uintptr_t>(x->const_data_ptr()) % kAlignedBytes == 0,
                   "rondo::mm: operands must begin at multiples of 16 bytes");
    }
    RONDO_ASSERT(out.is_contiguous() && sum_.is_contiguous() && sum_.sizes() == out.sizes(),
                 "rondo::mm: sum and result must be contiguous and of the same size");
    cublasLtMatmulDesc_t made = nullptr;
    require_success(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                    "cublasLtMatmulDescCreate");
    description_.reset(made);
    const Operand first(b), second(a), result(out);
    set(CUBLASLT_MATMUL_DESC_TRANSA, first.operation);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second.operation);
    first_ = first.matrix();
    second_ = second.matrix();
    result_ = result.matrix();
  }

  // Returns the algorithms whose results always have the same bits.
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms() const {
    cublasLtMatmulPreference_t handle = nullptr;
    require_success(cublasLtMatmulPreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate");
    const Preference preference(handle);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      require_success(cublasLtMatmulPreferenceSetAttribute(handle, what, &value, sizeof value),
                      "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
    // In-place reduction adds partial sums in the order of their completion.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(operand, kAlignedBytes);
    std::vector<cublasLtMatmulHeuristicResult_t> found(kMaxAlgorithms);
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        at::cuda::getCurrentCUDABlasLtHandle(), description_.get(), first_.get(), second_.get(),
        result_.get(), result_.get(), handle, kMaxAlgorithms, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      count = 0;
    else
      require_success(status, "cublasLtMatmulAlgoGetHeuristic");
    found.resize(static_cast<std::size_t>(count));
    std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
    return found;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, std::int64_t workspace_bytes,
                     cudaStream_t stream) const {
    const Tensor workspace = at::empty({workspace_bytes}, out_.options().dtype(at::kByte));
    constexpr float kAlpha = 1;
    return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), description_.get(), &kAlpha,
                          b_.const_data_ptr(), first_.get(), a_.const_data_ptr(), second_.get(), &beta_,
                          sum_.const_data_ptr(), result_.get(), out_.mutable_data_ptr(), result_.get(),
                          &algorithm, workspace.mutable_data_ptr(), static_cast<std::size_t>(workspace_bytes),
                          stream);
  }

 private:
  void set(cublasLtMatmulDescAttributes_t what, cublasOperation_t value) {
    require_success(cublasLtMatmulDescSetAttribute(description_.get(), what, &value, sizeof value),
                    "cublasLtMatmulDescSetAttribute");
  }

  const Tensor &a_, &b_, &sum_, &out_;
  float beta_;
  Description description_;
  Matrix first_, second_, result_;
};

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(MatmulAlgorithm::words));

void run_product(const Tensor& a, const Tensor& b, const Tensor* sum, const Tensor& out,
                 std::string_view text) {
  const cuda::Launch launch(a, sum == nullptr ? "mm" : "addmm");
  const std::optional<MatmulAlgorithm> algorithm = parse_matmul_algorithm(text);
  RONDO_ASSERT(algorithm, "rondo::mm: the algorithm is malformed");
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitCode::config,
                fmt::format("compile.matmul_algorithms: algorithm {} of a product [{}, {}] x [{}, {}] {}; "
                            "measure again with `rondo tune`",
                            text, a.size(0), a.size(1), b.size(0), b.size(1), why));
  };
  if (algorithm->library != cublasLtGetVersion())
    refuse(
        fmt::format("is for cuBLASLt {}, but this library is {}", algorithm->library, cublasLtGetVersion()));
  const cublasStatus_t status = Product(a, b, sum, out)
                                    .run(std::bit_cast<cublasLtMatmulAlgo_t>(algorithm->words),
                                         algorithm->workspace_bytes, launch.stream());
  if (status != CUBLAS_STATUS_SUCCESS)
    refuse(fmt::format("is not supported by this GPU (cuBLASLt's status {})", static_cast<int>(status)));
  launch.check();
}

// Allocated before the workspace, which may have the same size: the first request gets the planned
// address.
Tensor result_of(const Tensor& a, const Tensor& b) { return at::empty({a.size(0), b.size(1)}, a.options()); }

Tensor matmul_cuda(const Tensor& a, const Tensor& b, std::string_view algorithm) {
  Tensor out = result_of(a, b);
  run_product(a, b, nullptr, out, algorithm);
  return out;
}

Tensor add_matmul_cuda(const Tensor& sum, const Tensor& a, const Tensor& b, std::string_view algorithm) {
  Tensor out = result_of(a, b);
  run_product(a, b, &sum, out, algorithm);
  return out;
}

Tensor& add_matmul_to_cuda(Tensor& sum, const Tensor& a, const Tensor& b, std::string_view algorithm) {
  run_product(a, b, &sum, sum, algorithm);
  return sum;
}

// --- measuring ---

// Operands of one product, drawn at random: a GPU multiplies zeros at a higher clock.
struct ProductOperands {
  Tensor a, b, out;

  ProductOperands(const MatmulShape& shape, c10::Device device) {
    const auto options = at::TensorOptions(device).dtype(at::kBFloat16);
    a = at::empty_strided(shape.a_sizes, shape.a_strides, options).normal_();
    b = at::empty_strided(shape.b_sizes, shape.b_strides, options).normal_();
    out = at::empty({shape.a_sizes[0], shape.b_sizes[1]}, options).normal_();
  }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(a.storage().nbytes() + b.storage().nbytes() + out.storage().nbytes());
  }
};

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    for (cudaEvent_t* event : {&begin_, &end_}) check(cudaEventCreate(event));
  }
  ~Timer() { cudaEventDestroy(begin_), cudaEventDestroy(end_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Time on the device only: it begins after the host has issued all calls.
  template <class Call>
  double seconds_of(const Call& call) {
    at::cuda::sleep(kCyclesAhead);
    check(cudaEventRecord(begin_, stream_));
    call();
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  static void check(cudaError_t error) {
    if (error != cudaSuccess)
      throw Error(ExitCode::environment, fmt::format("measuring failed: {}", cudaGetErrorString(error)));
  }

  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

MatmulTimes measure_matmul(const MatmulShape& shape, c10::Device device) {
  std::vector<ProductOperands> sets;  // that the caches cannot hold together
  sets.emplace_back(shape, device);
  const cuda::Launch launch(sets[0].a, "mm");
  const std::int64_t cache = at::cuda::getDeviceProperties(device.index())->l2CacheSize;
  while (std::ssize(sets) * sets[0].bytes() < 3 * cache) sets.emplace_back(shape, device);

  std::vector<Product> products;
  for (const ProductOperands& set : sets)
    products.emplace_back(set.a, set.b, shape.adds ? &set.out : nullptr, set.out);
  std::vector<cublasLtMatmulHeuristicResult_t> found = products[0].algorithms();

  Timer timer(launch.stream());
  std::size_t next = 0;
  const auto seconds_of_calls = [&](const auto& call) {
    return timer.seconds_of([&] {
      for (int i = 0; i < kCallsOfARound; ++i) call(next++ % sets.size());
    }) / kCallsOfARound;
  };
  const auto with_aten = [&](std::size_t set) {
    ProductOperands& o = sets[set];
    shape.adds ? o.out.addmm_(o.a, o.b) : at::mm_out(o.out, o.a, o.b);
  };
  std::vector<double> aten;
  std::vector<std::vector<double>> seconds(found.size());
  for (int round = 0; round <= kRounds; ++round) {  // the first round warms up
    const double usual = seconds_of_calls(with_aten);
    if (round > 0) aten.push_back(usual);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double taken = seconds_of_calls([&](std::size_t set) {
        require_success(products[set].run(found[i].algo, static_cast<std::int64_t>(found[i].workspaceSize),
                                          launch.stream()),
                        "cublasLtMatmul");
      });
      if (round > 0) seconds[i].push_back(taken);
    }
  }
  MatmulTimes times{.aten_s = median(std::move(aten)), .algorithms = {}};
  for (std::size_t i = 0; i < found.size(); ++i)
    times.algorithms.push_back({{cublasLtGetVersion(), static_cast<std::int64_t>(found[i].workspaceSize),
                                 std::bit_cast<std::array<std::uint64_t, 8>>(found[i].algo)},
                                median(std::move(seconds[i]))});
  std::stable_sort(times.algorithms.begin(), times.algorithms.end(),
                   [](const auto& x, const auto& y) { return x.seconds < y.seconds; });
  return times;
}

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("mm", &matmul_cuda);
  m.impl("addmm", &add_matmul_cuda);
  m.impl("addmm_", &add_matmul_to_cuda);
}

}  // namespace rondo
