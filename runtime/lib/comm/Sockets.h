// Messages over TCP between ranks that torchrun started.
#ifndef SCRIMP_RUNTIME_LIB_COMM_SOCKETS_H
#define SCRIMP_RUNTIME_LIB_COMM_SOCKETS_H

#include "Transport.h"
#include "scrimp/runtime/Launch.h"

namespace scrimp::runtime {

/// Meets the other ranks: rank 0 listens on the port behind MASTER_PORT of MASTER_ADDR. IPv4; nobody is asked who he is, as
/// with torchrun itself.
Result<std::unique_ptr<Transport>> connectSockets(const Launch &launch);

/// What ranks that torchrun started talk by; whether they may is the target's (lib/cpu, lib/cuda).
Result<std::unique_ptr<Transport>> startTorchrun(const Launch &launch);

} // namespace scrimp::runtime

#endif
