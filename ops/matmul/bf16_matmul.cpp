// A product is divided into tiles of the result, which threads take independently. For a tile,
// blocks of K of both operands are widened with their strides, so that sgemm transposes them, and
// multiplied into f32 sums. The sums are rounded at the end. Operands that LibTorch's checks would
// refuse go to its own kernels, which throw.
#include "ops/matmul/bf16_matmul.h"

#include "ops/kernel/instructions.h"
#include "ops/kernel/parallel_rows.h"

#ifdef __x86_64__

#include <ATen/native/Resize.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "ops/kernel/vectors.h"

// MKL, as linked into LibTorch.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);
int MKL_Set_Num_Threads_Local(int threads);
}
// NOLINTEND(readability-identifier-naming)

namespace rondo {
namespace {

using at::BFloat16;
using at::Scalar;
using at::Tensor;

std::atomic<std::int64_t> products{0};

// --- a tile ---

constexpr std::int64_t kLargestTile = 256, kSmallestTile = 64, kLargestBlock = 1024, kTilesOfProduct = 8;
// After each row, so that rows of a power of two do not share cache sets.
constexpr std::int64_t kGap = 16;

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// Divides `count` evenly into multiples of 16, none above `largest`.
std::int64_t even_part(std::int64_t count, std::int64_t largest) {
  return divided(divided(count, divided(count, largest)), 16) * 16;
}

// A batch of matrices. Dimensions that a sum is broadcast along have stride 0.
struct Matrices {
  BFloat16* data = nullptr;
  std::array<std::int64_t, 3> stride = {};

  Matrices() = default;
  Matrices(const Tensor& x, std::int64_t batch, std::int64_t rows, std::int64_t columns)
      : data(static_cast<BFloat16*>(const_cast<void*>(x.const_data_ptr()))) {
    const std::int64_t sizes[] = {batch, rows, columns};
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(3, x.dim()); ++d)
      if (x.size(-d) == sizes[3 - d]) stride[static_cast<std::size_t>(3 - d)] = x.stride(-d);
  }
  BFloat16* at(std::int64_t index, std::int64_t row, std::int64_t column) const {
    return data + index * stride[0] + row * stride[1] + column * stride[2];
  }
};

struct Product {
  std::int64_t batch, M, N, K;
  Matrices a, b, sum, result;  // sum.data may be null
  float alpha, beta;
};

// A widened block of an operand, as sgemm reads it.
struct Block {
  const float* data;
  int rows_apart;
  const char* transpose;
};

void widen_row(const BFloat16* from, std::int64_t stride, std::int64_t count, float* to) {
  std::int64_t i = 0;
  if (stride == 1)
    for (; i + kVector <= count; i += kVector) {
      Vector<float> lanes;
      load(from + i, lanes);
      std::memcpy(to + i, &lanes, sizeof(lanes));
    }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i * stride]);
}

Block widen(const BFloat16* from, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
            std::int64_t columns, float* to) {
  // Columns that are dense in memory become rows.
  const bool transposed = column_stride != 1 && row_stride == 1;
  if (transposed) std::swap(row_stride, column_stride), std::swap(rows, columns);
  const std::int64_t apart = divided(columns, 16) * 16 + kGap;
  for (std::int64_t i = 0; i < rows; ++i)
    widen_row(from + i * row_stride, column_stride, columns, to + i * apart);
  return {to, static_cast<int>(apart), transposed ? "T" : "N"};
}

void round_row(const float* from, std::int64_t columns, BFloat16* to, std::int64_t stride) {
  std::int64_t j = 0;
  if (stride == 1)
    for (; j + kVector <= columns; j += kVector) {
      Vector<float> lanes;
      std::memcpy(&lanes, from + j, sizeof(lanes));
      store(lanes, to + j);
    }
  for (; j < columns; ++j) to[j * stride] = static_cast<BFloat16>(from[j]);
}

