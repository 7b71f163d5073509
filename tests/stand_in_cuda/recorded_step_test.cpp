// Recorded steps of both models in many layouts, by the real worker on the stand-in: what a capture
// contains, what a step costs the host, and in which order everything is freed. Kernels are not
// executed, so all values are zeros.
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <set>

#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

constexpr int kSteps = 10;

struct Layout {
  const char* name;
  int ranks;
  const char* config;
  Words flags;
  // For every rank: nodes and edges of each recording, in the order of the recordings; calls of the
  // CUDA runtime in a step that launches them, and how often the host waits there for what it
  // launched. A change of a step's graph changes these numbers.
  const char* golden;
  Words settings = {};
};

const Words kFloat8 = {"--model.converters=float8", "--training.mixed_precision_param=bfloat16",
                       "--quantize.linear.float8.filter_fqns=output"};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"Llama 3", 1, kLlama, {}, "nodes/edges 320/319, 27 calls and 0 waits a step"},
      {"Llama 3, read at once",
       1,
       kLlama,
       {"--metrics.lag=0"},
       "nodes/edges 320/319, 27 calls and 1 waits a step"},
      {"Llama 3, bf16",
       1,
       kLlama,
       {"--training.mixed_precision_param=bfloat16"},
       "nodes/edges 420/419, 27 calls and 0 waits a step"},
      {"Llama 3, fused, full recomputation",
       1,
       kLlama,
       {"--compile.numerics=rounds", "--compile.memory_policy=full"},
       "nodes/edges 349/348, 27 calls and 0 waits a step"},
      {"Llama 3, two microbatches, validation",
       1,
       kLlama,
       {"--training.global_batch_size=8", "--validation.enable=true", "--validation.freq=4",
        "--validation.steps=2"},
       "nodes/edges 357/356 81/80 87/86, 269 calls and 7 waits a step"},
      {"Llama 3, offloading",
       1,
       kLlama,
       {"--compile.memory_policy=sac_and_offload"},
       "nodes/edges 446/623, 27 calls and 0 waits a step"},
      {"Llama 3, FSDP over 2, state in host memory, early updates",
       2,
       kLlama,
       {"--training.enable_cpu_offload=true", "--optimizer.early_step_in_backward=true",
        "--training.max_norm=inf"},
       "nodes/edges 848/1934, 27 calls and 0 waits a step"},
      {"Llama 3, float8, a scale a matrix", 1, kLlama, kFloat8,
       "nodes/edges 852/851, 27 calls and 0 waits a step"},
      {"Llama 3, float8, a scale a row, FSDP over 2", 2, kLlama,
       kFloat8 + Words{"--quantize.linear.float8.recipe_name=rowwise"},
       "nodes/edges 974/1048, 27 calls and 0 waits a step"},
      {"Llama 3, float8, scales of 128, tensor parallelism over 2", 2, kLlama,
       kFloat8 +
           Words{"--quantize.linear.float8.recipe_name=blockwise", "--parallelism.tensor_parallel_degree=2"},
       "nodes/edges 884/998, 27 calls and 0 waits a step"},
      {"DeepSeek-V3", 1, kDeepSeek, {}, "nodes/edges 539/538, 27 calls and 0 waits a step"},
      {"DeepSeek-V3, bf16",
       1,
       kDeepSeek,
       {"--training.mixed_precision_param=bfloat16"},
       "nodes/edges 818/817, 27 calls and 0 waits a step"},
      {"Llama 3, FSDP over 2", 2, kLlama, {}, "nodes/edges 476/526, 27 calls and 0 waits a step"},
      {"Llama 3, tensor parallelism over 2, collectives in two pieces",
       2,
       kLlama,
       {"--parallelism.tensor_parallel_degree=2", "--parallelism.enable_async_tensor_parallel=true",
        "--compile.tensor_parallel_pieces=2"},
       "nodes/edges 700/914, 27 calls and 0 waits a step"},
      // `accumulate`, then `last`, whose backward sums over the replicas.
      {"Llama 3, replicas over 2, two microbatches",
       2,
       kLlama,
       {"--parallelism.data_parallel_replicate_degree=2", "--parallelism.data_parallel_shard_degree=1",
        "--training.global_batch_size=16"},
       "nodes/edges 359/359 464/482, 47 calls and 0 waits a step"},
      {"Llama 3, HSDP and tensor parallelism over 4",
       4,
       kLlama,
       {"--parallelism.data_parallel_replicate_degree=2", "--parallelism.tensor_parallel_degree=2"},
       "nodes/edges 480/618, 27 calls and 0 waits a step"},
      {"Llama 3, bf16, sequences over 2",
       2,
       kLlama,
       {"--parallelism.context_parallel_degree=2", "--training.mixed_precision_param=bfloat16"},
       "nodes/edges 814/914, 31 calls and 0 waits a step"},
      {"Llama 3, bf16, sequences over 2 by heads",
       2,
       kLlama,
       {"--parallelism.context_parallel_degree=2", "--training.mixed_precision_param=bfloat16",
        "--parallelism.context_parallel_rotate_method=alltoall"},
       "nodes/edges 778/926, 29 calls and 0 waits a step"},
      // Each rank gets the same number of rows of each expert: i32[3, 2] of 384 at each exchange.
      // The number of host calls varies with NCCL's watchdog.
      {"DeepSeek-V3, experts over 2, exact counts",
       2,
       kDeepSeek,
       {"--parallelism.expert_parallel_degree=2", "--parallelism.expert_parallel_comm_backend=standard"},
       "nodes/edges 75/81 8/7 50/51 8/7 50/51 8/7 50/51 8/7 50/51 8/7 52/58 11/10 64/66 11/10 64/66 11/10 "
       "64/66 11/10 64/66 11/10 131/139,",
       {"RONDO_STAND_IN_ANSWER=counts:24:384"}},
      {"DeepSeek-V3, experts over 2",
       2,
       kDeepSeek,
       {"--parallelism.expert_parallel_degree=2"},
       "nodes/edges 819/940, 27 calls and 0 waits a step"},
      // The first forward, which gathers; the forward beside the backward before it; the last
      // backward, which reduces; and the update.
      {"DeepSeek-V3, experts over 2 that exchange parts of sums, overlapped microbatches that reduce once",
       2,
       kDeepSeek,
       {"--parallelism.expert_parallel_degree=2", "--parallelism.expert_parallel_combine=alltoall",
        "--training.local_batch_size=4", "--parallelism.overlapped_microbatches=2",
        "--parallelism.fsdp_reshard_after_forward=never", "--parallelism.fsdp_gradient_sync=step"},
       "nodes/edges 365/419 700/769 502/545 127/129, 83 calls and 0 waits a step"},
      // A rank of a pipeline records the bodies of its own stages, once for each slot.
      {"Llama 3, pipeline over 2, FSDP over 2, validation",
       4,
       kLlama,
       {"--parallelism.pipeline_parallel_degree=2", "--validation.enable=true", "--validation.freq=3",
        "--validation.steps=2"},
       "nodes/edges"},
      {"DeepSeek-V3, bf16, a V of stages over 2, weights late",
       2,
       kDeepSeek,
       {"--parallelism.pipeline_parallel_degree=2", "--training.mixed_precision_param=bfloat16",
        "--parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
        "--parallelism.fsdp_reshard_after_forward=always"},
       "nodes/edges"},
      // A combined forward and backward is recorded once for each pair of slots that run together.
      {"DeepSeek-V3, bf16, experts over 2, a V of stages over 2, forwards beside backwards",
       4,
       kDeepSeek,
       {"--parallelism.pipeline_parallel_degree=2", "--parallelism.expert_parallel_degree=2",
        "--training.local_batch_size=4", "--training.mixed_precision_param=bfloat16",
        "--parallelism.pipeline_parallel_schedule=DualPipeV"},
       "nodes/edges"},
  };
  return all;
}

