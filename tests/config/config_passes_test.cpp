// What `rondo config check` finds of passes and buckets before anything is compiled.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/derived/layout.h"
#include "config/load.h"
#include "config/schema/bucket_patterns.h"
#include "support/error.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::message_of;

TEST_CASE("unknown passes, passes of another device and wrong orders are refused, all at once") {
  const std::string message = message_of(
      "compile.passes = [\"canonicalise\", \"reinplace\", \"fold_casts\", \"cudagraph\"]\n"
      "compile.disable_passes = [\"nothing\"]\ntraining.steps = 0\njob.device = \"cpu\"\n");
  for (const char* problem :
       {"the configuration has 5 problems", "training.steps = 0: must be",
        "unknown pass \"canonicalise\" (did you mean canonicalize?)",
        "fold_casts must come first, before reinplace", "cudagraph needs device cuda, and the run's is cpu",
        "compile.disable_passes: unknown pass \"nothing\""})
    CHECK_THAT(message, ContainsSubstring(problem));
}

TEST_CASE("asynchronous tensor parallelism needs ranks that share layers and a recorded graph") {
  const std::string key = "parallelism.enable_async_tensor_parallel";
  const std::string on = key + " = true\n", shared = "parallelism.tensor_parallel_degree = 2\n";
  CHECK(message_of(on + shared).empty());
  CHECK(
      message_of(on + "parallelism.tensor_parallel_degree = -1\nparallelism.data_parallel_shard_degree = 1\n")
          .empty());
  CHECK(message_of(on + shared + "compile.tensor_parallel_pieces = 4\n").empty());
  CHECK_THAT(message_of(on), ContainsSubstring(key + " = true: needs ranks that share layers: set "
                                                     "parallelism.tensor_parallel_degree to at least 2"));
  CHECK_THAT(message_of(on + shared + "compile.enable = false\n"),
             ContainsSubstring("needs a recorded graph: set compile.enable = true"));
  CHECK_THAT(message_of(on + shared, {"--compile.tensor_parallel_pieces=1"}),
             ContainsSubstring("must be at least 2, or 0 for the number that is planned to be the fastest"));
  CHECK_THAT(message_of("compile.tensor_parallel_pieces = 2\n"),
             ContainsSubstring("compile.tensor_parallel_pieces = 2: needs " + key + " = true"));
}

TEST_CASE("an update in the backward is refused where it would not give the step's numbers") {
  const std::string key = "optimizer.early_step_in_backward";
  const std::string on = key + " = true\n", early = on + "training.max_norm = inf\n";
  CHECK(message_of(early).empty());
  CHECK_THAT(message_of(on),
             ContainsSubstring(key + " = true: the early step cannot clip, because the norm is known after "
                                     "the backward; set training.max_norm = inf"));
  CHECK_THAT(message_of(early + "compile.enable = false\n"), ContainsSubstring("needs a recorded graph"));
  CHECK_THAT(message_of(early + "parallelism.pipeline_parallel_degree = 2\n"),
             ContainsSubstring("a pipeline updates parameters after all its microbatches"));
  CHECK_THAT(message_of(early + "parallelism.data_parallel_shard_degree = 2\ntraining.local_batch_size = 2\n"
                                "training.global_batch_size = 8\n"),
             ContainsSubstring("gradients are summed over 2 microbatches and live until the last"));
  const std::string bounded = "parallelism.expert_capacity_factor = 1.5\nmodel.name = \"deepseek_v3\"\n";
  CHECK_THAT(message_of(early + bounded), ContainsSubstring("cannot be undone when experts overflow"));
  CHECK(message_of(early + bounded + "parallelism.expert_overflow = \"drop\"\n").empty());
  const auto late = rondo::load_config({"--training.max_norm=inf", "--" + key + "=true",
                                        "--training.local_batch_size=2", "--training.global_batch_size=8"});
  CHECK(resolve_layout(late, 4).microbatches == 1);
  CHECK_THROWS_AS(resolve_layout(late, 2), rondo::Error);
}

