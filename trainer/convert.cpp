#include "trainer/convert.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "models/decoder.h"
#include "parallel/error.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/save.h"
#include "trainer/checkpoint/shard.h"
#include "trainer/config/sizes.h"
#include "trainer/float_dtypes.h"
#include "trainer/hugging_face/folder.h"
#include "trainer/hugging_face/folder_writer.h"

namespace rondo {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

void export_parameter(checkpoint::Reader& reader, const ParameterRule& rule, at::ScalarType dtype,
                      hugging_face::FolderWriter& writer) {
  const std::string name = "model/" + rule.name;
  const checkpoint::TensorRecord* stored = reader.manifest().find(name);
  if (stored == nullptr || stored->shape != rule.sizes)
    throw Error(ExitCode::checkpoint,
                fmt::format("the checkpoint has no tensor {} of the shape that its model has", name));
  const std::int64_t elements = element_count(rule);
  for (std::int64_t begin = 0; begin < elements; begin += kChunkElements) {
    const std::int64_t end = std::min(elements, begin + kChunkElements);
    const at::Tensor chunk = at::empty({end - begin}, float_stored_as(stored->dtype));
    reader.read(name, begin, end, bytes_of(chunk));
    writer.write(rule.hugging_face_name, static_cast<std::uint64_t>(begin), bytes_of(chunk.to(dtype)));
  }
}

}  // namespace

void export_to_hugging_face(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                            const ExportOptions& options) {
  checkpoint::Reader reader(checkpoint);
  const checkpoint::ModelFacts& facts = reader.manifest().model;
  const FieldValues sizes = sizes_from_text(facts.name, facts.sizes, checkpoint.string());
  const std::shared_ptr<const Decoder> model = make_decoder(facts.name, sizes);
  hugging_face::FolderWriter writer(
      to, {facts.name, sizes, options.dtype, options.tokens},
      hugging_face::parameters_of(model->parameters()),
      {.max_shard_bytes = options.max_shard_bytes, .tokenizer_folder = options.tokenizer_folder});
  // By name: the order of the shards, so that each of their bytes is read once.
  std::vector<const ParameterRule*> rules;
  for (const ParameterRule& rule : model->parameters()) rules.push_back(&rule);
  std::sort(rules.begin(), rules.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const ParameterRule* rule : rules) export_parameter(reader, *rule, float_named(options.dtype), writer);
  writer.finish();
}

std::filesystem::path import_from_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& root) {
  const hugging_face::Folder folder(from);
  const std::shared_ptr<const Decoder> model = make_decoder(folder.config().model, folder.config().sizes);
  folder.check(hugging_face::parameters_of(model->parameters()));
  std::vector<checkpoint::Piece> pieces;
  for (const ParameterRule& rule : model->parameters()) {
    const hugging_face::StoredTensor stored = folder.find(rule.hugging_face_name);
    const std::int64_t elements = element_count(rule);
    pieces.push_back({"model/" + rule.name, stored_name(float_in_file(stored.dtype())), rule.sizes, 0,
                      elements, stored.elements(0, static_cast<std::uint64_t>(elements))});
  }
  const std::filesystem::path temp = checkpoint::begin_save(root, 0, "import", 0);
  try {
    checkpoint::check_space(temp, checkpoint::shard_bytes(pieces), 3);
    checkpoint::Manifest manifest;
    manifest.run = "import";
    manifest.kind = checkpoint::Kind::model;
    manifest.created = checkpoint::utc_seconds();
    manifest.model = model_facts(folder.config().model, folder.config().sizes);
    manifest.add(checkpoint::write_shard(temp, 0, std::move(pieces)));
    return checkpoint::commit(root, temp, manifest);
  } catch (...) {
    checkpoint::abandon(temp);
    throw;
  }
}

}  // namespace rondo