std::string figures(const JournalFile& journal) {
  std::string text = "nodes/edges";
  for (const std::string& line : journal.of("capture_end"))
    text += fmt::format(" {}/{}", JournalFile::number(line, "nodes"), JournalFile::number(line, "edges"));
  // The last launched recording is launched once per step. The last step is special: it waits for
  // the previous one.
  const std::vector<std::string> launches = journal.of("launch");
  if (launches.empty()) return text + ", nothing was launched";
  const std::string last = JournalFile::text(launches.back(), "recording");
  std::vector<std::string> of_last;
  for (const std::string& line : launches)
    if (JournalFile::text(line, "recording") == last) of_last.push_back(line);
  const auto between = [&](const char* key) {
    return JournalFile::number(of_last[of_last.size() - 2], key) -
           JournalFile::number(of_last[of_last.size() - 3], key);
  };
  return text + fmt::format(", {} calls and {} waits a step", between("calls"), between("waits"));
}

// Returns where the host put batch and learning rate before each launch of a recording. The first
// launches are in runs that record, this function or the next one, where more is copied.
std::map<std::string, std::set<std::string>> places_of_inputs(const JournalFile& journal) {
  std::map<std::string, std::set<std::string>> of_recording;
  for (const std::string& line : journal.of("launch"))
    if (JournalFile::number(line, "launches") > 2)
      of_recording[JournalFile::text(line, "recording")].insert(JournalFile::text(line, "copied_to"));
  return of_recording;
}

// Returns the device's count of segments when the counter is freed. It includes those of the first
// run, which is not recorded.
std::int64_t segments_counted(const JournalFile& journal) {
  std::int64_t most = 0;
  for (const std::string& line : journal.of("free"))
    most = std::max(most, JournalFile::number(line, "number"));
  return most;
}

// Returns, by the group of a communicator, the number and the hash of its collectives.
std::map<std::string, std::set<std::string>> asked_for(const StandInRun& run, int ranks) {
  std::map<std::string, std::set<std::string>> of_group;
  for (int rank = 0; rank < ranks; ++rank)
    for (const std::string& line : run.journal(rank).of("communicator_destroyed"))
      of_group[JournalFile::text(line, "group")].insert(line.substr(line.find(" calls=")));
  return of_group;
}

}  // namespace

TEST_CASE("a recorded step contains nothing that CUDA forbids, takes no memory, and is torn down in order") {
  for (const Layout& layout : layouts()) DYNAMIC_SECTION(layout.name) {
      const StandInRun run;
      const ProgramResult ended =
          run.run(layout.ranks, layout.config, layout.flags + steps(kSteps), layout.settings);
      INFO(ended.output);
      REQUIRE(ended.exit_code == 0);
      for (int rank = 0; rank < layout.ranks; ++rank) {
        INFO("rank " << rank);
        const JournalFile journal = run.journal(rank);
        CHECK(problems(journal, layout.ranks > 1) == std::vector<std::string>{});
        CHECK_THAT(figures(journal), Catch::Matchers::StartsWith(layout.golden));
        for (const auto& [recording, places] : places_of_inputs(journal)) {
          INFO("recording " << recording << ": " << fmt::format("{}", fmt::join(places, " | ")));
          CHECK(places.size() == 1);
        }
        CHECK(segments_counted(journal) ==
              static_cast<std::int64_t>(journal.of("launch").size() + journal.of("capture_end").size()));
      }
      for (const auto& [group, kinds] : asked_for(run, layout.ranks)) CHECK(kinds.size() == 1);
    }
}

}  // namespace rondo
