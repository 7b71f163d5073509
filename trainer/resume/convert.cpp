// Both directions visit the tensors in the order of their names, which is the order of a shard, so
// each byte is read once. An export reads and converts a million elements at a time. An import
// collects tensors up to the size of a file. Parts of one parameter with different dtypes are
// stored in the model's dtype.
#include "trainer/resume/convert.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/hugging_face/folder_writer.h"
#include "checkpoint/reader.h"
#include "checkpoint/save.h"
#include "checkpoint/shard.h"
#include "config/sizes.h"
#include "datasets/tokenizer/tokenizer.h"
#include "models/parts/decoder.h"
#include "support/error.h"
#include "support/log.h"
#include "support/text/utc_time.h"
#include "trainer/resume/load_weights.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {
namespace {

constexpr std::int64_t kConvertElements = std::int64_t{1} << 20;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// A tensor of a checkpoint, and the tensors that it is exported to, in order.
struct Exported {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<hugging_face::Parameter> to;
};

// Returns the tensors sorted by name, the order of the shards, so that each byte is read once.
std::vector<Exported> tensors_of(const Decoder& model) {
  std::vector<Exported> tensors;
  for (const ParameterRule& rule : model.parameters())
    tensors.push_back(
        {"model/" + rule.name, rule.sizes, hugging_face::stacked(rule.hugging_face_name, rule.sizes)});
  for (const ExpertBias& bias : model.expert_biases())
    tensors.push_back(
        {"model/" + bias.name, {bias.experts}, {{bias.hugging_face_name, {bias.experts}, true}}});
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

void export_tensor(checkpoint::Reader& reader, const Exported& tensor, at::ScalarType dtype,
                   hugging_face::FolderWriter& writer) {
  const checkpoint::TensorRecord& stored = check_stored(reader.manifest(), tensor.name, tensor.sizes);
  std::int64_t offset = 0;
  for (const hugging_face::Parameter& to : tensor.to) {
    const std::int64_t elements = c10::multiply_integers(to.shape);
    for (std::int64_t begin = 0; begin < elements; begin += kConvertElements) {
      const std::int64_t end = std::min(elements, begin + kConvertElements);
      const at::Tensor chunk = at::empty({end - begin}, float_stored_as(stored.dtype));
      reader.read(tensor.name, offset + begin, offset + end, bytes_of(chunk));
      writer.write(to.name, static_cast<std::uint64_t>(begin),
                   bytes_of(chunk.to(to.always_fp32 ? at::kFloat : dtype)));
    }
    offset += elements;
  }
}

// Returns the dtype in which a checkpoint stores the tensors of a folder: their own. If they are
// quantized or differ, the model's.
at::ScalarType checkpoint_dtype(const Exported& tensor, const hugging_face::Folder& folder) {
  const hugging_face::StoredTensor first = folder.find(tensor.to[0].name);
  for (const hugging_face::Parameter& from : tensor.to) {
    const hugging_face::StoredTensor stored = folder.find(from.name);
    if (stored.scales == nullptr && stored.dtype() == first.dtype()) continue;
    const std::string& model_dtype = folder.config().dtype;
    return model_dtype.empty() ? at::kFloat : float_named(value_named<Precision>("torch_dtype", model_dtype));
  }
  return float_in_file(first.dtype());
}

// Writes the tensors of a folder as files of a checkpoint; the tensors in memory become one file.
class Import {
 public:
  Import(const hugging_face::Folder& folder, std::filesystem::path temp, checkpoint::Manifest& manifest)
      : folder_(folder), temp_(std::move(temp)), manifest_(manifest) {}

  void add(const Exported& tensor, std::int64_t file_bytes) {
    const at::ScalarType dtype = checkpoint_dtype(tensor, folder_);
    std::int64_t offset = 0;
    for (const hugging_face::Parameter& from : tensor.to) {
      const std::int64_t elements = c10::multiply_integers(from.shape);
      pieces_.push_back({tensor.name, stored_name(dtype), tensor.sizes, offset, offset + elements,
                         bytes_as(dtype, folder_.find(from.name), elements)});
      offset += elements;
      if (in_memory_ >= file_bytes) write();
    }
  }

  void write() {
    if (pieces_.empty()) return;
    manifest_.add(checkpoint::write_shard(temp_, files_++, std::exchange(pieces_, {})));
    tensors_.clear();
    in_memory_ = 0;
  }

 private:
  std::span<const std::byte> bytes_as(at::ScalarType dtype, const hugging_face::StoredTensor& stored,
                                      std::int64_t elements) {
    tensors_.push_back(at::empty({elements}, dtype));
    load_weights(tensors_.back(), stored, 0, elements);
    in_memory_ += static_cast<std::int64_t>(tensors_.back().nbytes());
    return bytes_of(tensors_.back());
  }

  const hugging_face::Folder& folder_;
  std::filesystem::path temp_;
  checkpoint::Manifest& manifest_;
  std::vector<checkpoint::Piece> pieces_;
  std::vector<at::Tensor> tensors_;
  std::int64_t in_memory_ = 0;
  int files_ = 0;
};

// Returns an upper bound of the bytes of all files, with every part aligned.
std::int64_t import_bytes(const std::vector<Exported>& tensors, const hugging_face::Folder& folder) {
  std::int64_t bytes = 0;
  for (const Exported& tensor : tensors)
    bytes += c10::multiply_integers(tensor.sizes) *
                 static_cast<std::int64_t>(c10::elementSize(checkpoint_dtype(tensor, folder))) +
             std::ssize(tensor.to) * checkpoint::kAlignment;
  return bytes;
}

}  // namespace

void export_to_hugging_face(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                            const ExportOptions& options) {
  checkpoint::Reader reader(checkpoint);
  checkpoint::check_sizes(checkpoint, reader.manifest());  // before hours of writing
  const checkpoint::ModelFacts& facts = reader.manifest().model;
  const FieldValues sizes = sizes_from_text(facts.name, facts.sizes, checkpoint.string());
  const std::shared_ptr<const Decoder> model = make_decoder(facts.name, sizes);
  hugging_face::TokenIds tokens;
  if (!options.tokenizer.empty()) {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
    check_vocabulary(*tokenizer, model->vocabulary());
    tokens.bos = tokenizer->bos();
    tokens.eos = {tokenizer->eos()};
  }
  hugging_face::FolderWriter writer(to, {facts.name, sizes, std::string(name_of(options.dtype)), tokens},
                                    hugging_face::parameters_of(*model),
                                    {.max_shard_bytes = options.max_shard_bytes,
                                     .tokenizer = options.tokenizer == "bytes" ? "" : options.tokenizer});
  for (const Exported& tensor : tensors_of(*model))
    export_tensor(reader, tensor, float_named(options.dtype), writer);
  writer.finish();
}

std::filesystem::path import_from_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& root, std::int64_t file_bytes) {
  const hugging_face::Folder folder(from);
  for (const std::string& warning : folder.warnings()) log_warning(warning);
  const std::shared_ptr<const Decoder> model = make_decoder(folder.config().model, folder.config().sizes);
  folder.check(hugging_face::parameters_of(*model));
  const std::vector<Exported> tensors = tensors_of(*model);
  const std::int64_t bytes = import_bytes(tensors, folder);
  const FolderLock lock = checkpoint::lock_root(root);
  const std::filesystem::path temp = checkpoint::begin_save(root, 0, "import", 0);
  try {
    checkpoint::check_space(temp, bytes, 3 + bytes / file_bytes);
    checkpoint::Manifest manifest;
    manifest.run = "import";
    manifest.kind = checkpoint::Kind::model;
    manifest.created = utc_now();
    manifest.model = model_facts(folder.config().model, folder.config().sizes);
    Import import(folder, temp, manifest);
    for (const Exported& tensor : tensors) import.add(tensor, file_bytes);
    import.write();
    return checkpoint::commit(root, temp, manifest);
  } catch (...) {
    checkpoint::abandon(temp);
    throw;
  }
}

}  // namespace rondo
