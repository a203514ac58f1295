// First values of the tensors that live across steps: computed, from the executable's trailer, or from safetensors.
#ifndef SCRIMP_RUNTIME_WEIGHTS_H
#define SCRIMP_RUNTIME_WEIGHTS_H

#include "scrimp/runtime/Carried.h"
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/StateDict.h"
#include "scrimp/runtime/ThreadPool.h"

namespace scrimp::runtime {

/// Which tensors need their first value: the rest comes from --init-from or a checkpoint.
enum class InitialTensors { all, statesAndConstants, constants };

/// Gives what `rank` holds of these tensors its first values (program.fbs, InitKind).
Status initializeTensors(const program::Program *program, const char *weightsPath, InitialTensors which, uint64_t seed,
                         int rank, ArenaRef arena, ThreadPool &pool);

/// Opens the executable, whose end is its weights and a footer, as `file`; where the weights, `expected` bytes, begin.
Result<uint64_t> openTrailer(const char *path, uint64_t expected, File &file);

/// --init-from: replaces parameters and buffers by the tensors of a .safetensors file, of the shards that a Hugging
/// Face model.safetensors.index.json names, or of a checkpoint, whose files are checked. Every parameter and buffer
/// must be there under its name or an alias, and nothing else but what is carried; floats convert. `rename` changes the
/// file's names. Reads what `rank` holds.
Status initializeFrom(const program::Program *program, const std::string &path, const PrefixRename &rename, int rank,
                      ArenaRef arena, CarriedTensors &carried);

} // namespace scrimp::runtime

#endif
