#include "models/deepseek_v3/deepseek_v3.h"
#include "models/llama3/llama3.h"
#include "models/parts/decoder.h"
#include "support/error.h"

namespace rondo {

std::shared_ptr<const Decoder> make_decoder(const std::string& name, const FieldValues& sizes) {
  if (name == "llama3") return std::make_shared<Llama3>(from_values<Llama3Config>(sizes));
  if (name == "deepseek_v3") return std::make_shared<DeepSeekV3>(from_values<DeepSeekV3Config>(sizes));
  throw Error(ExitCode::config, "model.name = " + name + " has sizes but no implementation");
}

std::int64_t parameter_count(const Decoder& model) {
  std::int64_t total = 0;
  for (const ParameterRule& rule : model.parameters()) total += element_count(rule);
  return total;
}

std::int64_t element_count(const ParameterRule& rule) {
  std::int64_t elements = 1;
  for (std::int64_t size : rule.sizes) elements *= size;
  return elements;
}

}  // namespace rondo
