//===- ShapeOps.td - ops that move elements ------------------------------------------------------------------------===//
#ifndef SCRIMP_SHAPE_OPS_TD
#define SCRIMP_SHAPE_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_ConstantOp : Scrimp_MoveOp<"constant", [ConstantLike, AllTypesMatch<["value", "y"]>], ["isFreeInKernel"],
                                     ["getDimensionRule", "buildPiece"]> {
  let summary = "A value known at compile time";
  let description = [{
    A splat is computed wherever it is used. Any other value becomes a tensor of the program with role `constant`.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_IotaOp : Scrimp_MapOp<"iota", [], ["isFreeInKernel"], ["getDimensionRule", "buildPiece"]> {
  let summary = "start + step * (index along a dimension)";
  let arguments = (ins I64Attr:$dim, DefaultValuedAttr<F64Attr, "0.0">:$start, DefaultValuedAttr<F64Attr, "1.0">:$step);
  let results = (outs Scrimp_NumericTensor:$y);
  let assemblyFormat = "attr-dict `:` type($y)";
  let hasVerifier = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_BroadcastOp : Scrimp_MoveOp<"broadcast", [Scrimp_Differentiable], ["isFreeInKernel"],
                                      Scrimp_LinearDimensions, Scrimp_Precision> {
  let summary = "Repeats a tensor along dimensions, as NumPy does";
  let description = [{
    The operand's shape is aligned to the right of the result's; each of its dimensions is the result's or 1. The
    gradient is the sum over the repeated dimensions.
  }];
  let arguments = (ins Scrimp_Tensor:$x);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_ReshapeOp : Scrimp_Op<"reshape", [Pure, Scrimp_Eval, Scrimp_Differentiable, CostOp, PrecisionOp,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>, AliasOp,
    DeclareOpInterfaceMethods<BatchSplitOp, Scrimp_LinearDimensions>]> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins Scrimp_Tensor:$x);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
  }];
}

def Scrimp_TransposeOp : Scrimp_MoveOp<"transpose", [Scrimp_Differentiable],
                                      ["isFreeInKernel", "keepsRows", "placesOperands", "emitPlace"], Scrimp_LinearDimensions,
                                      Scrimp_Precision> {
  let summary = "Result dimension i is operand dimension permutation[i]";
  let arguments = (ins Scrimp_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x $permutation attr-dict `:` type($x) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::llvm::ArrayRef<int64_t>":$permutation)>];
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_SliceOp : Scrimp_MoveOp<"slice", [Scrimp_Differentiable], ["isFreeInKernel", "keepsRows"],
                                  ["getDimensionRule", "isLinearIn", "buildPiece"], Scrimp_Precision> {
  let summary = "result[i] = operand[starts + i * strides]; strides may be negative";
  let arguments = (ins Scrimp_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$strides);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x $starts $strides attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = moveDeclaration # [{
    int64_t getMovedBytes() { return 2 * bytesOf(getY()); }
  }];
  let extraClassDefinition = mapDefinition;
}

def Scrimp_PadOp : Scrimp_MoveOp<"pad", [Scrimp_Differentiable], [],
                                ["getDimensionRule", "isLinearIn", "buildPiece"], Scrimp_Precision> {
  let summary = "result[starts + i * strides] = operand[i], `value` elsewhere: the adjoint of slice";
  let arguments = (ins Scrimp_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$strides,
                   DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x $starts $strides attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_ConcatOp : Scrimp_MoveOp<"concat", [Scrimp_Differentiable], ["placesOperands", "emitPlace"], Scrimp_LinearDimensions,
                                   Scrimp_Precision> {
  let summary = "Joins tensors along a dimension";
  let arguments = (ins Variadic<Scrimp_Tensor>:$xs, I64Attr:$dim);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$xs attr-dict `:` type($xs) `->` type($y)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_GatherOp : Scrimp_MoveOp<"gather", [Scrimp_Differentiable], [], Scrimp_LinearDimensions,
                                   Scrimp_Precision> {
  let summary = "Takes slices of `x` along `dim` at `indices`";
  let description = [{
    result[a..., i..., b...] = x[a..., indices[i...], b...], a and b the dimensions before and after `dim`. Negative
    indices count from the end. The interpreter rejects an index out of range; kernels clamp it (the runtime has checked
    the user's data). The gradient adds up repeated indices. The slice at `padding`, where that is given, is read like any
    other and gets no gradient (PyTorch's padding_idx).
  }];
  let arguments = (ins Scrimp_Tensor:$x, Scrimp_IndexTensor:$indices, I64Attr:$dim, OptionalAttr<I64Attr>:$padding);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$indices, "int64_t":$dim,
                             CArg<"std::optional<int64_t>", "{}">:$padding)>];
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = moveDeclaration # [{
    int64_t getMovedBytes() { return 2 * bytesOf(getY()) + bytesOf(getIndices()); }
  }];
  let extraClassDefinition = mapDefinition;
}

def Scrimp_ScatterAddOp : Scrimp_RowsOp<"scatter_add", [Scrimp_Differentiable, Scrimp_UpdatesAcc, AccumulatingOp],
                                        ["mayOverwrite"], Scrimp_LinearDimensions, Scrimp_Precision> {
  let summary = "The adjoint of gather: zeros, or `acc`, with `updates` added at `indices` along `dim`";
  let description = [{
    result[a..., indices[i...], b...] += updates[a..., i..., b...], in row-major order of i. The result's shape is the
    gathered operand's. Sums are in the element type, so that is f32 or f64. With `acc` the sums begin with its
    elements, in its bytes.
  }];
  let arguments = (ins Scrimp_WideFloatTensor:$updates, Scrimp_IndexTensor:$indices, I64Attr:$dim,
                       Optional<Scrimp_WideFloatTensor>:$acc);
  let results = (outs Scrimp_WideFloatTensor:$y);
  let assemblyFormat = [{
    $updates `,` $indices (`onto` `(` $acc^ `:` type($acc) `)`)? attr-dict `:` type($updates) `,` type($indices) `->`
    type($y)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$updates, "::mlir::Value":$indices, "int64_t":$dim)>];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

#endif
