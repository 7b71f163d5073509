// A reduction is Gloo's data movement followed by an OrderedReduction, which adds the received rows
// by rank in wait(), on the waiting thread. Until then the work object owns the buffer of
// contributions. Every collective is wrapped to report its call, wait and completion to the flight
// recorder. An entry that is not done names the collective in which a rank hangs. Gloo throws many
// types; those that mean a lost or late peer become c10d's DistBackendError.
#include "parallel/groups/ordered_gloo.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <c10/core/InferenceMode.h>
#include <sched.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "parallel/groups/comm_record.h"
#include "parallel/groups/float8_bytes.h"
#include "support/error.h"

namespace rondo {
namespace {

using c10d::ReduceOp;
using WorkPtr = OrderedGloo::WorkPtr;

// Reduces the rows of `contributions` [ranks, k] by sum or maximum into `output` [k] once they
// have arrived.
class OrderedReduction final : public c10d::Work {
 public:
  OrderedReduction(WorkPtr arrival, at::Tensor contributions, at::Tensor output, ReduceOp::RedOpType op)
      : arrival_(std::move(arrival)),
        contributions_(std::move(contributions)),
        output_(std::move(output)),
        op_(op) {}

  bool isCompleted() override { return contributions_.defined() == false; }

  bool wait(std::chrono::milliseconds timeout) override {
    if (isCompleted()) return true;
    arrival_->wait(timeout);
    reduce();
    contributions_.reset();
    return true;
  }

 private:
  void reduce() {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor rows = contributions_.view({contributions_.size(0), -1});
    at::Tensor flat = output_.view({-1});
    if (rows.size(0) == 1) {
      flat.copy_(rows[0]);
      return;
    }
    for (std::int64_t rank = 1; rank < rows.size(0); ++rank) {
      const at::Tensor so_far = rank == 1 ? rows[0] : flat;
      const at::Tensor next = rows[rank];
      if (op_ == ReduceOp::SUM) {
        at::add_out(flat, so_far, next);
      } else {
        at::maximum_out(flat, so_far, next);
      }
    }
  }

  WorkPtr arrival_;
  at::Tensor contributions_;
  at::Tensor output_;
  ReduceOp::RedOpType op_;
};

class AllOf final : public c10d::Work {
 public:
  explicit AllOf(std::vector<WorkPtr> parts) : parts_(std::move(parts)) {}
  bool isCompleted() override { return parts_.empty(); }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const WorkPtr& part : parts_) part->wait(timeout);
    parts_.clear();
    return true;
  }

 private:
  std::vector<WorkPtr> parts_;
};

// Runs `f` and turns Gloo's many exception types into DistBackendError: each means a lost or
// late rank.
template <class F>
auto naming_peers(F f) {
  try {
    return f();
  } catch (const c10::Error&) {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::exception& error) {
    C10_THROW_ERROR(DistBackendError, std::string("gloo: ") + error.what());
  }
}

// Reports the wait and its success to the flight recorder.
class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(WorkPtr work, std::int64_t number, std::chrono::milliseconds limit)
      : work_(std::move(work)), number_(number), limit_(limit) {}
  bool isCompleted() override { return work_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    comm_record::waited_for(number_);
    const bool completed =
        naming_peers([&] { return work_->wait(timeout == kNoTimeout ? limit_ : timeout); });
    comm_record::done(number_);
    return completed;
  }

 private:
  WorkPtr work_;
  std::int64_t number_;
  std::chrono::milliseconds limit_;
};

// Records and starts a collective. `start` calls it. `limit` is the timeout of its wait, or
// kNoTimeout where the work has its own.
template <class Start>
WorkPtr recorded(std::string_view collective, const std::string& group, const at::Tensor& input,
                 const at::Tensor& output, Start start, std::chrono::milliseconds limit = kNoTimeout) {
  const std::int64_t number = comm_record::called(
      {collective, group, c10::toString(input.scalar_type()), input.numel(), output.numel()});
  return c10::make_intrusive<RecordedWork>(naming_peers([&]() -> WorkPtr { return start(); }), number, limit);
}

ReduceOp::RedOpType supported(const ReduceOp& op) {
  RONDO_ASSERT(op == ReduceOp::SUM || op == ReduceOp::MAX, "Gloo groups reduce by sum or max only");
  return op.op_;
}

// Creates a device whose thread does not preempt others when it wakes. Gloo's thread polls for
// the lock of a connection that another thread holds while it sends. With more threads than
// cores, it would stop that thread for whole time slices. A thread inherits the scheduling policy
// of its creator.
std::shared_ptr<gloo::transport::Device> device_that_yields(const std::string& own_address) {
  const sched_param priority{};
  const bool is_batch = sched_setscheduler(0, SCHED_BATCH, &priority) == 0;
  auto device = c10d::ProcessGroupGloo::createDeviceForHostname(own_address);
  if (is_batch) sched_setscheduler(0, SCHED_OTHER, &priority);
  return device;
}

}  // namespace

