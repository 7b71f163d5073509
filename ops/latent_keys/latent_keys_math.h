// The order of the sum over heads of ops/latent_keys/latent_keys.h, shared by CPU and CUDA.
#pragma once

namespace rondo::latent_keys {

constexpr int kGroup = 16;  // heads that are summed one by one

}  // namespace rondo::latent_keys
