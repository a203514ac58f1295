// scrimp-kernel-test: forms, compiles and runs the kernels of a function beside the interpreter; with and without
// fusion, bit for bit. For tests.
#include "Fault.h"
#include "scrimp/Codegen/Verify.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Support/Messages.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

#include <chrono>

using namespace mlir;
using namespace mlir::scrimp;

enum class Emit { None, Kernels, LLVM, Assembly, Ptx };

static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static LogicalResult formKernels(ModuleOp module, bool fuse) {
  PassManager pm(module.getContext());
  pm.addPass(createArrangeMoves());
  pm.addPass(createExpandForTarget());
  FormKernelsOptions options;
  options.fuse = fuse;
  pm.addPass(createFormKernels(options));
  return pm.run(module);
}

static llvm::cl::opt<Fault> fault(
    "fault", llvm::cl::desc("Plant one in a device's kernel; the comparison should find it"),
    llvm::cl::init(Fault::None),
    llvm::cl::values(clEnumValN(Fault::BarrierRemoved, "barrier-removed", "no barrier before shared values are read"),
                     clEnumValN(Fault::BarrierDivergent, "barrier-divergent", "one thread passes a barrier by"),
                     clEnumValN(Fault::Index, "index", "a store one element, or as many as it stores, further"),
                     clEnumValN(Fault::Misaligned, "misaligned", "a wide store that is not aligned"),
                     clEnumValN(Fault::Mask, "mask", "half a warp in the mask of a shuffle")));
static llvm::cl::opt<unsigned> faultyKernel("faulty-kernel", llvm::cl::desc("Which of those that have a place for it"),
                                            llvm::cl::init(0));
/// For a test that goes through the kernels.
static constexpr int kNoSuchKernel = 3;

static LogicalResult verify(ModuleOp module, StringRef entry, const VerifyOptions &options,
                            SmallVectorImpl<HostTensor> &results) {
  FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(module);
  if (failed(kernels))
    return failure();
  if (fault != Fault::None && !plantFault(**kernels, fault, faultyKernel))
    std::exit(kNoSuchKernel);
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  if (!function)
    return module.emitError() << "no function @" << entry;
  return verifyKernels(module, function, **kernels, makeRandomArguments(function, /*seed=*/1), options, results);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (auto &option : llvm::cl::getRegisteredOptions()) // LLVM's own; --help is about this tool's
    option.second->setHiddenFlag(llvm::cl::Hidden);
  static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("FILE.mlir"), llvm::cl::init("-"));
  static llvm::cl::opt<std::string> entry("entry", llvm::cl::desc("Function to run; it gets random arguments"),
                                          llvm::cl::init("main"));
  static llvm::cl::opt<bool> fuse("fuse", llvm::cl::desc("With --emit: fuse kernels"), llvm::cl::init(true));
  static llvm::cl::opt<bool> quiet("no-compare-fusion", llvm::cl::desc("Skip the comparison with --fuse=0"));
  static llvm::cl::opt<double> ulps("ulps", llvm::cl::desc("Tolerance"), llvm::cl::init(16));
  static llvm::cl::opt<std::string> march("march", llvm::cl::desc("Processor"), llvm::cl::init("host"));
  static llvm::cl::opt<std::string> target("target", llvm::cl::desc("cpu, emulated or cuda"), llvm::cl::init("cpu"));
  static llvm::cl::opt<int64_t> workers("workers", llvm::cl::desc("Threads that workspaces serve"), llvm::cl::init(2));
  static llvm::cl::opt<bool> time("time", llvm::cl::desc("Print how long compiling takes"));
  static llvm::cl::opt<Emit> emit(
      "emit", llvm::cl::desc("Print code instead of running it"), llvm::cl::init(Emit::None),
      llvm::cl::values(clEnumValN(Emit::Kernels, "kernels", "loops"), clEnumValN(Emit::LLVM, "llvm", "LLVM IR"),
                       clEnumValN(Emit::Assembly, "asm", "assembly"),
                       clEnumValN(Emit::Ptx, "ptx", "PTX of map kernels for --chip")));
  static llvm::cl::opt<std::string> chip("chip", llvm::cl::desc("With --emit ptx: the GPU"), llvm::cl::init("sm_80"));
  llvm::cl::ParseCommandLineOptions(argc, argv, "Tests compiled kernels against the interpreter\n");

  DialectRegistry registry;
  registry.insert<ScrimpDialect, func::FuncDialect>();
  registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  std::string error;
  if (std::string problem = whyNotReadable(input); input != "-" && !problem.empty()) {
    llvm::errs() << "scrimp-kernel-test: error: '" << input << "' " << problem << "\n";
    return 1;
  }
  auto file = openInputFile(input, &error);
  if (!file) {
    llvm::errs() << "scrimp-kernel-test: error: " << error << "\n";
    return 1;
  }
  sources.AddNewSourceBuffer(std::move(file), SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;
  PassManager attach(&context);
  attach.addPass(createAttachTarget({target, workers}));
  if (failed(attach.run(*module)))
    return 1;
  OwningOpRef<ModuleOp> unfused = module->clone();
  VerifyOptions options;
  options.cpu.cpu = march;
  options.ulps = ulps;
  if (failed(formKernels(*module, fuse)))
    return 1;
  if (emit != Emit::None || time) {
    FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(*module);
    if (failed(kernels))
      return 1;
    if (emit == Emit::Kernels) {
      (*kernels)->print(llvm::outs());
      return 0;
    }
    if (emit == Emit::Ptx) {
      FailureOr<std::string> ptx = emitPtx(**kernels, chip);
      if (failed(ptx))
        return 1;
      llvm::outs() << *ptx;
      return 0;
    }
    auto start = std::chrono::steady_clock::now();
    FailureOr<std::string> code = compileKernels(**kernels, options.cpu,
                                                 time                 ? CodeKind::Object
                                                 : emit == Emit::LLVM ? CodeKind::LLVM
                                                                      : CodeKind::Assembly);
    if (failed(code))
      return 1;
    if (time)
      llvm::outs() << std::distance((*kernels)->getBody()->begin(), (*kernels)->getBody()->end()) << " kernels in "
                   << secondsSince(start) << " s\n";
    else
      llvm::outs() << *code;
    return 0;
  }
  SmallVector<HostTensor> fusedResults, unfusedResults;
  if (failed(verify(*module, entry, options, fusedResults)))
    return 1;
  if (quiet)
    return 0;
  if (failed(formKernels(*unfused, false)) || failed(verify(*unfused, entry, options, unfusedResults)))
    return 1;
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(fusedResults, unfusedResults)))
    if (encodeTensor(std::get<0>(pair)) != encodeTensor(std::get<1>(pair))) {
      llvm::errs() << "scrimp-kernel-test: error: result " << i << " has other bits with fusion than without\n";
      return 1;
    }
  return 0;
}
