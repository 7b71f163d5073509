#include "models/parts/rotary_sizes.h"

#include <fmt/format.h>

namespace rondo {
namespace {

void erase_unless_scaled(double factor, std::initializer_list<const char*> names, FieldValues& values) {
  if (factor != 1.0) return;
  for (const char* name : names) values.erase(name);
}

}  // namespace

Rotary WavelengthSizes::rotary(double theta, std::int64_t width) const {
  Rotary rotary{theta, width};
  if (rope_scaling_factor != 1.0)
    rotary.scaling = WavelengthScaling{rope_scaling_factor, rope_low_freq_factor, rope_high_freq_factor,
                                       rope_original_max_seq_len};
  return rotary;
}

void WavelengthSizes::check_rotary(std::vector<SizeProblem>& found) const {
  if (rope_scaling_factor > 1 && rope_low_freq_factor > rope_high_freq_factor)
    found.push_back(
        {{"rope_low_freq_factor", "rope_high_freq_factor"},
         fmt::format("model.rope_low_freq_factor = {} must be at most model.rope_high_freq_factor = {}",
                     rope_low_freq_factor, rope_high_freq_factor)});
}

void WavelengthSizes::make_plain_rotary(FieldValues& values) const {
  erase_unless_scaled(rope_scaling_factor,
                      {"rope_low_freq_factor", "rope_high_freq_factor", "rope_original_max_seq_len"}, values);
}

void YarnSizes::check_rotary(std::vector<SizeProblem>& found) const {
  if (rope_scaling_factor > 1 && rope_beta_slow > rope_beta_fast)
    found.push_back({{"rope_beta_slow", "rope_beta_fast"},
                     fmt::format("model.rope_beta_slow = {} must be at most model.rope_beta_fast = {}",
                                 rope_beta_slow, rope_beta_fast)});
}

void YarnSizes::make_plain_rotary(FieldValues& values) const {
  erase_unless_scaled(rope_scaling_factor, {"rope_beta_fast", "rope_beta_slow", "rope_original_max_seq_len"},
                      values);
}

}  // namespace rondo