TEST_CASE("state in host memory is refused where no pass would move it") {
  const std::string key = "training.enable_cpu_offload", on = key + " = true\n";
  CHECK(message_of(on).empty());
  CHECK(message_of(on + "optimizer.early_step_in_backward = true\ntraining.max_norm = inf\n").empty());
  CHECK_THAT(message_of(on + "compile.enable = false\n"),
             ContainsSubstring(key + " = true: needs a recorded graph: set compile.enable = true"));
  for (const char* schedule :
       {"parallelism.pipeline_parallel_degree = 2\n", "parallelism.overlapped_microbatches = 2\n",
        "compile.ep_overlap.enabled = true\n"})
    CHECK_THAT(message_of(on + schedule),
               ContainsSubstring("would reload its parameters for each microbatch"));
  for (const char* passes :
       {"compile.disable_passes = [\"state_on_host\"]\n", "compile.passes = [\"canonicalize\"]\n"})
    CHECK_THAT(message_of(on + passes), ContainsSubstring("needs the pass state_on_host: name it in"));
}

TEST_CASE("the kernel of attention is chosen on GPUs, and cuDNN's does not repeat its bits") {
  CHECK(message_of("compile.attention = \"flash\"\n", {"--job.device=cuda"}).empty());
  CHECK(message_of("", {"--compile.attention=flash", "--job.device=cpu"}) ==
        "command line: --compile.attention=flash: is for GPUs, but the run is on the CPU; remove it");
  CHECK(message_of("compile.attention = \"cudnn\"\n", {"--debug.deterministic=true", "--job.device=cuda"}) ==
        "x.toml:1:9: compile.attention = \"cudnn\": conflicts with debug.deterministic = true, because its "
        "backward adds in any order; set \"flash\"");
}

TEST_CASE("passes are asked of the device that the configuration names, and not of an eager run") {
  const std::string graphs = "compile.passes = [\"cudagraph\"]\n";
  CHECK(message_of(graphs + "job.device = \"cuda\"\n").empty());
  CHECK_FALSE(message_of(graphs + "job.device = \"cpu\"\n").empty());
  CHECK(message_of(graphs + "job.device = \"cpu\"\ncompile.enable = false\n").empty());
  CHECK_THAT(
      message_of("", {"--compile.passes=fuse_addmm"}),
      ContainsSubstring("command line: --compile.passes=fuse_addmm: compile.passes: fuse_addmm rounds"));
}

TEST_CASE("a bucket's names are parameters, modules, patterns, and ranges of numbers") {
  using Texts = std::vector<std::string>;
  const auto names = [](const Texts& entries) {
    Texts found;
    for (const rondo::Bucket& bucket : rondo::read_buckets(entries)) found.push_back(bucket.name);
    return found;
  };
  CHECK(names({"tok_embeddings", "layers.[0-2]", "norm+output"}) ==
        Texts{"tok_embeddings", "layers.0", "layers.1", "layers.2", "norm+output"});
  CHECK(names({"layers.[3-4].attention|layers.[3-4].attention_norm"}) ==
        Texts{"layers.3.attention|layers.3.attention_norm", "layers.4.attention|layers.4.attention_norm"});
  const auto bucket = [](const char* parameter) {
    return rondo::bucket_of(rondo::read_buckets({"layers.[0-1]", "norm+output", "layers.*.wq"}), parameter,
                            "own");
  };
  CHECK(bucket("layers.1.attention.wq.weight") == "layers.1");
  CHECK(bucket("layers.10.attention.wq.weight") == "layers.*.wq");
  CHECK(bucket("layers.10.attention.wk.weight") == "own");
  CHECK(bucket("output.weight") == "norm+output");
}

TEST_CASE("a bucket that names no parameter of the model is refused") {
  const auto buckets = [](const std::string& list) {
    return message_of("compile.fsdp_buckets = " + list + "\n");
  };
  CHECK(buckets(R"(["tok_embeddings", "layers.[0-5]", "norm+output"])").empty());
  CHECK_THAT(buckets(R"(["layers.[4-6]"])"),
             ContainsSubstring("\"layers.6\" matches no parameter of the model"));
  CHECK_THAT(
      buckets(R"(["norm+head"])"),
      ContainsSubstring(
          "\"head\" matches no parameter of the model, which has tok_embeddings.weight to output.weight"));
  CHECK_THAT(buckets(R"(["layers.[5-0]"])"), ContainsSubstring("must hold ranges like layers.[0-5]"));
  CHECK_THAT(buckets(R"(["layers.[0-1]+layers.[2-3]"])"),
             ContainsSubstring("must have at most one range per entry"));
}
