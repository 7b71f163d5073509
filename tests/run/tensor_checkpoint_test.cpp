// Tests checkpoints of tensor parallelism: any layout reads the checkpoint of any other.
#include "tests/run/checkpoints.h"
#include "tests/run/ladder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

struct Layout {
  int shard, tensor;
  int ranks() const { return shard * tensor; }
  std::string name() const { return fmt::format("fsdp {} x tp {}", shard, tensor); }
  Words flags() const {
    return Grid{1, shard}.flags() + Words{fmt::format("--parallelism.tensor_parallel_degree={}", tensor)};
  }
};

const Layout kAlone{1, 1}, kSharded{2, 1}, kTensor{1, 2}, kBoth{2, 2};

const Words kSavesParts =
    Words{"--checkpoint.enable=true",      "--checkpoint.interval=4",        "--lr_scheduler.total_steps=20",
          "--training.local_batch_size=2", "--training.global_batch_size=4", "--validation.enable=false"};
std::string weights_of(const fs::path& checkpoint, const fs::path& hugging_face) {
  must_end_well({"convert", checkpoint.string(), hugging_face.string()});
  return text_of(hugging_face / "model.safetensors");
}

// Checks that a manifest records the cut of the columns of a matrix.
void check_cut(const fs::path& folder, const std::string& tensor, checkpoint::ElementOrder order) {
  const checkpoint::Reader reader(folder);
  const auto* record = reader.manifest().find(tensor);
  REQUIRE(record != nullptr);
  CHECK(record->order == order);
}

TEST_CASE("tensor-parallel layouts start from the weights of one rank, bit for bit, and export the same") {
  const Place place;
  const Words seed = Words{"--checkpoint.enable=true", "--checkpoint.create_seed_checkpoint=true"};
  place.play(1, "one", seed);
  const std::string exported = weights_of(place / "one/checkpoint/step-0", place / "one hf");
  REQUIRE(exported.size() > 100'000);
  for (const Layout& layout : {kTensor, kBoth}) {
    INFO(layout.name());
    place.play(layout.ranks(), layout.name(), layout.flags() + seed);
    const fs::path saved = place / layout.name() / "checkpoint/step-0";
    CHECK(check_same_tensors(place / "one/checkpoint/step-0", saved) == 21);
    check_cut(saved, "model/layers.0.attention.wo.weight", {1, 2});
    check_cut(saved, "model/layers.0.attention.wq.weight", {});
    check_cut(saved, "model/tok_embeddings.weight", {});
    CHECK((weights_of(saved, place / (layout.name() + " hf")) == exported));
  }
}

TEST_CASE("any layout restores every bit of weights and optimizer of a tensor-parallel one, and back") {
  const Place place;
  place.play(2, "first", kTensor.flags() + kSavesParts + steps(4));
  fs::path before = place / "first/checkpoint/step-4";
  int hop = 0;
  for (const Layout& layout : {kSharded, kTensor, kAlone, kBoth, kTensor, kBoth, kSharded}) {
    INFO(before << " read by " << layout.name());
    const std::string name = fmt::format("hop {}", ++hop);
    place.play(layout.ranks(), name,
               layout.flags() + kSavesParts + steps(4) +
                   Words{"--checkpoint.initial_load_model_only=false",
                         "--checkpoint.initial_load_path=" + before.string()});
    const fs::path after = place / name / "checkpoint/step-4";
    CHECK(check_same_tensors(before, after) > 21);
    before = after;
  }
}

TEST_CASE("a run resumes a tensor-parallel run, and the other way round") {
  const Place place;
  const auto run = [&](const Layout& layout, const std::string& name, int count) {
    place.play(layout.ranks(), name, layout.flags() + kSavesParts + steps(count));
  };
  run(kTensor, "straight", 12);
  run(kTensor, "stopped", 4);
  run(kTensor, "stopped", 12);
  check_same_tensors(place / "straight/checkpoint/step-12", place / "stopped/checkpoint/step-12");
  run(kTensor, "changed", 4);
  run(kBoth, "changed", 6);
  run(kSharded, "changed", 8);
  run(kTensor, "changed", 10);
  run(kAlone, "changed", 12);
  const auto straight = place.metrics("straight"), changed = place.metrics("changed");
  REQUIRE(changed.size() == 12);
  for (std::size_t step = 0; step < changed.size(); ++step) {
    INFO(step + 1);
    CHECK(changed[step]["tokens_seen"] == straight[step]["tokens_seen"]);
    const double expected = straight[step]["loss"];
    CHECK(std::abs(changed[step]["loss"].get<double>() - expected) < 2e-5 * expected);
  }
}

}  // namespace
}  // namespace rondo
