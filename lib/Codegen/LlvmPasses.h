// LLVM's passes over a module, with the analyses that they ask for.
#ifndef SCRIMP_LIB_CODEGEN_LLVMPASSES_H
#define SCRIMP_LIB_CODEGEN_LLVMPASSES_H

#include "llvm/Passes/PassBuilder.h"

namespace mlir::scrimp {

/// Builder and analysis managers that know one another. Passes run as `pass.run(module, passes.modules)`.
struct LlvmPasses {
  explicit LlvmPasses(llvm::TargetMachine *target = nullptr, llvm::PipelineTuningOptions tuning = llvm::PipelineTuningOptions())
      : builder(target, tuning) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
  }

  llvm::PassBuilder builder;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
};

} // namespace mlir::scrimp

#endif
