// NaN and infinity in tensors: found at the speed of memory.
#ifndef SCRIMP_RUNTIME_NONFINITE_H
#define SCRIMP_RUNTIME_NONFINITE_H

#include "scrimp/runtime/DType.h"

namespace scrimp::runtime {

/// The first element that is NaN or infinite (with `nanOnly`: NaN); -1 if there is none, as among integers.
int64_t findNonFinite(DType type, const char *data, int64_t count, bool nanOnly = false);

/// "nan", "inf" or "-inf".
const char *nonFiniteText(double value);

} // namespace scrimp::runtime

#endif
