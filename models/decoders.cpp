#include "models/models.h"
#include "models/parts/decoder.h"
#include "support/error.h"

namespace rondo {

std::shared_ptr<const Decoder> make_decoder(const std::string& name, const FieldValues& sizes) {
  std::shared_ptr<const Decoder> decoder;
  const auto make_if_named = [&]<class Config>(const Config&) {
    if (name == Config::kName) decoder = make_decoder(from_values<Config>(sizes));
  };
  std::apply([&](const auto&... model) { (make_if_named(model), ...); }, Models{});
  if (decoder == nullptr)
    throw Error(ExitCode::config, "model.name = " + name + " is no model of this version");
  return decoder;
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
