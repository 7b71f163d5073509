#include "parallel/groups/messages.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "support/error.h"

namespace rondo {
namespace {

constexpr int kSender = 0, kReceiver = 1, kTag = 0;

// Returns the backend that carries `tensor` for this end of the edge.
c10::intrusive_ptr<c10d::Backend> carrier(const at::Tensor& tensor, const std::string& edge, int end) {
  RONDO_ASSERT(tensor.is_contiguous(), "a message is a contiguous tensor");
  const auto group = c10d::resolve_process_group(edge);
  RONDO_ASSERT(group->getSize() == 2 && group->getRank() == end,
               "rank 0 of edge " + edge + " sends and rank 1 receives");
  return group->getBackend(tensor.device().type());
}

}  // namespace

std::string edge_name(std::int64_t from, std::int64_t to) {
  return "pp_" + std::to_string(from) + "_to_" + std::to_string(to);
}

Message::Message() = default;
Message::~Message() = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::Message(at::Tensor tensor, c10::intrusive_ptr<c10d::Work> work)
    : tensor_(std::move(tensor)), work_(std::move(work)) {}

void Message::wait() {
  const Message done = std::exchange(*this, {});
  if (done.work_) done.work_->wait();
}

Message send(const at::Tensor& tensor, const std::string& edge) {
  std::vector<at::Tensor> tensors{tensor};
  return {tensor, carrier(tensor, edge, kSender)->send(tensors, kReceiver, kTag)};
}

Message receive(at::Tensor& tensor, const std::string& edge) {
  std::vector<at::Tensor> tensors{tensor};
  return {tensor, carrier(tensor, edge, kReceiver)->recv(tensors, kSender, kTag)};
}

}  // namespace rondo
