//===- StructureOps.td - buckets and kernels -----------------------------------------------------------------------===//
#ifndef SCRIMP_STRUCTURE_OPS_TD
#define SCRIMP_STRUCTURE_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_ViewOp : Scrimp_Op<"view", [Pure, Scrimp_Eval, CostOp,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>,
    DeclareOpInterfaceMethods<AliasOp, ["getAliasOffset"]>,
    DeclareOpInterfaceMethods<BatchSplitOp, Scrimp_LinearDimensions>]> {
  let summary = "A piece of a flat bucket under a shape of its own";
  let description = [{
    Elements [offset, offset + size of the result) of a rank-1 tensor. The result lies inside the operand: no copy.
  }];
  let arguments = (ins Scrimp_Tensor:$bucket, I64Attr:$offset);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$bucket `at` $offset attr-dict `:` type($bucket) `->` type($y)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
  }];
}

def Scrimp_PackOp : Scrimp_Op<"pack", [Pure, AllTypesMatch<["bucket", "y"]>, Scrimp_Eval, CostOp,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>,
    DeclareOpInterfaceMethods<AliasOp, ["getAliasOffset", "getPlacedOperand"]>,
    DeclareOpInterfaceMethods<BatchSplitOp, Scrimp_LinearDimensions>]> {
  let summary = "A flat bucket with one piece replaced";
  let description = [{
    Elements [offset, offset + size of `piece`) become `piece`'s; the others stay. The result is the bucket's own bytes,
    and `piece` must have been computed there: no copy.
  }];
  let arguments = (ins Scrimp_Tensor:$bucket, Scrimp_Tensor:$piece, I64Attr:$offset);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$piece `into` $bucket `at` $offset attr-dict `:` type($piece) `,` type($bucket)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$bucket, "::mlir::Value":$piece, "int64_t":$offset)>];
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
  }];
}

def Scrimp_KernelRegionOp : Scrimp_Op<"kernel", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">,
    Scrimp_Eval, DeclareOpInterfaceMethods<CostOp, ["getFlops"]>]> {
  let summary = "Graph ops that one kernel computes";
  let description = [{
    Made by scrimp-form-kernels. The body's arguments are the operands; its ops keep their own roundings. All values
    that the body yields are results.
  }];
  let arguments = (ins Variadic<Scrimp_Tensor>:$inputs);
  let results = (outs Variadic<Scrimp_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

def Scrimp_YieldOp : Scrimp_Op<"yield", [Pure, Terminator]> {
  let summary = "The results of a region";
  let arguments = (ins Variadic<Scrimp_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ (void)$_builder; (void)$_state; }]>];
}

#endif
