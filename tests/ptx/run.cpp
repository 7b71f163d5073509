// Blocks run one after the other. A warp runs until all of its lanes have left or it is at a
// barrier; then the next one does. In a warp, the lanes whose next instruction is the first in the
// program run, so that lanes that took different ways meet again where the ways do. At a barrier or
// an exchange, lanes wait for all others.
#include <algorithm>
#include <bit>
#include <limits>

#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// The lanes that run together, and the first instruction at which others are.
struct Together {
  Lanes lanes = 0;
  int at = kNever, others_at = kNever;
};
Together first_of(const Warp& warp, Lanes lanes) {
  Together t;
  for_lanes(lanes, [&](int l) { t.at = std::min(t.at, warp.next[l]); });
  for_lanes(lanes, [&](int l) {
    if (warp.next[l] == t.at)
      t.lanes |= Lanes{1} << l;
    else
      t.others_at = std::min(t.others_at, warp.next[l]);
  });
  return t;
}

void set_next(Warp& warp, Lanes lanes, int next) {
  for_lanes(lanes, [&](int l) { warp.next[l] = next; });
}

Lanes guarded_by(const Warp& warp, const Instruction& of, Lanes lanes) {
  if (of.guard < 0) return lanes;
  const Lanes guard = warp.predicates[static_cast<std::size_t>(of.guard)];
  return lanes & (of.guard_negated ? ~guard : guard);
}

// Returns whether the warp is at a barrier; otherwise all of its lanes have left.
bool run_to_barrier(Warp& warp, Work& work) {
  const std::vector<Instruction>& code = warp.block->kernel->code;
  Lanes waiting = 0;
  while (warp.alive != 0) {
    const bool all_wait = (warp.alive & ~waiting) == 0;
    const Together t = first_of(warp, all_wait ? warp.alive : warp.alive & ~waiting);
    Lanes lanes = t.lanes;
    int at = t.at;
    while (lanes != 0 && at < t.others_at) {
      if (at >= static_cast<int>(code.size())) throw std::runtime_error("ptx: a kernel without an end");
      const Instruction& of = code[static_cast<std::size_t>(at)];
      if ((of.kind == Kind::exchange || of.kind == Kind::barrier) && lanes != warp.alive) {
        if (all_wait) fail(warp, of, "lanes of the warp are missing");
        waiting |= lanes;
        break;
      }
      ++at;
      const Lanes guarded = guarded_by(warp, of, lanes);
      work.instructions += of.is_move ? 0 : 1;
      work.global_bytes += of.global_bytes * std::popcount(guarded);
      if (of.kind == Kind::exchange) waiting = 0;
      if (of.kind == Kind::plain || of.kind == Kind::exchange) {
        if (guarded != 0) of.run(warp, of, guarded);
      } else if (of.kind == Kind::barrier) {
        set_next(warp, lanes, at);
        return true;
      } else if (of.kind == Kind::leave) {
        warp.alive &= ~guarded;
        lanes &= ~guarded;
      } else if (guarded == lanes) {
        at = of.target;
      } else if (guarded != 0) {
        set_next(warp, guarded, of.target);
        set_next(warp, lanes & ~guarded, at);
        lanes = 0;
      }
    }
    set_next(warp, lanes, at);
  }
  return false;
}

class Runner {
 public:
  Runner(const Kernel& kernel, const Grid& grid, const void* const* arguments)
      : kernel_(kernel), grid_(grid) {
    block_.kernel = &kernel;
    block_.arguments.resize(kernel.argument_bytes);
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i)
      std::memcpy(block_.arguments.data() + kernel.parameters[i], arguments[i], kernel.parameter_bytes[i]);
    warps_.resize((grid.threads + kLanes - 1) / kLanes);
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      Warp& warp = warps_[w];
      warp.block = &block_;
      warp.values.resize(static_cast<std::size_t>(kernel.values));
      warp.predicates.resize(static_cast<std::size_t>(kernel.predicates));
      warp.local.resize(kernel.local_bytes * kLanes);
      for (const Constant& constant : kernel.constants) fill(warp, constant.slot, constant.bits);
      set_special(warp, "%ntid.x", grid.threads);
      set_special(warp, "%nctaid.x", grid.x);
      set_special(warp, "%nctaid.y", grid.y);
      set_special(warp, "%nctaid.z", grid.z);
      for (int l = 0; l < kLanes; ++l) {
        if (const int slot = special("%tid.x"); slot >= 0)
          warp.values[static_cast<std::size_t>(slot)][l] = w * kLanes + static_cast<std::size_t>(l);
        if (const int slot = special("%laneid"); slot >= 0)
          warp.values[static_cast<std::size_t>(slot)][l] = static_cast<std::uint64_t>(l);
      }
    }
  }

  void run_block(unsigned x, unsigned y, unsigned z, Order order) {
    // A kernel must not rely on what shared memory holds at its start.
    block_.shared.assign(kernel_.shared_bytes, std::byte{0xff});
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      Warp& warp = warps_[w];
      set_special(warp, "%ctaid.x", x);
      set_special(warp, "%ctaid.y", y);
      set_special(warp, "%ctaid.z", z);
      warp.next.fill(0);
      const std::size_t lanes = std::min<std::size_t>(kLanes, grid_.threads - w * kLanes);
      warp.alive = lanes == kLanes ? ~Lanes{0} : (Lanes{1} << lanes) - 1;
    }
    // Threads that have left take no part in a barrier.
    for (bool at_barrier = true; at_barrier;) {
      at_barrier = false;
      for (std::size_t i = 0; i < warps_.size(); ++i) {
        Warp& warp = warps_[order == Order::ascending ? i : warps_.size() - 1 - i];
        at_barrier = run_to_barrier(warp, work_) || at_barrier;
      }
    }
  }

  const Work& work() const { return work_; }

 private:
  int special(std::string_view name) const {
    const auto it = kernel_.special_registers.find(name);
    return it == kernel_.special_registers.end() ? -1 : it->second;
  }
  void set_special(Warp& warp, std::string_view name, std::uint64_t value) const {
    if (const int slot = special(name); slot >= 0) fill(warp, slot, value);
  }
  static void fill(Warp& warp, int slot, std::uint64_t value) {
    warp.values[static_cast<std::size_t>(slot)].fill(value);
  }

  const Kernel& kernel_;
  const Grid grid_;
  Block block_;
  std::vector<Warp> warps_;
  Work work_;
};

}  // namespace

Work run(const Kernel& kernel, const Grid& grid, const void* const* arguments, Order order) {
  for (const auto& [name, slot] : kernel.special_registers)
    if (name != "%tid.x" && name != "%ntid.x" && name != "%laneid" && !name.starts_with("%ctaid.") &&
        !name.starts_with("%nctaid."))
      throw std::runtime_error("ptx: " + kernel.name + ": no register " + name);
  Runner runner(kernel, grid, arguments);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        if (grid.ends_only && x == 1 && grid.x > 5) x = grid.x - 4;
        runner.run_block(x, y, z, order);
      }
  return runner.work();
}

}  // namespace rondo::ptx
