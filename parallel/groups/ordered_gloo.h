// Gloo with reductions whose bits do not depend on an element's position in a buffer.
//
// Gloo's ring adds the ranks' contributions in an order that changes from one buffer segment
// to the next. So the same gradient reduced alone or inside a bucket differs by an ulp. Here
// every reduction moves the contributions unreduced: all-to-all for reduce-scatter, all-gather
// for all-reduce. It then adds them in rank order: ((x0 + x1) + x2) + ... The bits are equal
// on all ranks and for every packing of buffers. Gathers, broadcasts, barriers and messages
// are Gloo's own.
//
// Work::wait() finishes a reduction on the waiting thread. Reductions are sum and max only. Sums
// use the buffer's dtype.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace rondo {

// Connects to the other ranks of the group through `store`, which no other group may use, and
// listens on `own_address` only. Throws what c10d throws where they do not arrive within `timeout`,
// which is also the timeout of collectives.
c10::intrusive_ptr<c10d::Backend> connect_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                               int size, const std::string& own_address,
                                               std::chrono::milliseconds timeout);

class OrderedGloo final : public c10d::Backend {
 public:
  // `gloo` moves the data: connect_gloo's backend, except in tests.
  explicit OrderedGloo(c10::intrusive_ptr<c10d::Backend> gloo);

  const std::string getBackendName() const override { return "ordered_gloo"; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // x[i] = sum over ranks of x[i], in place.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  // Sums input [n * k] over all ranks; output [k] is this rank's part.
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  // Empty lists mean equal splits; otherwise they hold the rows for each rank and from each rank.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // Messages to and from one rank of the group, in the order of the calls.
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace rondo
