// A model with all its weights in fp32 on the CPU, and its logits. Memory: 4 bytes per parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "models/parts/decoder.h"
#include "parallel/rank_context.h"
#include "trainer/resume/stored_model.h"

namespace rondo {

class WholeModel {
 public:
  // Loads the model for sequences of up to `max_length` tokens. `gradients`: leaves() require
  // gradients.
  WholeModel(StoredModel& stored, std::int64_t max_length, bool gradients);

  const Decoder& decoder() const { return *decoder_; }
  // Returns the flattened parameters in the decoder's order.
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  // Returns fp32 logits [B, T, V] for int64 ids [B, T].
  at::Tensor logits(const at::Tensor& tokens_BT) const;

 private:
  std::shared_ptr<const Decoder> decoder_;
  std::vector<at::Tensor> buffers_, biases_, leaves_;
  RankContext ranks_;
};

}  // namespace rondo
