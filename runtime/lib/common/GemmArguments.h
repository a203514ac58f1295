// The arguments of the library function "gemm" (Library.h), whoever computes it.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_GEMMARGUMENTS_H
#define SCRIMP_RUNTIME_LIB_COMMON_GEMMARGUMENTS_H

#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

GemmCall gemmCallOf(const LibraryArguments &arguments);

/// Whether a matrix has elements of 16 bits.
bool isNarrowGemm(const LibraryArguments &arguments);

Status verifyGemm(const LibraryArguments &arguments);

} // namespace scrimp::runtime

#endif
