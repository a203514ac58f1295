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

#endif
