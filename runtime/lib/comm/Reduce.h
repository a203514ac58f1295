// The arithmetic of collectives: elements of all ranks, added in their order.
#ifndef SCRIMP_RUNTIME_LIB_COMM_REDUCE_H
#define SCRIMP_RUNTIME_LIB_COMM_REDUCE_H

#include "scrimp/runtime/Communicator.h"

namespace scrimp::runtime {

/// Reduces `count` elements: parts[r] holds rank r's, that of `own` in call.dtype, the others in call.wire. The target,
/// in call.dtype, may be parts[own].
void reduceInOrder(const CollectiveCall &call, std::span<const char *const> parts, int own, char *target,
                   int64_t count);

/// Rounds floats to the wire's type, bf16 or f16, and back.
void narrow(DType wire, const float *source, char *target, int64_t count);
void widen(DType wire, const char *source, float *target, int64_t count);

} // namespace scrimp::runtime

#endif
