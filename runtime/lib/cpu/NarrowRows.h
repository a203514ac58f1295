// Rows of bf16 and f16 to and from f32, at the host's vector width. Rounding is to nearest even, as DType.h's.
#ifndef SCRIMP_RUNTIME_LIB_CPU_NARROWROWS_H
#define SCRIMP_RUNTIME_LIB_CPU_NARROWROWS_H

#include "scrimp/runtime/DType.h"

namespace scrimp::runtime {

/// to[i] = from[i], elements of `type`: bf16 or f16.
void widenRow(DType type, const uint16_t *from, float *to, int64_t count);
void narrowRow(DType type, const float *from, uint16_t *to, int64_t count);

} // namespace scrimp::runtime

#endif
