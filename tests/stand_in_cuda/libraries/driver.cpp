// libcuda and NVRTC. LibTorch only queries the context of a device; any other call ends the process
// with its name. LibTorch takes the addresses of all functions at once, so all must exist.
#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void missing(const char* name) {
  std::fprintf(stderr, "stand-in CUDA: %s is not there\n", name);
  std::_Exit(127);
}

}  // namespace

#define RONDO_MISSING(name) \
  void name() { missing(#name); }

extern "C" {

int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}

int cuCtxGetCurrent(void** context) {
  static char one;
  *context = &one;
  return 0;
}

int cuCtxSetCurrent(void*) { return 0; }

RONDO_MISSING(cuDeviceGet)
RONDO_MISSING(cuDeviceGetAttribute)
RONDO_MISSING(cuDevicePrimaryCtxRetain)
RONDO_MISSING(cuFuncGetAttribute)
RONDO_MISSING(cuFuncSetAttribute)
RONDO_MISSING(cuFuncSetCacheConfig)
RONDO_MISSING(cuGetErrorString)
RONDO_MISSING(cuLaunchCooperativeKernel)
RONDO_MISSING(cuLaunchKernel)
RONDO_MISSING(cuLinkAddData_v2)
RONDO_MISSING(cuLinkComplete)
RONDO_MISSING(cuLinkCreate_v2)
RONDO_MISSING(cuModuleGetFunction)
RONDO_MISSING(cuModuleLoad)
RONDO_MISSING(cuModuleLoadData)
RONDO_MISSING(cuModuleLoadDataEx)
RONDO_MISSING(cuModuleUnload)
RONDO_MISSING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
RONDO_MISSING(cuPointerGetAttribute)
RONDO_MISSING(cuTensorMapEncodeTiled)
RONDO_MISSING(nvrtcAddNameExpression)
RONDO_MISSING(nvrtcCompileProgram)
RONDO_MISSING(nvrtcCreateProgram)
RONDO_MISSING(nvrtcDestroyProgram)
RONDO_MISSING(nvrtcGetCUBIN)
RONDO_MISSING(nvrtcGetCUBINSize)
RONDO_MISSING(nvrtcGetErrorString)
RONDO_MISSING(nvrtcGetLoweredName)
RONDO_MISSING(nvrtcGetPTX)
RONDO_MISSING(nvrtcGetPTXSize)
RONDO_MISSING(nvrtcGetProgramLog)
RONDO_MISSING(nvrtcGetProgramLogSize)
RONDO_MISSING(nvrtcVersion)

}  // extern "C"
