// Tests which layouts a proof runs, and their names.
#include "prove/proof_layout.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "config/derived/pipeline_layout.h"
#include "config/load.h"
#include "prove/playable.h"
#include "prove/proof_job.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

JobConfig job_of(const std::string& model) {
  return proof_job(load_config({"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml"},
                               TargetDevice::cpu));
}

TEST_CASE("the text of a layout is read back, with settings and with a layout that resumes it") {
  for (const char* text :
       {"one rank", "dp_shard=2", "dp_replicate=2,dp_shard=3,tp=4,ep=6,accumulate=2",
        "tp=2,compile.passes=deduplicate_unshard,auto_bucketing,training.document_attention=true",
        "dp_shard=4/tp=2,accumulate=3", "dp_shard=2,tp=2,ep=2,etp=2", "pp=2,dp_shard=2,accumulate=4"}) {
    ProofCase read;
    CHECK(read_case(text, read) == "");
    CHECK(read.text() == text);
  }
  ProofCase read;
  CHECK_THAT(read_case("dp_shard=2,sp=2", read), ContainsSubstring("must be like dp_replicate=2"));
  CHECK_THAT(read_case("dp_shard=2,dp_shard=2", read), ContainsSubstring("each at most once"));
  CHECK_THAT(read_case("dp_shard=0", read), ContainsSubstring("must be like"));
  CHECK_THAT(read_case("compile.memory_polcy=full", read),
             ContainsSubstring("did you mean compile.memory_policy?"));
  CHECK_THAT(read_case("dp_shard=2,ep=4", read), ContainsSubstring("must divide dp_shard * cp * tp = 2"));
  CHECK_THAT(read_case("dp_shard=2,tp=4,etp=2", read),
             ContainsSubstring("has etp=2, which must be 1, or tp = 4"));
  CHECK_THAT(read_case("dp_shard=2,tp=2,ep=4,etp=2", read),
             ContainsSubstring("must divide dp_shard * cp = 2"));
  CHECK_THAT(read_case("dp_shard=2/tp=2/ep=1", read), ContainsSubstring("or two with a / between"));
}

TEST_CASE("the layouts and ways to train of both models are at least 300, all different and all valid") {
  std::size_t count = 0;
  for (const char* model : {"llama3", "deepseek_v3"}) {
    const JobConfig job = job_of(model);
    std::set<std::string> texts;
    for (const ProofCase& one : all_cases(job, 8)) {
      INFO(model << " " << one.text());
      CHECK(texts.insert(one.text()).second);
      for (const ProofLayout& layout : one.layouts) {
        CHECK(has_layout(job, layout));
        std::vector<std::string> flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" +
                                          std::string(model) + "_debug.toml"};
        for (const std::string& setting : layout.settings) flags.push_back("--" + setting);
        if (layout.tensor > 1) flags.emplace_back("--parallelism.tensor_parallel_degree=2");
        JobConfig config;
        CHECK_NOTHROW(config = load_config(flags, TargetDevice::cpu));
        config.model = job.model;
        config.parallelism.pipeline_parallel_degree = layout.pipeline;
        CHECK(broken_pipeline(config, layout.microbatches).empty());
        CHECK(one.global_batch() % (layout.data() * layout.microbatches) == 0);
      }
    }
    count += texts.size();
    CHECK(texts.contains("dp_replicate=2,dp_shard=2,tp=2"));
    CHECK(texts.contains("pp=2,dp_shard=2,tp=2,accumulate=4"));
    CHECK(texts.contains("pp=2,accumulate=4,parallelism.pipeline_parallel_schedule=GPipe"));
    for (const char* of_experts : {"dp_shard=2,tp=2,ep=4", "dp_shard=2,tp=2,ep=2,etp=2"})
      CHECK(texts.contains(of_experts) == (std::string(model) == "deepseek_v3"));
  }
  CHECK(count >= 300);
}