// Avoids two races of LibTorch 2.11, each of which corrupts the heap:
//   - Each thread of a group writes the name of a completed collective into one std::string of the
//     group, without a lock. So a group has one thread. Its collectives run in the order of their
//     calls, as on a GPU.
//   - The flight recorder enters a group into one map of the process, without a lock. It is off
//     unless the environment turns it on, since comm_record.h replaces Gloo's record. It reads its
//     size with the first group. NCCL has another recorder, whose size is set later
//     (gpu_records.h).
//
// By default each rank stores a number for every other rank and reads the others' one by one. At
// 4,096 ranks that is 550 GB through one server. The rank serves as the number, since each group
// has its own device, and the store returns many values at once.
c10::intrusive_ptr<c10d::Backend> connect_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                               int size, const std::string& own_address,
                                               std::chrono::milliseconds timeout) {
  [[maybe_unused]] static const bool set = [] {
    for (const auto& [name, value] :
         {std::pair("TORCH_FR_BUFFER_SIZE", "0"), std::pair("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1"),
          std::pair("GLOO_ENABLE_STORE_V2_API", "1")})
      setenv(name, value, /*overwrite=*/0);
    return true;
  }();
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(device_that_yields(own_address));
  options->threads = 1;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

OrderedGloo::OrderedGloo(c10::intrusive_ptr<c10d::Backend> gloo)
    : c10d::Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

WorkPtr OrderedGloo::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  RONDO_ASSERT(tensors.size() == 1, "an all-reduce takes one tensor per call");
  at::Tensor& tensor = tensors[0];
  RONDO_ASSERT(tensor.is_contiguous(), "an all-reduce takes contiguous tensors");
  return recorded("all_reduce", getGroupUid(), tensor, tensor, [&] {
    at::Tensor input = tensor.view({-1});
    at::Tensor contributions = at::empty({getSize() * input.numel()}, tensor.options());
    WorkPtr arrival = gloo_->_allgather_base(contributions, input);
    return c10::make_intrusive<OrderedReduction>(std::move(arrival), contributions.view({getSize(), -1}),
                                                 tensor, supported(options.reduceOp));
  });
}

WorkPtr OrderedGloo::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  std::vector<WorkPtr> parts;
  for (at::Tensor& tensor : tensors) {
    Tensors single{tensor};
    parts.push_back(allreduce(single, options));
  }
  return c10::make_intrusive<AllOf>(std::move(parts));
}

WorkPtr OrderedGloo::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  RONDO_ASSERT(input.is_contiguous() && output.is_contiguous(), "a reduce-scatter takes contiguous tensors");
  RONDO_ASSERT(input.numel() == getSize() * output.numel(),
               "a reduce-scatter's input is ranks times its output");
  return recorded("reduce_scatter", getGroupUid(), input, output, [&] {
    at::Tensor sent = input.view({-1});
    at::Tensor received = at::empty_like(sent);
    std::vector<std::int64_t> even;  // empty means equal splits
    WorkPtr arrival = gloo_->alltoall_base(received, sent, even, even);
    return c10::make_intrusive<OrderedReduction>(std::move(arrival), received.view({getSize(), -1}), output,
                                                 supported(options.reduceOp));
  });
}

WorkPtr OrderedGloo::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  std::vector<WorkPtr> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    parts.push_back(_reduce_scatter_base(outputs[i], inputs[i], options));
  return c10::make_intrusive<AllOf>(std::move(parts));
}

WorkPtr OrderedGloo::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  return recorded("all_gather", getGroupUid(), input, output, [&] {
    at::Tensor to = float8_as_bytes(output), from = float8_as_bytes(input);
    return gloo_->_allgather_base(to, from, options);
  });
}

WorkPtr OrderedGloo::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  return recorded("all_gather", getGroupUid(), inputs.at(0), outputs.at(0), [&] {
    Tensors to = float8_as_bytes(outputs), from = float8_as_bytes(inputs);
    return gloo_->allgather_into_tensor_coalesced(to, from, options);
  });
}

WorkPtr OrderedGloo::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<std::int64_t>& output_splits,
                                   std::vector<std::int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  return recorded("all_to_all", getGroupUid(), input, output,
                  [&] { return gloo_->alltoall_base(output, input, output_splits, input_splits, options); });
}

WorkPtr OrderedGloo::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return recorded("broadcast", getGroupUid(), tensors.at(0), tensors.at(0),
                  [&] { return gloo_->broadcast(tensors, options); });
}

// Passes the current timeout, since Gloo's own wait uses the timeout of its connections and ignores
// later calls of setTimeout.
WorkPtr OrderedGloo::send(Tensors& tensors, int to, int tag) {
  return recorded(
      "send", getGroupUid(), tensors.at(0), tensors.at(0), [&] { return gloo_->send(tensors, to, tag); },
      gloo_->getBackendOptions()->timeout);
}

WorkPtr OrderedGloo::recv(Tensors& tensors, int from, int tag) {
  return recorded(
      "receive", getGroupUid(), tensors.at(0), tensors.at(0), [&] { return gloo_->recv(tensors, from, tag); },
      gloo_->getBackendOptions()->timeout);
}

WorkPtr OrderedGloo::barrier(const c10d::BarrierOptions& options) {
  const at::Tensor nothing = at::empty({0});
  return recorded("barrier", getGroupUid(), nothing, nothing, [&] { return gloo_->barrier(options); });
}

}  // namespace rondo
