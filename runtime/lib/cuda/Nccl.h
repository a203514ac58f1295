// What ranks exchange between GPUs, over NCCL (NVIDIA's reference manual of that name, 2.18 and later), opened when it
// is needed. Only its sends, receives, gathers and broadcasts are used: what ranks add up is added by kernels of the
// program, in the order of the ranks, so that bits do not depend on NCCL's rings.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_NCCL_H
#define SCRIMP_RUNTIME_LIB_CUDA_NCCL_H

#include "Driver.h"
#include "scrimp/runtime/Communicator.h"
#include <functional>

namespace scrimp::runtime::cuda {

using NcclCode = int; // 0 is success
struct NcclCommTag;
using NcclComm = NcclCommTag *;
struct NcclId {
  char bytes[128];
};
enum NcclNumber : int { ncclInProgress = 7, ncclOfInt8 = 0 };

#define SCRIMP_NCCL_FUNCTIONS(X)                                                                                       \
  X(NcclCode, ncclGetVersion, (int *))                                                                                 \
  X(NcclCode, ncclGetUniqueId, (NcclId *))                                                                             \
  X(NcclCode, ncclCommInitRank, (NcclComm *, int, NcclId, int))                                                        \
  X(NcclCode, ncclCommDestroy, (NcclComm))                                                                             \
  X(NcclCode, ncclCommAbort, (NcclComm))                                                                               \
  X(NcclCode, ncclCommGetAsyncError, (NcclComm, NcclCode *))                                                           \
  X(const char *, ncclGetErrorString, (NcclCode))                                                                      \
  X(const char *, ncclGetLastError, (NcclComm))                                                                        \
  X(NcclCode, ncclGroupStart, ())                                                                                      \
  X(NcclCode, ncclGroupEnd, ())                                                                                        \
  X(NcclCode, ncclSend, (const void *, size_t, int, int, NcclComm, Stream))                                            \
  X(NcclCode, ncclRecv, (void *, size_t, int, int, NcclComm, Stream))                                                  \
  X(NcclCode, ncclAllGather, (const void *, void *, size_t, int, NcclComm, Stream))                                    \
  X(NcclCode, ncclBroadcast, (const void *, void *, size_t, int, int, NcclComm, Stream))

/// What a communicator asks of its device.
struct NcclDevice {
  const Driver *driver;
  Stream stream; // of everything else
  /// Runs a kernel of the runtime's own from `source` to `target` on `stream`, over so many units.
  std::function<Status(const std::string &kernel, const char *source, char *target, int64_t units, Stream stream)> run;
  std::function<Result<char *>(uint64_t bytes)> allocate;
};

/// Ranks that `host` connects already; all call it together, each with a GPU of its own. `folder` as of
/// SharedLibrary::open.
Result<std::unique_ptr<Communicator>> connectNccl(const NcclDevice &device, Communicator &host,
                                                  const std::string &folder);

} // namespace scrimp::runtime::cuda

#endif
