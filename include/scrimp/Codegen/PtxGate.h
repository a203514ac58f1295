// What PTX must not contain, whatever LLVM and libdevice made of a kernel.
#ifndef SCRIMP_CODEGEN_PTXGATE_H
#define SCRIMP_CODEGEN_PTXGATE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mlir::scrimp {

/// The first thing that is wrong with PTX, as what follows "the PTX ", or nothing: a function that nothing defines, a
/// call (an emulator and ptxas see one body), shared memory that is aligned to less than a word, and approximate or
/// flushing instructions in entries other than those in `approximate`.
std::string findPtxFault(llvm::StringRef ptx, const llvm::StringSet<> &approximate);

} // namespace mlir::scrimp

#endif
