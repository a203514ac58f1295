// scrimp-annotate-batch: the batch analysis in a form that people and tests can read.
#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_ANNOTATEBATCH
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
struct AnnotateBatch : scrimp::impl::AnnotateBatchBase<AnnotateBatch> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!llvm::hasSingleElement(function.getBody()))
      return;
    BatchAnalysis analysis(function);
    for (Operation &op : function.getBody().front().without_terminator()) {
      std::string text;
      llvm::raw_string_ostream os(text);
      if (analysis.isWhole(&op))
        os << "whole";
      else
        llvm::interleaveComma(op.getResults(), os, [&](Value result) { os << analysis.getPlacement(result); });
      op.setAttr(ScrimpDialect::kBatch, StringAttr::get(&getContext(), text));
    }
    for (const BatchAnalysis::Problem &problem : analysis.getProblems())
      problem.op->emitRemark() << problem.reason;
  }
};
} // namespace
