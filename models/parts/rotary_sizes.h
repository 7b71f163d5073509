// Sizes of the rotary scalings (models/parts/description.h): base structs of models and their
// fields. The fields are templates over the model's struct, so each model keeps its own defaults.
// No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct RotaryScalingSizes {
  double rope_scaling_factor = 1.0;  // 1: no scaling
  std::int64_t rope_original_max_seq_len = 8192;
};

// Sizes of Llama 3.1's scaling.
struct WavelengthSizes : RotaryScalingSizes {
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;

  Rotary rotary(double theta, std::int64_t width) const;
  // Adds the rule between these sizes if it is violated.
  void check_rotary(std::vector<SizeProblem>& found) const;
  // Removes fields without effect from plain() (models/models.h).
  void make_plain_rotary(FieldValues& values) const;
};

struct YarnSizes : RotaryScalingSizes {
  double rope_beta_fast = 32.0;
  double rope_beta_slow = 1.0;

  YarnScaling yarn() const {
    return {rope_scaling_factor, rope_beta_fast, rope_beta_slow, rope_original_max_seq_len};
  }
  void check_rotary(std::vector<SizeProblem>& found) const;
  void make_plain_rotary(FieldValues& values) const;
};

template <class C>
Field original_length_field() {
  return field<C, std::int64_t>("rope_original_max_seq_len", &C::rope_original_max_seq_len,
                                "sequence length that the scaling starts from",
                                {.minimum = 1, .maximum = kWidest, .unit = "tokens"});
}

template <class C>
Fields wavelength_fields() {
  return {
      field<C, double>("rope_scaling_factor", &C::rope_scaling_factor,
                       "Llama 3.1 scaling: low rotary frequencies are divided by this; 1 is no scaling",
                       {.minimum = 1}),
      field<C, double>("rope_low_freq_factor", &C::rope_low_freq_factor,
                       "waves longer than rope_original_max_seq_len / this are scaled in full", {.above = 0}),
      field<C, double>("rope_high_freq_factor", &C::rope_high_freq_factor,
                       "waves shorter than rope_original_max_seq_len / this are not scaled", {.above = 0}),
      original_length_field<C>(),
  };
}

template <class C>
Fields yarn_fields() {
  return {
      field<C, double>("rope_scaling_factor", &C::rope_scaling_factor,
                       "YaRN: low rotary frequencies are divided by this; 1 is no scaling", {.minimum = 1}),
      field<C, double>("rope_beta_fast", &C::rope_beta_fast,
                       "YaRN: what turns more often in rope_original_max_seq_len is not scaled",
                       {.above = 0}),
      field<C, double>("rope_beta_slow", &C::rope_beta_slow,
                       "YaRN: what turns less often in rope_original_max_seq_len is scaled in full",
                       {.above = 0}),
      original_length_field<C>(),
  };
}

}  // namespace rondo
