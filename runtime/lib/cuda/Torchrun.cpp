// Ranks on GPUs may be started by torchrun: what is large goes over NCCL.
#include "../comm/Sockets.h"

namespace scrimp::runtime {

Result<std::unique_ptr<Transport>> startTorchrun(const Launch &launch) { return connectSockets(launch); }

} // namespace scrimp::runtime
