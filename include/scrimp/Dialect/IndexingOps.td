//===- IndexingOps.td - elements chosen by index tensors, and ops along one dimension -----------------------------===//
//
// Negative indices count from the end. The interpreter rejects an index out of range; kernels clamp it (the runtime has
// checked the user's data).
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_INDEXING_OPS_TD
#define SCRIMP_INDEXING_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_GatherElementsOp : Scrimp_MapOp<"gather_elements", [Scrimp_Differentiable],
                                           precision = Scrimp_Precision> {
  let summary = "result[i] = x[i with entry `dim` replaced by indices[i]] (as torch.gather)";
  let description = [{
    The result has the shape of `indices`, of x's rank; apart from `dim` no dimension of it is larger than x's. The
    gradient adds up repeated indices.
  }];
  let arguments = (ins Scrimp_Tensor:$x, Scrimp_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$indices, "int64_t":$dim)>];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_ScatterElementsAddOp : Scrimp_RowsOp<"scatter_elements_add", [Scrimp_Differentiable],
                                                precision = Scrimp_Precision> {
  let summary = "The adjoint of gather_elements: zeros with `updates` added, in row-major order of the updates";
  let arguments = (ins Scrimp_WideFloatTensor:$updates, Scrimp_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Scrimp_WideFloatTensor:$y);
  let assemblyFormat = "$updates `,` $indices attr-dict `:` type($updates) `,` type($indices) `->` type($y)";
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_GatherNdOp : Scrimp_MapOp<"gather_nd", [Scrimp_Differentiable], precision = Scrimp_Precision> {
  let summary = "Slices of `x` chosen by tuples of indices (as ONNX GatherND)";
  let description = [{
    The last dimension of `indices`, of size k, holds tuples into x's dimensions [batch_dims, batch_dims + k). The result
    has the other dimensions of `indices`, of which the first `batch_dims` are x's as well, then the rest of x's.
  }];
  let arguments = (ins Scrimp_Tensor:$x, Scrimp_IndexTensor:$indices, DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$indices, "int64_t":$batchDims)>];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = mapDefinition;
}

def Scrimp_ScatterReduction : I64EnumAttr<"ScatterReduction", "What an update does to the element it meets", [
    I64EnumAttrCase<"none", 0>, I64EnumAttrCase<"add", 1>]> {
  let cppNamespace = "::mlir::scrimp";
}

def Scrimp_ScatterNdOp : Scrimp_RowsOp<"scatter_nd", [Scrimp_Differentiable, AllTypesMatch<["x", "y"]>],
                                       ["mayOverwrite"], precision = Scrimp_Precision> {
  let summary = "`x` with slices replaced by, or added to, `updates` at tuples of indices (as ONNX ScatterND)";
  let description = [{
    Indices are as in gather_nd. Updates are applied in row-major order: with `none` the last of repeated tuples wins,
    and the gradient takes it that none repeat. `add` on floats needs f32 or f64.
  }];
  let arguments = (ins Scrimp_Tensor:$x, Scrimp_IndexTensor:$indices, Scrimp_Tensor:$updates,
                   Scrimp_ScatterReduction:$reduction, DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = [{
    $reduction `,` $x `,` $indices `,` $updates attr-dict `:` type($x) `,` type($indices) `,` type($updates)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_CumsumOp : Scrimp_RowsOp<"cumsum", [Scrimp_Differentiable, SameOperandsAndResultType]> {
  let summary = "Running sums along `dim`";
  let description = [{
    `exclusive` leaves out the element itself, `reverse` runs from the end. Sums of f16 and bf16 are kept in f32.
  }];
  let arguments = (ins Scrimp_NumericTensor:$x, I64Attr:$dim, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Scrimp_NumericTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_ArgMaxOp : Scrimp_RowsOp<"arg_max", []> {
  let summary = "The index of the largest element along `dim`, which the result lacks";
  let description = [{ The first of equal ones, with `last` the last. A NaN counts as largest. }];
  let arguments = (ins Scrimp_NumericTensor:$x, I64Attr:$dim, UnitAttr:$last);
  let results = (outs Scrimp_IndexTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "int64_t":$dim, CArg<"bool", "false">:$last)>];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_TopKOp : Scrimp_RowsOp<"top_k", [Scrimp_Differentiable]> {
  let summary = "The k largest elements along `dim`, largest first, and their indices";
  let description = [{
    k is the results' size along `dim`. Of equal elements the one with the lower index comes first; a NaN counts as
    largest. The gradient of the values goes to where they came from.
  }];
  let arguments = (ins Scrimp_NumericTensor:$x, I64Attr:$dim);
  let results = (outs Scrimp_NumericTensor:$values, StaticShapeTensorOf<[I64]>:$indices);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($values) `,` type($indices)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "int64_t":$dim, "int64_t":$k)>];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

#endif
