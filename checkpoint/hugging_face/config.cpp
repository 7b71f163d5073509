// Every field is taken from a reader that remembers what is left, so an unknown field cannot pass unseen.
// Fields that may change a number are errors, and those that cannot are warnings or on the list. All problems
// are reported together, but nothing more about a model type that is not known. Quantization is read in one
// form; unknown fields in it are refused, because they may change what the weights are.
#include "checkpoint/hugging_face/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/folder_files.h"
#include "checkpoint/hugging_face/fp8_blocks.h"
#include "models/hugging_face/model_type.h"
#include "support/error.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

// Fields that change no logit: notes of the library, how texts are generated, how training started.
constexpr std::array kHarmless = {"_attn_implementation",
                                  "_attn_implementation_autoset",
                                  "_name_or_path",
                                  "attn_implementation",
                                  "chunk_size_feed_forward",
                                  "decoder_start_token_id",
                                  "do_sample",
                                  "finetuning_task",
                                  "id2label",
                                  "initializer_range",
                                  "is_decoder",
                                  "label2id",
                                  "length_penalty",
                                  "max_length",
                                  "min_length",
                                  "num_beams",
                                  "num_labels",
                                  "output_attentions",
                                  "output_hidden_states",
                                  "prefix",
                                  "pretraining_tp",
                                  "problem_type",
                                  "repetition_penalty",
                                  "return_dict",
                                  "sep_token_id",
                                  "task_specific_params",
                                  "temperature",
                                  "tokenizer_class",
                                  "top_k",
                                  "top_p",
                                  "torchscript",
                                  "transformers_version",
                                  "typical_p",
                                  "unk_token_id",
                                  "use_bfloat16",
                                  "use_cache"};

bool is_id(const Json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() < std::uint64_t{1} << 32;
}

TokenIds read_token_ids(FieldsReader& reader) {
  TokenIds ids;
  for (auto [name, id] : {std::pair("bos_token_id", &ids.bos), std::pair("pad_token_id", &ids.pad)}) {
    const Json* value = reader.take(name);
    if (value == nullptr || *value == -1) continue;  // -1: some files' word for none
    if (is_id(*value))
      *id = value->get<std::int64_t>();
    else
      reader.fail(name, *value, "must be a token id");
  }
  const Json* eos = reader.take("eos_token_id");
  if (eos == nullptr || *eos == -1) return ids;
  for (const Json& value : eos->is_array() ? *eos : Json::array({*eos})) {
    if (is_id(value))
      ids.eos.push_back(value.get<std::int64_t>());
    else
      reader.fail("eos_token_id", *eos, "must be a token id or a list of them");
  }
  return ids;
}

std::string read_dtype(FieldsReader& reader) {
  const Json* older = reader.take("torch_dtype");
  const Json* dtype = reader.take("dtype");
  if (dtype == nullptr) dtype = older;
  if (dtype == nullptr) return "";
  for (const char* known : {"float32", "float16", "bfloat16"})
    if (*dtype == known) return known;
  reader.fail("dtype", *dtype, "not in this version; float32, float16 and bfloat16 are");
  return "";
}

const ModelSpec* read_model_type(FieldsReader& reader) {
  const Json* type = reader.require("model_type");
  const Json* architectures = reader.take("architectures");
  if (type == nullptr) return nullptr;
  std::vector<std::string> names;
  for (const ModelSpec& model : model_specs()) {
    const ModelType& known = *model.hugging_face_type;
    names.push_back(fmt::format("\"{}\"", known.name));
    const auto& others = known.other_names;
    if (*type != known.name && std::find(others.begin(), others.end(), *type) == others.end()) continue;
    if (architectures != nullptr && *architectures != Json::array({known.architecture}))
      reader.fail("architectures", *architectures,
                  fmt::format("not in this version; the only value is [\"{}\"]", known.architecture));
    return &model;
  }
  reader.fail("model_type", *type, fmt::format("not in this version; {} are", fmt::join(names, ", ")));
  return nullptr;
}

// Of a model of texts and other things, the text model: its own fields, and those of the whole beside them.
Json text_model_of(Json object, FieldsReader& problems, ReadConfig& read) {
  for (const ModelSpec& model : model_specs()) {
    const ModelType& type = *model.hugging_face_type;
    const Multimodal& whole = type.multimodal;
    if (whole.name == nullptr || object.value("model_type", Json()) != whole.name) continue;
    const Json* text = problems.require("text_config");
    if (text != nullptr && !text->is_object()) problems.fail("text_config", *text, "must be an object");
    problems.take_only("architectures", Json::array({whole.architecture}), "another architecture is");
    Json fields = text != nullptr && text->is_object() ? *text : Json::object();
    fields.emplace("model_type", type.name);
    for (const char* other : whole.fields) object.erase(other);
    for (const char* replaced : {"text_config", "architectures", "model_type"}) object.erase(replaced);
    object.update(fields);
    read.prefix = whole.prefix;
    read.passed_over.assign(whole.others.begin(), whole.others.end());
    return object;
  }
  return object;
}

