// From an object file and a program to an executable.
#ifndef SCRIMP_DRIVER_LINK_H
#define SCRIMP_DRIVER_LINK_H

#include "scrimp/Driver/Program.h"

#include "llvm/Support/Error.h"

namespace mlir::scrimp {

/// Fills `bytes` with the first value of a stored tensor, in its type; called in order of the trailer.
using ReadWeights = llvm::function_ref<llvm::Error(const StoredTensor &tensor, llvm::MutableArrayRef<char> bytes)>;

/// Links `object` (the kernels, unless the program holds them), the program and the runtime into `output`, and appends the weights trailer. `output`
/// appears whole or not at all. The runtime library is looked for beside this program (../lib), then in
/// SCRIMP_RUNTIME_DIR.
llvm::Error linkExecutable(const Program &program, llvm::StringRef object, llvm::StringRef output, ReadWeights read);

} // namespace mlir::scrimp

#endif
