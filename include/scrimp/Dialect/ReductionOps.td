//===- ReductionOps.td ---------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_REDUCTION_OPS_TD
#define SCRIMP_REDUCTION_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_ReduceKind : I64EnumAttr<"ReduceKind", "How elements are combined", [
    I64EnumAttrCase<"sum", 0>, I64EnumAttrCase<"max", 1>, I64EnumAttrCase<"min", 2>, I64EnumAttrCase<"prod", 3>]> {
  let cppNamespace = "::mlir::scrimp";
}

def Scrimp_ReduceOp : Scrimp_RowsOp<"reduce", [Scrimp_Differentiable], ["buildExpansion"], Scrimp_LinearDimensions,
                                    Scrimp_Precision> {
  let summary = "Combines the elements along `dims`, which the result lacks";
  let description = [{
    f16 and bf16 are combined in f32 and rounded once, or not at all where the result is f32. The order is a function of
    the shape and the target: on a CPU trailing dimensions go to 16 lanes (Codegen/Emit.h), others in row-major order;
    devices cut many rows into slices (Dialect/ColumnSums.h). Max and min share the gradient among equal elements (as
    torch.amax). Over no elements: the neutral element.
  }];
  let arguments = (ins Scrimp_ReduceKind:$kind, Scrimp_NumericTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Scrimp_NumericTensor:$y);
  let assemblyFormat = "$kind `,` $x $dims attr-dict `:` type($x) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::scrimp::ReduceKind":$kind, "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$dims)>];
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

#endif
