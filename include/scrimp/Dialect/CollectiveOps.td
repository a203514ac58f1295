//===- CollectiveOps.td - what ranks exchange -----------------------------------------------------------------------===//
//
// One program runs on all ranks; the rank is a host scalar (scrimp.scalar = "rank"), `world` their number, fixed at
// compile time. A collective only starts; its result is in flight until the scrimp.wait that is its one reader.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_COLLECTIVE_OPS_TD
#define SCRIMP_COLLECTIVE_OPS_TD

include "scrimp/Dialect/ReductionOps.td"

class Scrimp_CollectiveOp<string mnemonic, list<Trait> traits = [], list<string> splitMethods = Scrimp_Dimensions>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, AsyncOp, DeclareOpInterfaceMethods<CollectiveOp>,
        DeclareOpInterfaceMethods<CostOp, ["getFlops", "getLinkBytes"]>,
        DeclareOpInterfaceMethods<BatchSplitOp, splitMethods>,
        DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily", "mayOverwrite", "buildCommand"]>], traits)> {
  let hasFolder = 1;
  let hasVerifier = 1;
  code collectiveDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Command; }
  }];
  let extraClassDefinition = collectiveDefinition;
}

def Scrimp_AllReduceOp : Scrimp_CollectiveOp<"all_reduce", [AllTypesMatch<["x", "y"]>],
                                             ["getDimensionRule", "isLinearIn"]> {
  let summary = "The sum or the largest of all ranks' values, on every rank";
  let description = [{
    Element by element in the order of the ranks, so that the result has the same bits on all of them: rank 0's, then
    rank 1's, and so on, each step rounded to the type of the sum: f32, f64 for f64, in the end once to the result's.
    Where there is more than one rank, what is sent is rounded to `wire` (bf16 or f16, of f32): the terms, then the sum.
    The largest is as of scrimp.maximum.

    A sum is linear: of what micro-batches add up either the sum or every part of it can be reduced. With `per_step` it
    is the sum.
  }];
  let arguments = (ins Scrimp_ReduceKind:$kind, Scrimp_Tensor:$x, ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world,
                       OptionalAttr<TypeAttr>:$wire, UnitAttr:$per_step);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = [{
    $kind `,` $x `world` $world (`wire` $wire^)? (`per_step` $per_step^)? attr-dict `:` type($x)
  }];
  let builders = [OpBuilder<(ins "::mlir::scrimp::ReduceKind":$kind, "::mlir::Value":$x, "int64_t":$world,
                                 CArg<"::mlir::Type", "{}">:$wire, CArg<"bool", "false">:$perStep)>];
  let extraClassDefinition = collectiveDefinition;
}

def Scrimp_ReduceScatterOp : Scrimp_CollectiveOp<"reduce_scatter",
    [DeclareOpInterfaceMethods<InferTypeOpInterface>], ["getDimensionRule", "isLinearIn"]> {
  let summary = "On rank r, part r of the sum of all ranks' values";
  let description = [{
    The operand falls into `world` equal parts along dimension 0. Sums and `per_step` are those of all_reduce, and so is
    `wire`, but that the sum, which nobody sends, is not rounded to it.
  }];
  let arguments = (ins Scrimp_NumericTensor:$x, ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world,
                       OptionalAttr<TypeAttr>:$wire, UnitAttr:$per_step);
  let results = (outs Scrimp_NumericTensor:$y);
  let assemblyFormat = [{
    $x `world` $world (`wire` $wire^)? (`per_step` $per_step^)? attr-dict `:` type($x) `->` type($y)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "int64_t":$world, CArg<"::mlir::Type", "{}">:$wire,
                                 CArg<"bool", "false">:$perStep)>];
  let extraClassDefinition = collectiveDefinition;
}

def Scrimp_AllGatherOp : Scrimp_CollectiveOp<"all_gather", [DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "All ranks' values behind one another along dimension 0, on every rank";
  let description = [{
    With `use` the result is for one of the operand's uses, whose number tells it from those for others: each gathers anew,
    every micro-batch and the backward pass too, and nothing is kept from one to the next.
  }];
  let arguments = (ins Scrimp_Tensor:$x, ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world, OptionalAttr<I64Attr>:$use);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x `world` $world (`use` $use^)? attr-dict `:` type($x) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "int64_t":$world)>];
  let extraClassDefinition = collectiveDefinition;
}

def Scrimp_CollectiveBroadcastOp : Scrimp_CollectiveOp<"collective_broadcast", [AllTypesMatch<["x", "y"]>]> {
  let summary = "The value of rank `root`, on every rank";
  let arguments = (ins Scrimp_Tensor:$x, I64Attr:$root, ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x `root` $root `world` $world attr-dict `:` type($x)";
  let extraClassDefinition = collectiveDefinition;
}

def Scrimp_WaitOp : Scrimp_Op<"wait", [Pure, AllTypesMatch<["x", "y"]>, Scrimp_Eval,
    DeclareOpInterfaceMethods<CostOp, ["getFlops", "getMovedBytes"]>,
    DeclareOpInterfaceMethods<AliasOp, ["hasCode"]>, DeclareOpInterfaceMethods<BatchSplitOp, ["isLinearIn"]>,
    DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily", "mayOverwrite", "buildCommand"]>]> {
  let summary = "What is in flight, once it has arrived";
  let description = [{
    The operand, in its own bytes: the only reader of the result of an op that starts something (AsyncOp), in the same
    block. Until here that op's operands keep their contents, and nothing else touches its results.
  }];
  let arguments = (ins Scrimp_Tensor:$x);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Command; }
  }];
}

def Scrimp_RankScalar : 0DTensorOf<[I64]>,
                        BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

def Scrimp_ShardOp : Scrimp_Op<"shard", [Pure, Scrimp_Eval, CostOp,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<KernelOp, ["getKernelFamily"]>,
    DeclareOpInterfaceMethods<AliasOp, ["getTie"]>,
    DeclareOpInterfaceMethods<BatchSplitOp, Scrimp_LinearDimensions>]> {
  let summary = "This rank's part of a value that every rank holds whole";
  let description = [{
    Part `rank` of `world` equal parts along dimension 0, inside the operand: no copy. `rank` is the host's scalar: the
    runtime knows the place by its own number.
  }];
  let arguments = (ins Scrimp_Tensor:$whole, Scrimp_RankScalar:$rank, ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$whole `,` $rank `world` $world attr-dict `:` type($whole) `->` type($y)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::View; }
  }];
}

#endif
