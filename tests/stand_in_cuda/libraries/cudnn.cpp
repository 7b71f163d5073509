// No cuDNN: a program that asks for its version takes another kernel. Of the libraries that no run calls this
// folder has nothing at all; the loader ends a process that calls one of their functions, with the function's
// name.
#include <cstddef>

extern "C" std::size_t cudnnGetVersion() { return 0; }
