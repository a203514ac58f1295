// The CUDA driver API (NVIDIA's reference manual of that name), as far as it is called; opened when it is needed, so
// that a program starts where there is none. What is declared here is compared with NVIDIA's headers by a test, where
// they are.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_DRIVER_H
#define SCRIMP_RUNTIME_LIB_CUDA_DRIVER_H

#include "SharedLibrary.h"

namespace scrimp::runtime::cuda {

using Code = int; // CUresult; 0 is success
using Ordinal = int;
using Address = unsigned long long; // CUdeviceptr
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;
using Context = ContextTag *;
using Module = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;
using Graph = GraphTag *;
using GraphExec = GraphExecTag *;

/// Of the driver's many results, those that have an advice of their own.
enum : Code { success = 0, outOfMemory = 2, noDevice = 100, noBinary = 209, unsupportedPtx = 222, notReady = 600 };

/// CUdevice_attribute and other numbers.
enum : int {
  attributeMajor = 75,
  attributeMinor = 76,
  functionMaxDynamicShared = 8,
  streamNonBlocking = 1,
  eventDisableTiming = 2,
  captureThreadLocal = 1
};

/// The functions, by the names under which the library exports them.
#define SCRIMP_DRIVER_FUNCTIONS(X)                                                                                     \
  X(cuInit, (unsigned))                                                                                                \
  X(cuDriverGetVersion, (int *))                                                                                       \
  X(cuGetErrorName, (Code, const char **))                                                                             \
  X(cuGetErrorString, (Code, const char **))                                                                           \
  X(cuDeviceGetCount, (int *))                                                                                         \
  X(cuDeviceGet, (Ordinal *, int))                                                                                     \
  X(cuDeviceGetName, (char *, int, Ordinal))                                                                           \
  X(cuDeviceGetAttribute, (int *, int, Ordinal))                                                                       \
  X(cuDeviceGetUuid_v2, (char *, Ordinal))                                                                             \
  X(cuDevicePrimaryCtxRetain, (Context *, Ordinal))                                                                    \
  X(cuCtxSetCurrent, (Context))                                                                                        \
  X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                             \
  X(cuMemAlloc_v2, (Address *, size_t))                                                                                \
  X(cuMemFree_v2, (Address))                                                                                           \
  X(cuMemAllocHost_v2, (void **, size_t))                                                                              \
  X(cuMemFreeHost, (void *))                                                                                           \
  X(cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                                                         \
  X(cuMemcpyHtoDAsync_v2, (Address, const void *, size_t, Stream))                                                     \
  X(cuMemcpyDtoHAsync_v2, (void *, Address, size_t, Stream))                                                           \
  X(cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))                                                          \
  X(cuModuleLoadData, (Module *, const void *))                                                                        \
  X(cuModuleUnload, (Module))                                                                                          \
  X(cuModuleGetFunction, (Function *, Module, const char *))                                                           \
  X(cuFuncSetAttribute, (Function, int, int))                                                                          \
  X(cuLaunchKernel,                                                                                                    \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))        \
  X(cuStreamCreate, (Stream *, unsigned))                                                                              \
  X(cuStreamDestroy_v2, (Stream))                                                                                      \
  X(cuStreamQuery, (Stream))                                                                                           \
  X(cuStreamSynchronize, (Stream))                                                                                     \
  X(cuStreamWaitEvent, (Stream, Event, unsigned))                                                                      \
  X(cuStreamBeginCapture_v2, (Stream, int))                                                                            \
  X(cuStreamEndCapture, (Stream, Graph *))                                                                             \
  X(cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))                                             \
  X(cuGraphLaunch, (GraphExec, Stream))                                                                                \
  X(cuGraphExecDestroy, (GraphExec))                                                                                   \
  X(cuGraphDestroy, (Graph))                                                                                           \
  X(cuEventCreate, (Event *, unsigned))                                                                                \
  X(cuEventDestroy_v2, (Event))                                                                                        \
  X(cuEventRecord, (Event, Stream))                                                                                    \
  X(cuEventQuery, (Event))                                                                                             \
  X(cuEventSynchronize, (Event))

struct Driver {
#define SCRIMP_DECLARE(name, parameters) Code(*name) parameters = nullptr;
  SCRIMP_DRIVER_FUNCTIONS(SCRIMP_DECLARE)
#undef SCRIMP_DECLARE

  /// Opens the driver's library and initialises it; 12.0 and later serve. Fails, saying what is missing.
  static Result<Driver> open();

  /// Success, or what the driver says of `code` while doing `what`.
  Status check(Code code, const std::string &what) const;

private:
  SharedLibrary library;
};

} // namespace scrimp::runtime::cuda

#endif
