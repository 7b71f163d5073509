// Messages between two ranks: tensors on their way from one stage of a pipeline to another.
//
// An edge is a registered group (groups.h) of two ranks, {from, to}: its rank 0 sends, its rank 1 receives,
// and it carries nothing else. Each ordered pair of ranks that talk has an edge, since what shares a
// communicator waits for each other, and could wait in a circle. Messages of an edge arrive in the order in
// which they were sent; both ends know their shapes and dtypes.
//
// A message begins with the call, which does not block. A send may wait for its receive: nothing promises a
// buffer between them. Over NCCL it runs on the edge's own stream, behind what the current stream has been
// given so far. A lost or late peer throws c10::DistError, as in a collective; over NCCL,
// ProcessGroups::refuse_failed tells. comm_record.h has messages as "send" and "receive", with the edge as
// their group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace c10d {
class Work;
}

namespace rondo {

// The name of the edge between two ranks of the job: "pp_0_to_1".
std::string edge_name(std::int64_t from, std::int64_t to);

// Keeps its tensor alive until it is waited for or destroyed. One that is destroyed before it was waited for,
// a send, too, is given up, and its edge with it: for teardown.
class [[nodiscard]] Message {
 public:
  Message();  // none
  ~Message();
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;

  // Until the tensor has come, or may be overwritten: on the CPU the caller waits, on a GPU its current
  // stream. The second time nothing.
  void wait();
  bool is_under_way() const { return tensor_.defined(); }  // begun, and not waited for

 private:
  friend Message send(const at::Tensor& tensor, const std::string& edge);
  friend Message receive(at::Tensor& tensor, const std::string& edge);
  Message(at::Tensor tensor, c10::intrusive_ptr<c10d::Work> work);

  at::Tensor tensor_;
  c10::intrusive_ptr<c10d::Work> work_;
};

// REQUIRE: contiguous tensors, which nothing else writes, or reads what is received, until the wait.
Message send(const at::Tensor& tensor, const std::string& edge);
Message receive(at::Tensor& tensor, const std::string& edge);

}  // namespace rondo
