// The planned module as the program that the runtime runs (runtime/include/scrimp/runtime/program.fbs).
#ifndef SCRIMP_DRIVER_PROGRAM_H
#define SCRIMP_DRIVER_PROGRAM_H

#include "scrimp/Analysis/Cost.h"
#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Import/Onnx.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace mlir::scrimp {

struct DeviceCode;

/// What the program says that the module does not.
struct ProgramOptions {
  std::string model;     // for messages
  std::string optimizer; // "sgd", "adam", "adamw"
  /// Run-time flags and their defaults, in the order of --help.
  std::vector<std::pair<std::string, double>> hyperparameters;
  int64_t world = 1;                // ranks, at least as many as the collectives are for
  std::optional<DeviceRates> rates; // of the machine it is meant for: commands then say how long they should take
  llvm::ArrayRef<CarriedTensor> carried;
  Processor cpu; // that its kernels are compiled for
};

/// A tensor whose first value lies in the weights trailer.
struct StoredTensor {
  std::string name;
  RankedTensorType type; // null for one that is carried
  int64_t offset, bytes; // in the trailer
  /// The value: of a constant of the graph, or of what is carried. Without either ask the model's weights for `name`.
  DenseElementsAttr constant;
  const WeightSource *carried = nullptr;
};

struct Program {
  std::string bytes;                // a finished FlatBuffer
  std::vector<StoredTensor> stored; // the weights trailer, in order
  int64_t storedBytes = 0;
  std::vector<std::string> kernels; // symbols, in the order of the kernel table
  bool holdsKernels = false;        // as images for devices; else an object holds them
};

/// Lowers @train and @eval of a module that scrimp-plan-memory has planned and emitKernels has named the kernels of to
/// one scrimp.cmd.program, verified. Fails after an error at an op that has no place or no command.
FailureOr<OwningOpRef<ModuleOp>> lowerToCommands(ModuleOp module, const ProgramOptions &options);

/// Serialises the scrimp.cmd.program of a module; `carried` are its tensors that no graph reads, with their bytes, `code`
/// is that of its kernels where a CUDA device runs them. Fails after an error at what the runtime does not know.
FailureOr<Program> buildProgram(ModuleOp commands, llvm::ArrayRef<CarriedTensor> carried,
                                const DeviceCode *code = nullptr);

} // namespace mlir::scrimp

#endif
