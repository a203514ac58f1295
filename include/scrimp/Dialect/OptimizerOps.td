//===- OptimizerOps.td - what updates need beside elementwise ops ---------------------------------------------------===//
#ifndef SCRIMP_OPTIMIZER_OPS_TD
#define SCRIMP_OPTIMIZER_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_SumSquaresOp : Scrimp_RowsOp<"sum_squares"> {
  let summary = "Sums of squares of consecutive blocks of 16384 elements, in f64";
  let description = [{
    result[i] = sum of x[j] * x[j] over 16384 i <= j < 16384 (i + 1), converted to f64 first: f32 and bf16 gradients of
    any size cannot overflow, nor is the norm lost among many small ones. Adding up the result (`reduce sum`) gives the
    square of the norm; the order is a function of the size alone.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x);
  let results = (outs StaticShapeTensorOf<[F64]>:$sums);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($sums)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{ static constexpr int64_t kBlock = 16384; }];
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_CheckFiniteOp : Scrimp_Op<"check_finite", [Pure, AllTypesMatch<["x", "y"]>, Scrimp_Eval, CostOp,
    BatchSplitOp, AliasOp, DeclareOpInterfaceMethods<HostCheckOp>,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>]> {
  let summary = "A number that ends the step if it is NaN or infinite";
  let description = [{
    The operand, in its own bytes. The host looks at it before anything that comes later runs; where it is not finite the
    rest of the step is left out, and `of` names the parameter whose gradient it tells of. What must not happen then
    depends on the result.
  }];
  let arguments = (ins Scrimp_WideFloatTensor:$x, StrAttr:$of);
  let results = (outs Scrimp_WideFloatTensor:$y);
  let assemblyFormat = "$x `of` $of attr-dict `:` type($x)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
    ::llvm::StringRef $cppClass::getChecked() { return getOf(); }
  }];
}

def Scrimp_AfterOp : Scrimp_Op<"after", [Pure, AllTypesMatch<["x", "y"]>, Scrimp_Eval, CostOp,
    BatchSplitOp, AliasOp, DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>]> {
  let summary = "A value that may not be read before another is known";
  let description = [{
    `x`, in its own bytes. Whoever reads the result runs after `event` has been computed. The optimizer orders updates by
    it, and scrimp-rematerialize ties what is computed again to the gradient that arrives there: such an op reads another
    value than the original, so nothing merges the two or moves the later one ahead.
  }];
  let arguments = (ins Scrimp_Tensor:$x, Scrimp_Tensor:$event);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$event `,` $x attr-dict `:` type($event) `,` type($x)";
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
  }];
}

#endif
