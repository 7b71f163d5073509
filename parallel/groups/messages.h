// Messages between two ranks: tensors that one pipeline stage sends to another.
//
// An edge is a registered group (groups.h) of two ranks, {from, to}. Its rank 0 sends, its rank 1
// receives, and it carries nothing else. Each ordered pair of ranks that communicate has an edge.
// Operations of one communicator wait for each other, so a shared one could deadlock. Messages of
// an edge arrive in the order of their sends. Both ends know shapes and dtypes.
//
// A message starts with the call, which does not block. A send may wait for its receive, since no
// buffer between them is guaranteed. Over NCCL, it runs on the edge's own stream after the work
// that is in the current stream. A lost or late peer throws c10::DistError, as in a collective.
// Over NCCL, ProcessGroups::refuse_failed reports it. comm_record.h has messages as "send" and
// "receive", with the edge as their group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace c10d {
class Work;
}

namespace rondo {

// Returns the name of the edge between two global ranks: "pp_0_to_1".
std::string edge_name(std::int64_t from, std::int64_t to);

// A send or receive in progress. Keeps its tensor alive until it is waited for or destroyed.
// Destroying it without a wait abandons the message and its edge; this is for teardown.
class [[nodiscard]] Message {
 public:
  Message();  // empty
  ~Message();
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;

  // Blocks until the tensor has arrived or may be overwritten: the caller on the CPU, the current
  // stream on a GPU. A second call does nothing.
  void wait();
  bool is_under_way() const { return tensor_.defined(); }  // started and not waited for

 private:
  friend Message send(const at::Tensor& tensor, const std::string& edge);
  friend Message receive(at::Tensor& tensor, const std::string& edge);
  Message(at::Tensor tensor, c10::intrusive_ptr<c10d::Work> work);

  at::Tensor tensor_;
  c10::intrusive_ptr<c10d::Work> work_;
};

// REQUIRES: contiguous tensors. Until the wait, nothing else writes them, and nothing reads a
// received one.
Message send(const at::Tensor& tensor, const std::string& edge);
Message receive(at::Tensor& tensor, const std::string& edge);

}  // namespace rondo
