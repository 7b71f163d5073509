#include "compiler/execute/host_transfers.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "support/error.h"

namespace rondo {
namespace {

bool copies_by_itself(const std::shared_ptr<ReplayMemory>& memory) {
  return memory && memory->device().device().is_cuda();
}

at::Tensor pinned_like(const at::Tensor& tensor, ReplayMemory& memory) {
  return at::from_blob(memory.device().reserve_on_host(tensor.nbytes()), tensor.sizes(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

}  // namespace

std::vector<at::Tensor> StagedBatches::stage(const std::vector<at::Tensor>& batch) {
  if (!copies_by_itself(memory_)) return batch;
  if (sets_[0].empty())
    for (std::vector<at::Tensor>& set : sets_)
      for (const at::Tensor& tensor : batch) set.push_back(pinned_like(tensor, *memory_));
  const std::vector<at::Tensor>& set = sets_[next_++ % sets_.size()];
  for (std::size_t i = 0; i < set.size(); ++i) set[i].copy_(batch[i]);
  return set;
}

struct LateNumbers::Answer {
  void* pinned = nullptr;            // kMostBytes, where the device copies by itself
  at::Tensor numbers;                // on the host
  std::optional<c10::Event> copied;  // where the device copies by itself
};

LateNumbers::LateNumbers(std::shared_ptr<ReplayMemory> memory, std::size_t under_way) : answers_(under_way) {
  if (copies_by_itself(memory))
    for (Answer& each : answers_) each.pinned = memory->device().reserve_on_host(kMostBytes);
}

LateNumbers::~LateNumbers() {
  try {
    while (read_ < asked_) read();
  } catch (const std::exception&) {
    // The device has failed, which was told elsewhere: it writes no more.
  }
}

void LateNumbers::ask(const at::Tensor& numbers) {
  RONDO_ASSERT(asked_ - read_ < answers_.size(), "more numbers are asked for than can be under way");
  Answer& answer = answers_[asked_ % answers_.size()];
  if (answer.pinned != nullptr) {
    RONDO_ASSERT(numbers.nbytes() <= kMostBytes, "more numbers are asked for than there is room");
    if (!answer.copied) answer.copied.emplace(c10::kCUDA);
    answer.numbers =
        at::from_blob(answer.pinned, numbers.sizes(), at::TensorOptions().dtype(numbers.scalar_type()));
    answer.numbers.copy_(numbers, /*non_blocking=*/true);
    answer.copied->record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(numbers.device()));
  } else {
    answer.numbers = numbers.cpu();
  }
  ++asked_;
}

at::Tensor LateNumbers::read() {
  RONDO_ASSERT(read_ < asked_, "no numbers were asked for");
  Answer& answer = answers_[read_ % answers_.size()];
  if (answer.copied) answer.copied->synchronize();
  ++read_;
  return answer.numbers;
}

}  // namespace rondo
