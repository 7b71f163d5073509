// Single changes come first, in the order of what they cost: recomputation, smaller microbatches, more ranks,
// shorter sequences. Then all that is lean is combined with more and more ranks. A variant carries both the
// configuration and the flags that make it, so what is advised is what was planned. Variants with equal flags
// are tried once. Settings that would contradict a new memory policy are set back with it.
#include "trainer/plan/plan_alternatives.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {
namespace {

class Variants {
 public:
  Variants(const JobConfig& config, const Layout& layout)
      : job_{"", "", config, layout.mesh.world_size()}, layout_(layout) {}

  std::vector<Variant> all() {
    for (const char* policy : {"default", "full"})
      if (leaner(policy)) add(with_policy(job_, policy));
    for (std::int64_t local = job_.config.training.local_batch_size / 2; local >= 1; local /= 2)
      add(with_local_batch(job_, local, layout_.global_batch_size));
    for (std::int64_t factor : {2, 4, 8}) add(with_ranks(job_, factor));
    for (std::int64_t divisor : {2, 4}) add(with_shorter_sequences(job_, divisor));
    const Variant leanest = leaner("full") ? with_policy(job_, "full") : job_;
    for (std::int64_t factor : {1, 2, 4, 8, 16, 32, 64}) add(with_one_sequence(with_ranks(leanest, factor)));
    return made_;
  }

 private:
  static Variant changed(Variant from, const std::string& what, const std::string& flags) {
    from.what += (from.what.empty() ? "" : ", ") + what;
    from.flags += (from.flags.empty() ? "" : " ") + flags;
    return from;
  }

  bool leaner(const std::string& policy) const {
    const std::string now = memory_policy(job_.config);
    return now == "none" || (policy == "full" && now != "full");
  }
  static Variant with_policy(const Variant& from, const std::string& policy) {
    Variant v = changed(from, "memory policy " + policy, "--compile.memory_policy=" + policy);
    v.config.compile.memory_policy = policy;
    // These would say something else.
    if (from.config.activation_checkpoint.mode != "none") v.flags += " --activation_checkpoint.mode=none";
    if (from.config.compile.memory_budget_gib != 0) v.flags += " --compile.memory_budget_gib=0";
    v.config.activation_checkpoint.mode = "none";
    v.config.compile.memory_budget_gib = 0;
    return v;
  }

  // The same global batch in more microbatches.
  Variant with_local_batch(const Variant& from, std::int64_t local, std::int64_t global) const {
    const std::int64_t microbatches =
        global / (local * layout_.data_parallel() * from.world / layout_.mesh.world_size());
    Variant v =
        changed(from,
                microbatches == 1
                    ? fmt::format("local batch {}", local)
                    : fmt::format("local batch {} with accumulation of {} microbatches", local, microbatches),
                fmt::format("--training.local_batch_size={} --training.global_batch_size={}", local, global));
    v.config.training.local_batch_size = local;
    v.config.training.global_batch_size = global;
    return v;
  }

  // One sequence a rank at a time; the global batch stays, unless there are more ranks than it has sequences.
  Variant with_one_sequence(const Variant& from) const {
    const std::int64_t ranks = layout_.data_parallel() * from.world / layout_.mesh.world_size();
    const std::int64_t global = layout_.global_batch_size;
    if (global % ranks == 0 && from.config.training.local_batch_size == 1) return from;
    return with_local_batch(from, 1, global % ranks == 0 ? global : ranks);
  }

  static Variant with_ranks(const Variant& from, std::int64_t factor) {
    if (factor == 1) return from;
    Variant v = changed(from, fmt::format("{} ranks", from.world * factor),
                        fmt::format("--world {}", from.world * factor));
    v.world = from.world * factor;
    std::int64_t& shard = v.config.parallelism.data_parallel_shard_degree;
    if (shard != -1) v.flags += fmt::format(" --parallelism.data_parallel_shard_degree={}", shard * factor);
    if (shard != -1) shard *= factor;
    return v;
  }

  // What is one of the earlier ones already is not tried again.
  void add(const Variant& variant) {
    const auto same = [&](const Variant& other) { return other.flags == variant.flags; };
    if (!variant.flags.empty() && std::none_of(made_.begin(), made_.end(), same)) made_.push_back(variant);
  }

  static Variant with_shorter_sequences(const Variant& from, std::int64_t divisor) {
    const std::int64_t length = from.config.training.seq_len / divisor;
    Variant v = changed(from, fmt::format("sequences of {} tokens", length),
                        fmt::format("--training.seq_len={}", length));
    v.config.training.seq_len = length;
    return v;
  }

  const Variant job_;
  const Layout& layout_;
  std::vector<Variant> made_;
};

}  // namespace

std::vector<Variant> variants_that_take_less(const JobConfig& config, const Layout& layout) {
  return Variants(config, layout).all();
}

}  // namespace rondo