TEST_CASE("pipelines get the microbatches, layers and room for experts that their schedules need") {
  const auto played = [](const JobConfig& job, const std::string& layout) {
    ProofCase proof;
    REQUIRE(read_case(layout, proof) == "");
    make_playable(job, proof);
    return proof.text();
  };
  const std::string schedule = "parallelism.pipeline_parallel_schedule=";
  const JobConfig llama = job_of("llama3");
  CHECK(played(llama, "dp_shard=2") == "dp_shard=2");
  CHECK(played(llama, "pp=2") == "pp=2,accumulate=4");
  CHECK(played(llama, "pp=2,accumulate=6," + schedule + "DualPipeV") ==
        "pp=2,accumulate=6," + schedule + "DualPipeV");
  CHECK(played(llama, "pp=3," + schedule + "InterleavedZeroBubble") ==
        "pp=3,accumulate=4," + schedule + "InterleavedZeroBubble,model.n_layers=4");
  JobConfig bounded = job_of("deepseek_v3");
  bounded.parallelism.expert_capacity_factor = 1.5;
  CHECK(played(bounded, "pp=2") == "pp=2,accumulate=4,parallelism.expert_capacity_factor=0");
}

TEST_CASE("random layouts depend on the seed alone") {
  const JobConfig job = job_of("deepseek_v3");
  const auto texts = [&](std::uint64_t seed) {
    std::vector<std::string> made;
    for (const ProofCase& one : random_cases(job, 8, 20, seed)) made.push_back(one.text());
    return made;
  };
  CHECK(texts(7) == texts(7));
  CHECK(texts(7) != texts(8));
}

TEST_CASE("a job keeps its axes and takes degrees of 2, or of 3 where 2 does not divide them") {
  const auto shrunk = [](std::int64_t world, std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--job.config_file=" RONDO_SOURCE_DIR "/configs/deepseek_v3_debug.toml");
    return shrunk_layout(resolve_layout(load_config(flags, TargetDevice::cpu), world)).text();
  };
  CHECK(shrunk(1, {}) == "one rank");
  CHECK(shrunk(512, {}) == "dp_shard=2");
  CHECK(shrunk(64, {"--parallelism.pipeline_parallel_degree=4", "--training.local_batch_size=8"}) ==
        "pp=2,dp_shard=2,accumulate=4");
  CHECK(shrunk(9, {}) == "dp_shard=3");
  CHECK(shrunk(64, {"--parallelism.tensor_parallel_degree=4", "--parallelism.expert_parallel_degree=8",
                    "--parallelism.data_parallel_replicate_degree=4"}) ==
        "dp_replicate=2,dp_shard=2,tp=2,ep=2");
  CHECK(shrunk(8, {"--parallelism.expert_parallel_degree=8", "--parallelism.tensor_parallel_degree=2"}) ==
        "dp_shard=2,tp=2,ep=4");
  CHECK(shrunk(16, {"--parallelism.expert_parallel_degree=4", "--parallelism.tensor_parallel_degree=4",
                    "--parallelism.expert_tensor_parallel_degree=4"}) == "dp_shard=2,tp=2,ep=2,etp=2");
}

TEST_CASE("the small model of a proof has the parts of the large one") {
  const auto small = [](const std::string& file) {
    return proof_job(load_config({"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + file + ".toml"},
                                 TargetDevice::cpu))
        .model;
  };
  const auto size = [](const Model& model, const char* name) {
    return std::get<std::int64_t>(model.sizes.at(name));
  };
  const Model llama = small("llama3_70b");
  CHECK(size(llama, "n_heads") == 2 * size(llama, "n_kv_heads"));
  const Model deepseek = small("deepseek_v3_671b");
  CHECK(size(deepseek, "n_dense_layers") == 1);
  CHECK(size(deepseek, "n_layers") == 3);
  CHECK(size(deepseek, "n_expert_groups") > 1);
  CHECK(size(deepseek, "q_lora_rank") > 0);
  CHECK(size(small("deepseek_v3_16b"), "q_lora_rank") == 0);
  CHECK(std::get<bool>(small("llama3_1b").sizes.at("tie_embeddings")));
  const Model qwen = small("qwen3_235b_a22b");
  CHECK(size(qwen, "n_heads") == 2 * size(qwen, "n_kv_heads"));
  CHECK(size(qwen, "n_experts") == 24);
  CHECK(size(small("olmo2_7b"), "n_heads") == size(small("olmo2_7b"), "n_kv_heads"));
}

}  // namespace
}  // namespace rondo