// The memory of a thread. The blocks come first because sgemm's bits may depend on alignment.
class Tiles {
 public:
  static constexpr std::int64_t kOperand = (kLargestTile + kGap) * (kLargestBlock + kGap);
  float* a() const { return data_.get(); }
  float* b() const { return a() + kOperand; }
  float* sums() const { return b() + kOperand; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Freed {
    void operator()(float* data) const { ::operator delete[](data, kAlignment); }
  };
  static constexpr std::size_t kBytes = sizeof(float) * (2 * kOperand + kLargestTile * (kLargestTile + kGap));
  std::unique_ptr<float[], Freed> data_{static_cast<float*>(::operator new[](kBytes, kAlignment))};
};

void compute_tile(const Product& p, std::int64_t index, std::int64_t row, std::int64_t rows,
                  std::int64_t column, std::int64_t columns) {
  static thread_local const Tiles tiles;
  const std::int64_t block = p.K == 0 ? 0 : even_part(p.K, kLargestBlock);
  const int m = static_cast<int>(rows), n = static_cast<int>(columns),
            apart = static_cast<int>(kLargestTile + kGap);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const sums = tiles.sums() + i * apart;
    if (p.sum.data == nullptr) {
      if (p.K == 0) std::fill_n(sums, columns, 0.0F);
      continue;
    }
    widen_row(p.sum.at(index, row + i, column), p.sum.stride[2], columns, sums);
    if (p.beta != 1)
      for (std::int64_t j = 0; j < columns; ++j) sums[j] *= p.beta;
  }
  for (std::int64_t first = 0; first < p.K; first += block) {
    const std::int64_t depth = std::min(block, p.K - first);
    const Block a = widen(p.a.at(index, row, first), p.a.stride[1], p.a.stride[2], rows, depth, tiles.a()),
                b = widen(p.b.at(index, first, column), p.b.stride[1], p.b.stride[2], depth, columns,
                          tiles.b());
    const int k = static_cast<int>(depth);
    const float old = first > 0 || p.sum.data != nullptr ? 1 : 0;
    // sgemm's matrices have dense columns: it computes the transpose.
    sgemm_(b.transpose, a.transpose, &n, &m, &k, &p.alpha, b.data, &b.rows_apart, a.data, &a.rows_apart, &old,
           tiles.sums(), &apart);
  }
  for (std::int64_t i = 0; i < rows; ++i)
    round_row(tiles.sums() + i * apart, columns, p.result.at(index, row + i, column), p.result.stride[2]);
}

// --- a product ---

