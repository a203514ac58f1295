// The arguments of the library function "linear" (Library.h), whoever computes it.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_LINEARARGUMENTS_H
#define SCRIMP_RUNTIME_LIB_COMMON_LINEARARGUMENTS_H

#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

LinearCall linearCallOf(const LibraryArguments &arguments);

/// Where each buffer is in the call; -1: not there.
struct LinearPlaces {
  int addend = -1, bias = -1, read = -1, result, kept = -1, sums = -1, workspace = -1, count = 2;

  LinearPlaces(const LinearCall &s, bool hasWorkspace) {
    auto take = [&](bool isThere) { return isThere ? count++ : -1; };
    addend = take(s.addend == ownAddend);
    bias = take(s.bias);
    read = take(s.epilogue == geluGradEpilogue);
    result = count++;
    kept = take(s.epilogue == geluKeepingEpilogue);
    sums = take(s.sums != noSums);
    workspace = take(hasWorkspace);
  }
};

Status verifyLinear(const LibraryArguments &arguments);

} // namespace scrimp::runtime

#endif
