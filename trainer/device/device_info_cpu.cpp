#include "trainer/device/device_info.h"

namespace rondo {

std::string cuda_build_info() { return "none"; }
void check_nccl(int) {}

}  // namespace rondo
