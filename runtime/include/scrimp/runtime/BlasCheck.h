// Whether the BLAS library computes what it should on this processor: builds that are older than the processor have
// crashed or been wrong (OpenBLAS#5243, #3152).
#ifndef SCRIMP_RUNTIME_BLASCHECK_H
#define SCRIMP_RUNTIME_BLASCHECK_H

#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/ThreadPool.h"

namespace scrimp::runtime {

/// One small product of each kind (type, which operands are transposed, added to C or not, with and without packing) of
/// the types that the program's library calls have, compared element by element with plain sums. A crash inside the
/// library ends the process with the same message. Takes some milliseconds; after initializeLibrary.
Status checkBlas(const program::Program *program);

/// --verify: runs each different library call of the program on random values in its own bytes of the arena, which it
/// overwrites, and compares a sample of every matrix product inside, corners and edges included, with plain sums.
/// On success `summary` says what was compared.
Status verifyLibraryCalls(const program::Program *program, char *arena, ThreadPool &pool, std::string &summary);

} // namespace scrimp::runtime

#endif