void read_fp8(FieldsReader& quantization) {
  const Json block = Json::array({kBlock, kBlock});
  const Json* size = quantization.require("weight_block_size");
  if (size != nullptr) quantization.take_only("weight_block_size", block, "blocks of another size are");
  quantization.take_only("fmt", "e4m3", "another format of 8 bits is");
  quantization.take_only("expert_dtype", "fp8", "another format of experts is");
  quantization.take_only("activation_scheme", "dynamic", "a fixed scale of activations is");
}

// What weights are quantized in. Fields of another form are only noise.
Quantization read_quantization(FieldsReader& reader) {
  const char* name = "quantization_config";
  const Json* object = reader.take(name);
  if (object == nullptr) return Quantization::none;
  FieldsReader inner = reader.inner(name, *object);
  if (!object->is_object()) {
    reader.fail(name, *object, "must be an object");
    return Quantization::none;
  }
  const Json* method = inner.require("quant_method");
  if (method == nullptr) return Quantization::none;
  const bool fp8 = *method == "fp8";
  if (!fp8 && *method != "mxfp4") {
    inner.fail("quant_method", *method, "not in this version; \"fp8\" and \"mxfp4\" are");
    return Quantization::none;
  }
  if (fp8) read_fp8(inner);
  // How scales were chosen, what has none, and what transformers does with them: the files hold the
  // numbers.
  for (const char* known :
       {"scale_fmt", "modules_to_not_convert", "modules_to_convert", "ignored_layers", "dequantize"})
    inner.take(known);
  for (const std::string& unknown : inner.unknown())
    inner.fail(unknown, object->at(unknown), "not known here, and may change what the weights are");
  return fp8 ? Quantization::fp8 : Quantization::mxfp4;
}

// Layers behind the last that predict tokens further ahead are no part of the model here.
void pass_over_layers_ahead(FieldsReader& reader, const std::string& file, ReadConfig& read) {
  const char* name = "num_nextn_predict_layers";
  constexpr std::int64_t kMost = 1000;
  const Json* ahead = reader.take(name);
  const auto layers = read.config.sizes.find("n_layers");
  if (ahead == nullptr || *ahead == 0 || layers == read.config.sizes.end()) return;
  if (!ahead->is_number_unsigned() || *ahead > kMost)
    return reader.fail(name, *ahead, "must be a number of layers");
  for (std::int64_t i = 0; i < ahead->get<std::int64_t>(); ++i)
    read.passed_over.push_back(fmt::format("model.layers.{}.", std::get<std::int64_t>(layers->second) + i));
  read.warnings.push_back(fmt::format(
      "{}: {} = {}: layers that predict tokens further ahead are not in this version, and are passed over",
      file, name, shown(*ahead)));
}

}  // namespace

ReadConfig parse_config(std::string_view text, const std::string& file) {
  const Json whole = parse_object(text, file);
  std::vector<std::string> problems;
  FieldsReader of_whole(whole, problems);
  ReadConfig read;
  const Json object = text_model_of(whole, of_whole, read);
  FieldsReader reader(object, problems);
  const ModelSpec* model = read_model_type(reader);
  // The other fields of another model would only be noise.
  if (model != nullptr) {
    read.config.model = model->name;
    read.config.sizes = read_sizes(*model, reader);
    read.config.dtype = read_dtype(reader);
    read.config.tokens = read_token_ids(reader);
    read.quantization = read_quantization(reader);
    pass_over_layers_ahead(reader, file, read);
    reader.take_only("compression_config", nullptr, "compressed weights are");
  }
  if (!problems.empty())
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: this model cannot be taken:\n  {}", file, fmt::join(problems, "\n  ")));
  for (const char* name : kHarmless) reader.take(name);
  for (const std::string& name : reader.unknown())
    read.warnings.push_back(
        fmt::format("{}: {} = {} is not known here and changes nothing", file, name, shown(object.at(name))));
  return read;
}

ReadConfig read_config(const std::filesystem::path& file) {
  return parse_config(read_small_file(file), file.string());
}

std::string config_json(const ModelConfig& config) {
  const ModelSpec* model = find_model_spec(config.model);
  if (model == nullptr) {
    std::vector<std::string> names;
    for (const ModelSpec& known : model_specs()) names.push_back(known.name);
    throw Error(ExitCode::checkpoint,
                fmt::format("model.name = \"{}\" has no Hugging Face form in this version; {} have",
                            config.model, fmt::join(names, ", ")));
  }
  Json object = write_sizes(*model, config.sizes);
  if (!config.dtype.empty()) object["torch_dtype"] = config.dtype;
  object.update(Json::parse(generation_config_json(config.tokens)));
  for (const char* name : {"bos_token_id", "eos_token_id"})
    if (!object.contains(name)) object[name] = nullptr;
  object["use_cache"] = true;
  return object.dump(2) + "\n";
}

std::string why_not_exported(const std::string& model, const FieldValues& sizes) {
  try {
    config_json({model, sizes, "", {}});
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string generation_config_json(const TokenIds& tokens) {
  Json object = Json::object();
  if (tokens.bos) object["bos_token_id"] = *tokens.bos;
  if (tokens.pad) object["pad_token_id"] = *tokens.pad;
  if (tokens.eos.size() == 1) object["eos_token_id"] = tokens.eos[0];
  if (tokens.eos.size() > 1) object["eos_token_id"] = tokens.eos;
  return object.dump(2) + "\n";
}

}  // namespace rondo::hugging_face
