//===- StructureOps.td - buckets, kernels and loops ----------------------------------------------------------------===//
#ifndef SCRIMP_STRUCTURE_OPS_TD
#define SCRIMP_STRUCTURE_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_ViewOp : Scrimp_Op<"view", [Pure, Scrimp_Eval, CostOp,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>,
    DeclareOpInterfaceMethods<AliasOp, ["getTie"]>,
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
    DeclareOpInterfaceMethods<AliasOp, ["getTie"]>,
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
    Scrimp_Eval, DeclareOpInterfaceMethods<CostOp, ["getFlops"]>,
    DeclareOpInterfaceMethods<AliasOp, ["getTie", "hasCode"]>]> {
  let summary = "Graph ops that one kernel computes";
  let description = [{
    Made by scrimp-form-kernels. The body's arguments are the operands; its ops keep their own roundings. All values
    that the body yields are results. What an op inside updates in place, the kernel does.

    `sections`, made by scrimp-join-updates: the kernel is several that have nothing to do with each other, launched at once.
    The numbers are those of each one's results, in order; all its ops are element by element, over the shape of these.
  }];
  let arguments = (ins Variadic<Scrimp_Tensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$sections);
  let results = (outs Variadic<Scrimp_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The results of each section, or of the whole.
    ::llvm::SmallVector<int64_t> getResultCounts();
    /// The first result, and the number of results, of the section that `result` is of.
    std::pair<unsigned, unsigned> getSection(unsigned result);
  }];
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

class Scrimp_BodyOp<string mnemonic, list<Trait> traits = []>
    : Scrimp_Op<mnemonic, !listconcat([Pure, IsolatedFromAbove, AttrSizedOperandSegments,
        SingleBlockImplicitTerminator<"YieldOp">, Scrimp_Eval,
        DeclareOpInterfaceMethods<CostOp, ["getFlops", "getMovedBytes", "getLinkBytes"]>,
        DeclareOpInterfaceMethods<AliasOp, ["getTie", "hasCode"]>,
        DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  let hasVerifier = 1;
}

def Scrimp_AccumulateOp : Scrimp_BodyOp<"accumulate", [DeclareOpInterfaceMethods<BodyOp>]> {
  let summary = "Runs its body `count` times over equal pieces of its operands";
  let description = [{
    Gradient accumulation, and chunks of anything that is independent along a dimension. The body's arguments are, in
    this order: the number of the iteration (a tensor<i64>, from 0 on), the `shared` operands whole, of each `split`
    operand the iteration's piece along its dimension in `dims`, and the accumulators: the `init` operands in the first
    iteration, later what the body yielded in the one before. The results are what it yielded in the last.

    init, argument, yielded value and result share one buffer: the body updates it in place. Pieces are not copied
    either, so they must be contiguous: all dimensions before the one that is split have size 1.

    Of the `split` operands whose numbers are in `filled` only the iteration's piece is in memory: the host fills it before
    the iteration. They are inputs of the function that nothing else reads (scrimp-stream-inputs).

    Positions come from the number of the iteration: sample `i * piece + row` of the whole is row `row` here.
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntMinValue<1>]>:$count, Variadic<Scrimp_Tensor>:$shared,
                       Variadic<Scrimp_Tensor>:$split, Variadic<Scrimp_Tensor>:$inits,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dims,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$filled);
  let results = (outs Variadic<Scrimp_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`shared` `(` $shared^ `:` type($shared) `)`)?
    (`split` `(` $split^ `along` $dims `:` type($split) `)`)?
    (`init` `(` $inits^ `:` type($inits) `)`)? attr-dict-with-keyword $body
  }];
  let builders = [OpBuilder<(ins "int64_t":$count, "::mlir::ValueRange":$shared, "::mlir::ValueRange":$split,
                                 "::llvm::ArrayRef<int64_t>":$dims, "::mlir::ValueRange":$inits)>];
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    /// The type of the piece of `split` operand number `index`.
    ::mlir::RankedTensorType getPieceType(unsigned index);
  }];
}

def Scrimp_ConditionalOp : Scrimp_BodyOp<"conditional", [DeclareOpInterfaceMethods<BodyOp, ["getConditionOperand"]>]> {
  let summary = "Runs its body if a condition holds";
  let description = [{
    The body's arguments are the `shared` operands and the `init` operands; it yields the new values of these. Without
    the condition the results are the `init` operands. init, argument, yielded value and result share one buffer.

    The body is elementwise (kernels of map ops, and views): so it may become a branch of the host or kernels that look
    at the condition themselves.
  }];
  let arguments = (ins 0DTensorOf<[I1]>:$condition, Variadic<Scrimp_Tensor>:$shared, Variadic<Scrimp_Tensor>:$inits);
  let results = (outs Variadic<Scrimp_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $condition (`shared` `(` $shared^ `:` type($shared) `)`)? (`init` `(` $inits^ `:` type($inits) `)`)?
    attr-dict-with-keyword `:` type($condition) $body
  }];
}

def Scrimp_YieldOp : Scrimp_Op<"yield", [Pure, Terminator]> {
  let summary = "The results of a region";
  let arguments = (ins Variadic<Scrimp_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ (void)$_builder; (void)$_state; }]>];
}

#endif
