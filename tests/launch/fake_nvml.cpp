// A driver library without a driver. FAKE_GPUS has a letter for each GPU: "w" a whole one, "m" one
// with two MIG devices, "e" one in MIG mode without a device, "l" one that is lost. Without it
// there is no driver.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNoDriver = 9, kLost = 15, kNotFound = 6;

const char* gpus() { return std::getenv("FAKE_GPUS"); }
char kind(void* device) { return gpus()[reinterpret_cast<std::uintptr_t>(device) - 1]; }

}  // namespace

extern "C" {
int nvmlInit_v2() { return gpus() == nullptr ? kNoDriver : 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(std::strlen(gpus()));
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index + 1));
  return kind(*device) == 'l' ? kLost : 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* mode, unsigned* pending) {
  *mode = *pending = kind(device) == 'm' || kind(device) == 'e' ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* most) {
  *most = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  *instance = device;
  return kind(device) == 'm' && (index == 2 || index == 5) ? 0 : kNotFound;
}
}
