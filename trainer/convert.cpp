#include "trainer/convert.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
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

// A tensor of a checkpoint, and the tensors that it becomes one after the other.
struct Exported {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<hugging_face::Parameter> to;
};

// Sorted by name: the order of the shards, so that each of their bytes is read once.
std::vector<Exported> tensors_of(const Decoder& model) {
  std::vector<Exported> all;
  for (const ParameterRule& rule : model.parameters())
    all.push_back(
        {"model/" + rule.name, rule.sizes, hugging_face::stacked(rule.hugging_face_name, rule.sizes)});
  for (const ExpertBias& bias : model.expert_biases())
    all.push_back({"model/" + bias.name, {bias.experts}, {{bias.hugging_face_name, {bias.experts}, true}}});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

void export_tensor(checkpoint::Reader& reader, const Exported& tensor, at::ScalarType dtype,
                   hugging_face::FolderWriter& writer) {
  const checkpoint::TensorRecord* stored = reader.manifest().find(tensor.name);
  if (stored == nullptr || stored->shape != tensor.sizes)
    throw Error(ExitCode::checkpoint,
                fmt::format("the checkpoint has no tensor {} of the shape that its model has", tensor.name));
  std::int64_t offset = 0;
  for (const hugging_face::Parameter& to : tensor.to) {
    const std::int64_t elements = c10::multiply_integers(to.shape);
    for (std::int64_t begin = 0; begin < elements; begin += kChunkElements) {
      const std::int64_t end = std::min(elements, begin + kChunkElements);
      const at::Tensor chunk = at::empty({end - begin}, float_stored_as(stored->dtype));
      reader.read(tensor.name, offset + begin, offset + end, bytes_of(chunk));
      writer.write(to.name, static_cast<std::uint64_t>(begin),
                   bytes_of(chunk.to(to.always_fp32 ? at::kFloat : dtype)));
    }
    offset += elements;
  }
}

// The pieces of a checkpoint that hold what the folder has.
std::vector<checkpoint::Piece> pieces_of(const Decoder& model, const hugging_face::Folder& folder) {
  std::vector<checkpoint::Piece> pieces;
  for (const Exported& tensor : tensors_of(model)) {
    std::int64_t offset = 0;
    for (const hugging_face::Parameter& from : tensor.to) {
      const hugging_face::StoredTensor stored = folder.find(from.name);
      const std::int64_t elements = c10::multiply_integers(from.shape);
      pieces.push_back({tensor.name, stored_name(float_in_file(stored.dtype())), tensor.sizes, offset,
                        offset + elements, stored.elements(0, static_cast<std::uint64_t>(elements))});
      offset += elements;
    }
  }
  return pieces;
}

}  // namespace

void export_to_hugging_face(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                            const ExportOptions& options) {
  checkpoint::Reader reader(checkpoint);
  const checkpoint::ModelFacts& facts = reader.manifest().model;
  const FieldValues sizes = sizes_from_text(facts.name, facts.sizes, checkpoint.string());
  const std::shared_ptr<const Decoder> model = make_decoder(facts.name, sizes);
  hugging_face::FolderWriter writer(
      to, {facts.name, sizes, options.dtype, options.tokens}, hugging_face::parameters_of(*model),
      {.max_shard_bytes = options.max_shard_bytes, .tokenizer_folder = options.tokenizer_folder});
  for (const Exported& tensor : tensors_of(*model))
    export_tensor(reader, tensor, float_named(options.dtype), writer);
  writer.finish();
}

std::filesystem::path import_from_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& root) {
  const hugging_face::Folder folder(from);
  const std::shared_ptr<const Decoder> model = make_decoder(folder.config().model, folder.config().sizes);
  folder.check(hugging_face::parameters_of(*model));
  std::vector<checkpoint::Piece> pieces = pieces_of(*model, folder);
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
