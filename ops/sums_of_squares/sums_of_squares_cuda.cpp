#include "ops/sums_of_squares/sums_of_squares_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <map>
#include <vector>

#include "ops/kernel/launch.h"
#include "ops/sums_of_squares/sums_of_squares.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"

namespace rondo {
namespace {

at::Tensor sums_of_squares_cuda(at::TensorList tensors) {
  const at::Tensor sums = sums_of_squares_result(tensors);
  const cuda::Launch launch(sums, "sums_of_squares");
  std::vector<at::Tensor> contiguous;  // alive until the launches
  std::map<cuda::Element, std::vector<cuda::SquaredTensor>> by_element;
  std::int64_t chunks = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor& x = contiguous.emplace_back(tensor.contiguous());
    by_element[launch.element(x)].push_back(
        {x.const_data_ptr(), x.numel(), static_cast<std::int32_t>(contiguous.size() - 1)});
    chunks += squares::chunks_of(x.numel());
  }
  const at::Tensor room = at::empty({chunks}, sums.options());
  double* chunk_sums = room.mutable_data_ptr<double>();
  for (const auto& [element, of_element] : by_element) {
    cuda::sums_of_squares(element, of_element, chunk_sums, sums.mutable_data_ptr<double>(), launch.stream());
    for (const cuda::SquaredTensor& tensor : of_element) chunk_sums += squares::chunks_of(tensor.count);
  }
  launch.check();
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("sums_of_squares", &sums_of_squares_cuda); }

}  // namespace rondo
