// First values of the tensors that live across steps: computed, from the executable's trailer, or from safetensors.
#ifndef SCRIMP_RUNTIME_WEIGHTS_H
#define SCRIMP_RUNTIME_WEIGHTS_H

#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/ThreadPool.h"

namespace scrimp::runtime {

/// Which tensors need their first value: the rest comes from --init-from or a checkpoint.
enum class InitialTensors { all, statesAndConstants, constants };

/// Gives these tensors their first values (program.fbs, InitKind).
Status initializeTensors(const program::Program *program, const char *weightsPath, InitialTensors which, uint64_t seed,
                         char *arena, ThreadPool &pool);

/// --init-from: replaces parameters and buffers by the tensors of a .safetensors file, or of the shards that a
/// Hugging Face model.safetensors.index.json names. Every parameter and buffer must be there under its name or an
/// alias, and nothing else; floats convert.
Status initializeFrom(const program::Program *program, const std::string &path, char *arena);

} // namespace scrimp::runtime

#endif
