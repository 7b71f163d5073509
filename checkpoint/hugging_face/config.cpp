// Takes every field from a reader that tracks the remaining ones, so no unknown field goes
// unnoticed. Fields that may change a number are errors. Fields that cannot are warnings or on the
// list. All problems are reported together, but only one for an unknown model type. Quantization is
// read in its supported forms. Unknown fields of it are refused, because they may change
// the weights.
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
#include "support/files/hub_advice.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

// Fields that change no logit: notes of the library, settings of generation, initialization
// of training.
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

std::int64_t id_of(const JsonView& value) {
  const auto id = whole_number(value.raw(), 0, UINT32_MAX);
  if (!id) value.refuse("must be a token id");
  return id.value_or(0);
}

TokenIds read_token_ids(FieldsReader& reader) {
  TokenIds ids;
  for (auto [name, id] : {std::pair("bos_token_id", &ids.bos), std::pair("pad_token_id", &ids.pad)}) {
    const auto value = reader.take(name);
    if (!value || value->raw() == -1) continue;  // -1: some files' word for none
    *id = id_of(*value);
  }
  const auto eos = reader.take("eos_token_id");
  if (!eos || eos->raw() == -1) return ids;
  for (const JsonView& value : eos->raw().is_array() ? eos->items() : std::vector{*eos})
    ids.eos.push_back(id_of(value));
  return ids;
}

std::string read_dtype(FieldsReader& reader) {
  const auto older = reader.take("torch_dtype"), newer = reader.take("dtype");
  const auto& dtype = newer ? newer : older;
  if (!dtype) return "";
  for (const char* known : {"float32", "float16", "bfloat16"})
    if (dtype->raw() == known) return known;
  dtype->refuse("not in this version; float32, float16 and bfloat16 are");
  return "";
}

const ModelSpec* read_model_type(FieldsReader& reader) {
  const auto type = reader.require("model_type"), architectures = reader.take("architectures");
  if (!type) return nullptr;
  std::vector<std::string> names;
  for (const ModelSpec& model : model_specs()) {
    const ModelType& known = *model.hugging_face_type;
    names.push_back(fmt::format("\"{}\"", known.name));
    const auto& others = known.other_names;
    if (type->raw() != known.name && std::find(others.begin(), others.end(), type->raw()) == others.end())
      continue;
    if (architectures && architectures->raw() != Json::array({known.architecture}))
      architectures->refuse(
          fmt::format("not in this version; the only value is [\"{}\"]", known.architecture));
    return &model;
  }
  type->refuse(fmt::format("not in this version; {} are", fmt::join(names, ", ")));
  return nullptr;
}

// Returns the text model of a multimodal model: its own fields, and those of the whole model beside
// them.
Json text_model_of(Json object, FieldsReader whole_reader, ReadConfig& read) {
  for (const ModelSpec& model : model_specs()) {
    const ModelType& type = *model.hugging_face_type;
    const Multimodal& whole = type.multimodal;
    if (whole.name == nullptr || object.value("model_type", Json()) != whole.name) continue;
    const auto text = whole_reader.require("text_config");
    whole_reader.take_only("architectures", Json::array({whole.architecture}), "another architecture is");
    Json fields = text ? text->object() : Json::object();
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
  if (quantization.require("weight_block_size"))
    quantization.take_only("weight_block_size", block, "blocks of another size are");
  quantization.take_only("fmt", "e4m3", "another format of 8 bits is");
  quantization.take_only("expert_dtype", "fp8", "another format of experts is");
  quantization.take_only("activation_scheme", "dynamic", "a fixed scale of activations is");
}

// Returns the format of quantized weights. Fields of an unsupported format are not reported.
Quantization read_quantization(FieldsReader& reader) {
  const auto object = reader.take("quantization_config");
  if (!object) return Quantization::none;
  if (!object->raw().is_object()) {
    object->refuse("must be an object");
    return Quantization::none;
  }
  FieldsReader inner(*object);
  const auto method = inner.require("quant_method");
  if (!method) return Quantization::none;
  const bool fp8 = method->raw() == "fp8";
  if (!fp8 && method->raw() != "mxfp4") {
    method->refuse("not in this version; \"fp8\" and \"mxfp4\" are");
    return Quantization::none;
  }
  if (fp8) read_fp8(inner);
  // These say how scales were chosen, which matrices have none, and what transformers does with
  // them. None of them changes the stored numbers.
  for (const char* known :
       {"scale_fmt", "modules_to_not_convert", "modules_to_convert", "ignored_layers", "dequantize"})
    inner.take(known);
  for (const JsonView& unknown : inner.unknown())
    unknown.refuse("not known here, and may change what the weights are");
  return fp8 ? Quantization::fp8 : Quantization::mxfp4;
}

// Layers behind the last that predict tokens further ahead are no part of the model here.
void skip_prediction_layers(FieldsReader& reader, const std::string& file, ReadConfig& read) {
  constexpr std::int64_t kMax = 1000;
  const auto ahead = reader.take("num_nextn_predict_layers");
  const auto layers = read.config.sizes.find("n_layers");
  if (!ahead || ahead->raw() == 0 || layers == read.config.sizes.end()) return;
  const auto count = whole_number(ahead->raw(), 0, kMax);
  if (!count) return ahead->refuse("must be a number of layers");
  for (std::int64_t i = 0; i < *count; ++i)
    read.passed_over.push_back(fmt::format("model.layers.{}.", std::get<std::int64_t>(layers->second) + i));
  read.warnings.push_back(fmt::format(
      "{}: {} = {}: layers that predict tokens further ahead are not in this version, and are passed over",
      file, ahead->place(), *count));
}

}  // namespace

ReadConfig parse_config(std::string_view text, const std::string& file) {
  const Json whole = parse_object(text, file);
  std::vector<std::string> problems;
  const JsonSource source{.problems = &problems};  // the file is named once, above all of them
  ReadConfig read;
  const Json object = text_model_of(whole, FieldsReader(JsonView(whole, source)), read);
  FieldsReader reader(JsonView(object, source));
  const ModelSpec* model = read_model_type(reader);
  // The other fields of an unknown model are not reported.
  if (model != nullptr) {
    read.config.model = model->name;
    read.config.sizes = read_sizes(*model, reader);
    read.config.dtype = read_dtype(reader);
    read.config.tokens = read_token_ids(reader);
    read.quantization = read_quantization(reader);
    skip_prediction_layers(reader, file, read);
    reader.take_only("compression_config", nullptr, "compressed weights are");
  }
  if (!problems.empty())
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: this model cannot be taken:\n  {}", file, fmt::join(problems, "\n  ")));
  for (const char* name : kHarmless) reader.take(name);
  constexpr std::size_t kShown = 20;
  const std::vector<JsonView> unknown = reader.unknown();
  for (std::size_t i = 0; i < std::min(unknown.size(), kShown); ++i)
    read.warnings.push_back(fmt::format("{}: {} = {} is not known here and changes nothing", file,
                                        unknown[i].place(), shown_json(unknown[i].raw())));
  if (unknown.size() > kShown)
    read.warnings.push_back(fmt::format("{}: {} more fields are not known here and change nothing", file,
                                        unknown.size() - kShown));
  return read;
}

ReadConfig read_config(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    const std::filesystem::path named = file.filename() == kConfig ? file.parent_path() : file;
    if (const std::string advice = hub_advice(named); !advice.empty())
      throw Error(ExitCode::checkpoint, fmt::format("{}: no such file or folder{}", named.string(), advice));
  }
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
    config_json({.model = model, .sizes = sizes, .dtype = "", .tokens = {}});
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