// MKL's calls of this thread use no other.
class OneThread {
 public:
  OneThread() : before_(MKL_Set_Num_Threads_Local(1)) {}
  ~OneThread() { MKL_Set_Num_Threads_Local(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

void compute(const Product& p) {
  ++products;
  if (p.batch == 0 || p.M == 0 || p.N == 0) return;
  std::int64_t rows = even_part(p.M, kLargestTile), columns = even_part(p.N, kLargestTile);
  const auto tiles = [&] { return p.batch * divided(p.M, rows) * divided(p.N, columns); };
  while (tiles() < kTilesOfProduct && std::max(rows, columns) > kSmallestTile)
    (rows >= columns ? rows : columns) /= 2;
  const std::int64_t across = divided(p.N, columns), of_matrix = divided(p.M, rows) * across;
  parallel_runs(tiles(), 1, [&](std::int64_t begin, std::int64_t end) {
    const OneThread one_thread;
    with_best_vectors([&] {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t row = tile % of_matrix / across * rows, column = tile % across * columns;
        compute_tile(p, tile / of_matrix, row, std::min(rows, p.M - row), column,
                     std::min(columns, p.N - column));
      }
    });
  });
}

bool is_broadcast(const Tensor& x, at::IntArrayRef sizes) {
  if (x.dim() > std::ssize(sizes)) return false;
  for (std::int64_t d = 1; d <= x.dim(); ++d)
    if (x.size(-d) != 1 && x.size(-d) != sizes[sizes.size() - static_cast<std::size_t>(d)]) return false;
  return true;
}

// Sizes of the product of two matrices, or two batches of them, of bf16; nothing for other
// operands.
using Sizes = std::optional<std::vector<std::int64_t>>;
Sizes product_sizes(const Tensor& a, const Tensor& b, std::int64_t dims, const Tensor* sum = nullptr) {
  if (a.scalar_type() != at::kBFloat16 || b.scalar_type() != at::kBFloat16 || a.dim() != dims ||
      b.dim() != dims || a.size(-1) != b.size(-2) || a.size(0) != (dims == 3 ? b.size(0) : a.size(0)))
    return {};
  std::vector<std::int64_t> sizes = a.sizes().vec();
  sizes.back() = b.size(-1);
  if (sum != nullptr && (sum->scalar_type() != at::kBFloat16 || !is_broadcast(*sum, sizes))) return {};
  return sizes;
}

void multiply(const Tensor& a, const Tensor& b, const Tensor& result, const Tensor* sum = nullptr,
              const Scalar& beta = 0, const Scalar& alpha = 1) {
  const std::int64_t batch = a.dim() == 3 ? a.size(0) : 1, M = a.size(-2), N = b.size(-1), K = a.size(-1);
  Product p{.batch = batch,
            .M = M,
            .N = N,
            .K = K,
            .a = Matrices(a, batch, M, K),
            .b = Matrices(b, batch, K, N),
            .sum = {},
            .result = Matrices(result, batch, M, N),
            .alpha = alpha.to<float>(),
            .beta = beta.to<float>()};
  if (sum != nullptr && p.beta != 0) p.sum = Matrices(*sum, batch, M, N);
  compute(p);
}

// --- the ops, with LibTorch's signatures ---

// The kernels of one op: `Dims` of its operands, and LibTorch's own kernels.
template <std::int64_t Dims, auto Plain, auto PlainOut>
struct Multiply {
  static Tensor product(const Tensor& a, const Tensor& b) {
    const Sizes sizes = product_sizes(a, b, Dims);
    if (!sizes) return Plain(a, b);
    Tensor result = at::empty(*sizes, a.options());
    multiply(a, b, result);
    return result;
  }
  static Tensor& out(const Tensor& a, const Tensor& b, Tensor& result) {
    const Sizes sizes = product_sizes(a, b, Dims);
    if (!sizes || result.scalar_type() != at::kBFloat16) return PlainOut(a, b, result);
    at::native::resize_output(result, *sizes);
    multiply(a, b, result);
    return result;
  }
};
template <std::int64_t Dims, auto Plain, auto PlainOut, auto PlainInPlace>
struct AddMultiply {
  static Tensor sum(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha) {
    const Sizes sizes = product_sizes(a, b, Dims, &c);
    if (!sizes) return Plain(c, a, b, beta, alpha);
    Tensor result = at::empty(*sizes, a.options());
    multiply(a, b, result, &c, beta, alpha);
    return result;
  }
  static Tensor& out(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha, Tensor& result) {
    const Sizes sizes = product_sizes(a, b, Dims, &c);
    if (!sizes || result.scalar_type() != at::kBFloat16) return PlainOut(c, a, b, beta, alpha, result);
    at::native::resize_output(result, *sizes);
    multiply(a, b, result, &c, beta, alpha);
    return result;
  }
  static Tensor& in_place(Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                          const Scalar& alpha) {
    const Sizes sizes = product_sizes(a, b, Dims, &c);
    if (!sizes || c.sizes() != *sizes) return PlainInPlace(c, a, b, beta, alpha);
    multiply(a, b, c, &c, beta, alpha);
    return c;
  }
};

// LibTorch warns about replaced kernels.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::optional<torch::Library> install() {
  if (!widens_bf16_products()) return {};
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  std::optional<torch::Library> library(std::in_place, torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                                        __FILE__, __LINE__);
  using Mm = Multiply<2, &at::cpu::mm, &at::cpu::mm_outf>;
  using Bmm = Multiply<3, &at::cpu::bmm, &at::cpu::bmm_outf>;
  using Addmm = AddMultiply<2, &at::cpu::addmm, &at::cpu::addmm_outf, &at::cpu::addmm_>;
  using Baddbmm = AddMultiply<3, &at::cpu::baddbmm, &at::cpu::baddbmm_outf, &at::cpu::baddbmm_>;
  library->impl("mm", &Mm::product).impl("mm.out", &Mm::out);
  library->impl("bmm", &Bmm::product).impl("bmm.out", &Bmm::out);
  library->impl("addmm", &Addmm::sum).impl("addmm.out", &Addmm::out).impl("addmm_", &Addmm::in_place);
  library->impl("baddbmm", &Baddbmm::sum)
      .impl("baddbmm.out", &Baddbmm::out)
      .impl("baddbmm_", &Baddbmm::in_place);
  return library;
}

[[maybe_unused]] const std::optional<torch::Library> installed = install();

}  // namespace

bool widens_bf16_products() { return best_vector_instructions() != VectorInstructions::avx512; }
std::int64_t widened_products() { return products; }

}  // namespace rondo

#else

namespace rondo {

bool widens_bf16_products() { return false; }
std::int64_t widened_products() { return 0; }

}  // namespace rondo

#endif
