//===- ContractionOps.td -------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_CONTRACTION_OPS_TD
#define SCRIMP_CONTRACTION_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_MatmulOp : Scrimp_LibraryOp<"matmul", [Scrimp_Differentiable, Scrimp_UpdatesAcc, AccumulatingOp],
                                       ["getWorkspaceTypes", "mayOverwrite"], Scrimp_LinearDimensions,
                                       Scrimp_Precision> {
  let summary = "Products of matrices: [batch..., m, k] x [batch..., k, n] -> [batch..., m, n]";
  let description = [{
    Both operands have the same rank and the same batch dimensions. With `transpose_a` the first is [batch..., k, m],
    with `transpose_b` the second [batch..., n, k]. Sums are in the element type. Products of f16 and bf16 are exact, their
    sums in f32; the result is that, or rounded once to the operands' type. (bf16: where a processor multiplies it itself,
    subnormal operands and sums may count as 0.) With `acc` the products are added to it, in its bytes.
  }];
  let arguments = (ins Scrimp_FloatTensor:$a, Scrimp_FloatTensor:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       Optional<Scrimp_FloatTensor>:$acc);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = [{
    $a `,` $b (`onto` `(` $acc^ `:` type($acc) `)`)? attr-dict `:` type($a) `,` type($b) `->` type($y)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, CArg<"bool", "false">:$transposeA,
                                 CArg<"bool", "false">:$transposeB)>];
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
  let extraClassDefinition = libraryDefinition;
  let extraClassDeclaration = [{
    int64_t getM(); int64_t getN(); int64_t getK(); int64_t getBatch();
  }];
}

def Scrimp_OperandSums : I64EnumAttr<"OperandSums", "Which operand of a product is summed up as well", [
    I64EnumAttrCase<"a", 1>, I64EnumAttrCase<"b", 2>]> {
  let cppNamespace = "::mlir::scrimp";
}

def Scrimp_LinearOp : Scrimp_LibraryOp<"linear", [Scrimp_UpdatesAcc, AttrSizedOperandSegments],
                                       ["getWorkspaceTypes", "mayOverwrite"], Scrimp_Dimensions, Scrimp_Precision> {
  let summary = "A product of matrices with what follows it done to its sums, rounded once";
  let description = [{
    What libraries of devices compute in one call; scrimp-form-linear makes it of matmul and its readers, and it is a
    matmul where nothing of the following is there. In the type of sums: a b, plus `addend` or `acc` [m, n] (of `acc` the
    result takes the bytes), plus `bias` [n] in every row, then the epilogue: relu, gelu (the tanh form) or gelu_grad,
    the product with the derivative of GELU at `at` [m, n]. Then the result is rounded once to its type, which all of
    these have. A second result of gelu is what it was computed of; one with `sums` is the operand's sums over k (the
    gradient of a bias, beside that of a weight), for which y must have the type of sums, and there must be neither bias
    nor epilogue.
  }];
  let arguments = (ins Scrimp_FloatTensor:$a, Scrimp_FloatTensor:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       Optional<Scrimp_FloatTensor>:$addend, Optional<Scrimp_FloatTensor>:$bias,
                       Optional<Scrimp_FloatTensor>:$at, OptionalAttr<Scrimp_Epilogue>:$epilogue,
                       OptionalAttr<Scrimp_OperandSums>:$sums, Optional<Scrimp_FloatTensor>:$acc);
  let results = (outs Scrimp_FloatTensor:$y, Optional<Scrimp_FloatTensor>:$beside);
  let assemblyFormat = [{
    $a `,` $b (`plus` `(` $addend^ `:` type($addend) `)`)? (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`onto` `(` $acc^ `:` type($acc) `)`)? ($epilogue^)? (`at` `(` $at^ `:` type($at) `)`)? (`sums` $sums^)? attr-dict
    `:` type($a) `,` type($b) `->` type($y) (`,` type($beside)^)?
  }];
  let hasVerifier = 1;
  let extraClassDefinition = libraryDefinition;
  let extraClassDeclaration = [{
    int64_t getM(); int64_t getN(); int64_t getK();
  }];
}

#endif
