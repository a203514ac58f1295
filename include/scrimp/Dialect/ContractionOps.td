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

#endif
