// The way of a model, from a file to an executable: what scrimp-compile and scrimp-plan share.
#ifndef SCRIMP_DRIVER_COMPILE_H
#define SCRIMP_DRIVER_COMPILE_H

#include "scrimp/Analysis/Cost.h"
#include "scrimp/Import/Onnx.h"
#include "scrimp/runtime/StateDict.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::scrimp {

struct CompileOptions {
  std::string model;                          // MODEL.onnx or MODEL.mlir
  std::string output;                         // the executable, or the file for another `emit`; "-": standard output
  std::string emit = "exe";                   // import, mlir, commands, kernels, llvm, ptx, exe
  ImportOptions import;                       // --dim, --loss, --trainable, --frozen, ...
  std::string initFrom;                       // safetensors file or index: first values by name
  ::scrimp::runtime::PrefixRename initRename; // of names in initFrom
  std::string optimizer = "adamw";            // sgd, adam, adamw
  bool momentum = false, nesterov = false;    // sgd
  bool clipGradNorm = false, skipNonfiniteGrad = false;
  std::vector<std::string> keepFp32;   // --precision bf16, fp16: layers, modules or parameters: patterns
  std::string master = "fp32";         // --precision bf16, fp16: how parameters are kept; or none: in 16 bits
  std::string moments = "fp32";        // states of the optimizer; or bf16
  std::vector<std::string> noDecay;    // parameters without weight decay: patterns, or "1d" for rank 0 and 1
  int64_t microBatches = 0;            // how many make an update; 0: one, or as microBatchSize asks
  int64_t microBatchSize = 0;          // most samples of one; 0: any
  std::string accumulate = "fp32";     // gradients of micro-batches; or bf16
  std::string batchStats = "whole";    // or per-micro-batch, per-rank: each has its own; global: of all ranks
  int64_t world = 1;                   // ranks
  int64_t nodes = 0;                   // that ranks are in, equally many in each; 0: as the device has them
  std::optional<int64_t> zero;         // what they share out: 0 nothing, 1 and 2 states, 3 parameters too; none: 0, or
                                       // what memoryBudget asks for
  std::string sync;                    // gradients are added up over the ranks per-step, or per-micro-batch; or auto;
                                       // empty: auto, or what memoryBudget asks for
  std::vector<std::string> unshard;    // zero 3: what is gathered once a step and kept: patterns
  std::string reduceDtype = "fp32";    // what gradients are sent as; or bf16, fp16
  std::string layout = "elements";     // of buckets: ranks have elements wherever they fall; or whole matrices
  int64_t bucketBytes = 0;             // most bytes of parameters that are exchanged at once; 0: a block's
  int64_t overlapBytes = 0;            // by which earlier exchanges may raise the peak
  int64_t persistBelow = 0;            // elements below which a parameter is not shared out
  std::vector<std::string> chunk;      // GLOB=N: modules that run in N chunks of their tokens
  std::string remat;                   // what the backward pass computes again (RematPolicy); empty: nothing, or what
                                       // memoryBudget asks for
  std::vector<std::string> blocks;     // module scopes that are blocks: patterns
  std::vector<std::string> precisions; // of which memoryBudget may take one; one: import.precision
  std::string memoryBudget;            // a size, or "max": choose what is not given so that the process fits
  std::string device;                  // what costs are estimated for (Device.h); empty: cpu, where they are asked for
  DeviceRates rates;                   // of the device, once it is known
  // Off: for comparison; the bits are the same.
  bool fuse = true, schedule = true, streamInputs = true;
  int64_t workers = 0;          // most threads of the executable; 0: this machine's
  std::string target = "cpu";   // or emulated, cuda
  bool tf32 = false;            // a device: products of f32 round their operands to TF32
  std::string march = "native"; // a CPU name, or "x86-64-v2" for any machine
  std::string chip = "sm_90a";  // --emit ptx
  bool verify = false;          // compare every kernel with the interpreter
  std::string report;           // memory.json
  bool quiet = false;           // no notes of the importer
};

/// Registers the dialects and translations that compiling needs.
void registerCompilerDialects(DialectRegistry &registry);

/// Registers the passes, so that pipelines can be parsed.
void registerCompilerPasses();

/// A model on its way: the module and where its first values come from.
struct Compilation {
  OwningOpRef<ModuleOp> module;
  CompileOptions options; // with what the model decides where the user did not: the precision
  llvm::StringMap<WeightSource> weights;
  std::vector<CarriedTensor> carried;
  std::optional<DeviceRates> rates; // where costs were asked for: of options.device
};

/// Reads a model and prints what the importer has to say about it to stderr.
FailureOr<Compilation> loadModel(const CompileOptions &options, MLIRContext *context);

/// The graph passes, from the imported module to the plan (Pipeline.h), as the options want them.
void buildPipeline(PassManager &manager, const CompileOptions &options);

/// loadModel and the graph passes; writes options.report.
FailureOr<Compilation> planModel(const CompileOptions &options, MLIRContext *context);

/// How the library multiplies what a module stores in 16 bits, on the processor that is compiled for; empty where there
/// is no such call. Fails after an error where the processor is not known.
FailureOr<std::string> describeNarrowProducts(ModuleOp module, const CompileOptions &options);

/// The program that the runtime would run (scrimp.cmd.program), without its machine code.
FailureOr<OwningOpRef<ModuleOp>> buildCommands(const CompileOptions &options, MLIRContext *context);

/// Everything. Errors are reported through the context; nothing is left behind by a failure.
LogicalResult compileModel(const CompileOptions &options, MLIRContext *context);

/// Writes `contents` to `path` whole or not at all.
LogicalResult writeOutput(StringRef path, StringRef contents, MLIRContext *context);

/// What --precision means for the model: a file whose trained parameters are of 16 bits says so itself. Fails after an
/// error where options contradict each other.
LogicalResult settlePrecision(CompileOptions &options, func::FuncOp main);

/// Most threads of the executable.
int64_t workersOf(const CompileOptions &options);

/// The run-time flags of an executable compiled with these options, with PyTorch's defaults.
std::vector<std::pair<std::string, double>> hyperparameterDefaults(const CompileOptions &options);

} // namespace mlir::scrimp

#endif
