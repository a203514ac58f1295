//===- ScrimpInterfaces.td - what an op knows of itself -----------------------------------------------------------===//
//
// Passes speak to these interfaces and never name an op. Adding an op means implementing the ones that fit.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_INTERFACES_TD
#define SCRIMP_INTERFACES_TD

include "mlir/IR/OpBase.td"

def EvalOp : OpInterface<"EvalOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    The meaning of an op as a function from values to values: the oracle for code generation, and constant folding.
    Floats arrive as doubles. Results arrive allocated with the op's result types; the caller rounds them to those
    types afterwards when it evaluates exactly typed (see Eval/Interpreter.h).
  }];
  let methods = [
    InterfaceMethod<[{
      Computes `results` from `operands`. Fails after an error at the op (an index out of range, say).
    }], "::llvm::LogicalResult", "eval",
      (ins "::llvm::ArrayRef<const ::mlir::scrimp::HostTensor *>":$operands,
           "::llvm::MutableArrayRef<::mlir::scrimp::HostTensor>":$results)>
  ];
}

def DifferentiableOp : OpInterface<"DifferentiableOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    Reverse-mode differentiation of one op. The values that `buildGradient` uses are what the op needs saved.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradients of the operands. `resultGrads[i]` is the gradient of result i, null where it is zero (at
      least one is not null). Only operands with `needed[i]` are asked for; the others must cost nothing: no op, no
      saved value. Sets `operandGrads[i]` (null: zero), of the operand's type; it arrives sized and null.
    }], "void", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
           "::llvm::ArrayRef<bool>":$needed, "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>,
    InterfaceMethod<[{
      Whether a gradient can flow from some result to this operand. Operands of an integer type never carry one.
    }], "bool", "isDifferentiableOperand", (ins "unsigned":$operand), "",
      [{ return ::mlir::scrimp::isFloatTensor($_op->getOperand(operand)); }]>
  ];
}

def TrainModeOp : OpInterface<"TrainModeOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op that behaves one way in training and another in evaluation: dropout, batch normalization with the statistics
    of the batch.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds what the op is in evaluation (the builder stands at the op) and returns the replacement of every result,
      of the result's type. Results that exist to update state across steps are replaced by that state unchanged.
    }], "::llvm::SmallVector<::mlir::Value>", "buildEvaluation", (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CostOp : OpInterface<"CostOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{ What an op costs, for the planner, the scheduler and reports. }];
  let methods = [
    InterfaceMethod<"Floating-point operations (a multiply-add counts two).", "int64_t", "getFlops", (ins), "",
      [{ return ::mlir::scrimp::defaultFlops($_op); }]>,
    InterfaceMethod<"Bytes of tensors that are read and written, scratch apart.", "int64_t", "getMovedBytes", (ins), "",
      [{ return ::mlir::scrimp::defaultMovedBytes($_op); }]>,
    InterfaceMethod<"Bytes that a rank sends to others, on average over the ranks.", "int64_t", "getLinkBytes", (ins), "",
      [{ return 0; }]>
  ];
}

def KernelOp : OpInterface<"KernelOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    How an op becomes code. Its family says which methods apply:

    - `View`: no code; the result lies in bytes of an operand (see AliasOp).
    - `Map`: every element of every result is a function of some elements of the operands: `emitElement`. All results
      have one shape. Fusion is composition of these functions: the `load` callback may compute an element by the
      producer's own `emitElement`.
    - `Rows`: `getNumUnits` independent units of work, each emitted by `emitUnit` as loops over loads and stores;
      units may run on any thread in any order, and may not read what other units write.
    - `Library`: one call of a runtime function: `getLibraryCall`. Buffers are operands, results, then workspace.
    - `Command`: one command of another kind: `buildCommand`.

    Arithmetic on f16 and bf16 is done in f32 and rounded once per op at its result (design, section 3).
  }];
  let methods = [
    InterfaceMethod<"The family.", "::mlir::scrimp::KernelFamily", "getKernelFamily", (ins)>,
    InterfaceMethod<[{
      Map: emits the elements of all results at index `ivs` (index values, one per dimension of the results).
    }], "::llvm::SmallVector<::mlir::Value>", "emitElement",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$ivs,
           "::mlir::scrimp::LoadFn":$load), "", [{ llvm_unreachable("not a map op"); }]>,
    InterfaceMethod<[{
      Map: whether the element at `ivs` reads this operand at `ivs` alone. Such an operand of the result's shape may
      be computed in the same kernel, and be overwritten by a result of the same byte width.
    }], "bool", "isPointwiseOperand", (ins "unsigned":$operand), "", [{ return false; }]>,
    InterfaceMethod<[{ Rows: how many units there are. }], "int64_t", "getNumUnits", (ins), "",
      [{ llvm_unreachable("not a rows op"); }]>,
    InterfaceMethod<[{
      Rows: emits unit `unit` (an index value). `workspace` holds memrefs of the types getWorkspaceTypes gave; they are
      shared by all units, so a unit may touch only its own part. `load` of operand number (operands + r) reads result
      r back, where this unit has stored it.
    }], "void", "emitUnit",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$unit,
           "::mlir::scrimp::LoadFn":$load, "::mlir::scrimp::StoreFn":$store, "::mlir::ValueRange":$workspace), "",
      [{ llvm_unreachable("not a rows op"); }]>,
    InterfaceMethod<[{
      Rows, Library: scratch buffers, planned like results but dead after the op. `workers` is the most threads that
      will run the program.
    }], "::llvm::SmallVector<::mlir::RankedTensorType>", "getWorkspaceTypes", (ins "int64_t":$workers), "",
      [{ return {}; }]>,
    InterfaceMethod<[{
      Whether result `result` may take operand `operand`'s bytes (both have the same size) when the operand dies here.
    }], "bool", "mayOverwrite", (ins "unsigned":$operand, "unsigned":$result), "", [{
      if ($_op.getKernelFamily() != ::mlir::scrimp::KernelFamily::Map)
        return false;
      return $_op.isPointwiseOperand(operand);
    }]>,
    InterfaceMethod<[{
      Whether computing this op again inside each consumer's kernel costs less than storing it (a broadcast, an iota, a
      move that scrimp-arrange-moves has left to its readers).
    }], "bool", "isFreeInKernel", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Map: whether every element of result 0 is one of operand 0, and elements next to each other in the last dimension
      are so there too: a kernel may read the operand instead for the same memory traffic.
    }], "bool", "keepsRows", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Map: whether result 0 is made of all elements of the operands, each once, and rows stay rows: what computes an
      operand may store its elements where they go (`emitPlace`) instead of the operand.
    }], "bool", "placesOperands", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Where `placesOperands`: the indices in result 0 of the element of operand `operand` at `ivs`.
    }], "::llvm::SmallVector<::mlir::Value>", "emitPlace",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "unsigned":$operand, "::mlir::ValueRange":$ivs), "",
      [{ llvm_unreachable("places no operands"); }]>,
    InterfaceMethod<[{
      Rows: whether each element of result `result` is stored once and never read back: maps that read it at its own index
      can then be computed where it would be stored, and store theirs.
    }], "bool", "mayFinish", (ins "unsigned":$result), "", [{ return false; }]>,
    InterfaceMethod<[{
      Builds ops that compute the results on a target that has neither a library function nor one kernel for this op.
      Nothing: the op stays.
    }], "::llvm::SmallVector<::mlir::Value>", "buildExpansion",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::scrimp::TargetAttr":$target), "", [{ return {}; }]>,
    InterfaceMethod<"Library: the runtime function and its scalar arguments.", "::mlir::scrimp::LibraryCall",
      "getLibraryCall", (ins), "", [{ llvm_unreachable("not a library op"); }]>,
    InterfaceMethod<[{
      Command: builds the command, an op of scrimp.cmd, at the builder's insertion point. `buffers` are the bytes of the
      operands, then of the results; `event` is the number of what the op starts or ends (AsyncOp); `seconds` may be null.
    }], "void", "buildCommand",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::scrimp::RangeAttr>":$buffers, "int64_t":$event,
           "::mlir::FloatAttr":$seconds), "", [{ llvm_unreachable("not a command op"); }]>
  ];
}

def BatchSplitOp : OpInterface<"BatchSplitOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    How an op falls into pieces when a batch is split, in time or in space: which dimensions of its operands and results
    run over the same indices, and how the op is built for some of them. By default an elementwise op.
  }];
  let methods = [
    InterfaceMethod<[{
      The indices that the op runs over. A piece of the op takes some of one factor's indices: of every operand and
      result that has the factor it takes or gives those alone; results without it add up over the pieces. Operands
      without it are the same for all pieces. What the op cannot be cut along has no splitting factor.
    }], "::mlir::scrimp::DimensionRule", "getDimensionRule", (ins), "",
      [{ return ::mlir::scrimp::elementwiseRule($_op); }]>,
    InterfaceMethod<[{
      Whether the results are linear in the operands marked, taken together, whatever the others are: then sums of these
      operands over pieces may be taken after the op instead of before it. False is always safe.
    }], "bool", "isLinearIn", (ins "::llvm::ArrayRef<bool>":$operands), "", [{ return false; }]>,
    InterfaceMethod<[{
      Builds the op for a piece at the builder's insertion point: `operands` and `types` (of the results) are those of the
      piece. By default the same op with other types.
    }], "::llvm::SmallVector<::mlir::Value>", "buildPiece",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$types,
           "const ::mlir::scrimp::BatchPiece &":$piece), "",
      [{ return ::mlir::scrimp::cloneForPiece($_op, builder, operands, types); }]>,
    InterfaceMethod<[{
      Builds an op that takes statistics (FactorKind::Statistics) for a piece, from the statistics of all pieces, which are
      there at once: `operands` are those of the piece. Results with samples are the piece's; the others are the
      statistics, or what the piece adds to a sum (DimensionRule::givesStatistics).
    }], "::llvm::SmallVector<::mlir::Value>", "buildSharedPiece",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "const ::mlir::scrimp::SharedBatch &":$batch),
      "", [{ llvm_unreachable("takes no statistics"); }]>
  ];
}

def PrecisionOp : OpInterface<"PrecisionOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    What an op wants of the types of its floats when a model that is written in f32 computes in 16 bits. Ops without the
    interface keep the types they have.
  }];
  let methods = [
    InterfaceMethod<[{
      By default as the op's kernel family has it: a library call computes from low values, rows are computed in f32
      from low values into low values, maps in f32, views as their operand is; all floats are of one type.
    }], "::mlir::scrimp::PrecisionRule", "getPrecisionRule", (ins), "",
      [{ return ::mlir::scrimp::defaultPrecisionRule($_op); }]>
  ];
}

def AliasOp : OpInterface<"AliasOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    Results that occupy bytes of operands. A view takes a piece out: the result lies inside the operand. A pack puts one
    in: the result is the bucket whole, and the piece must have been computed at its place there. Both have no code. An
    update in place shares bytes and has code: every reader of the old contents must come before it.

    The planner never inserts a copy; what cannot be laid out so is an error of the pass that made it.
  }];
  let methods = [
    InterfaceMethod<"Where result `result` lies; none: in bytes of its own. By default where operand 0 does.",
      "::std::optional<::mlir::scrimp::Tie>", "getTie", (ins "unsigned":$result), "",
      [{ return ::mlir::scrimp::Tie(); }]>,
    InterfaceMethod<"Whether the op does anything when the program runs. All results of one that does not are tied.",
      "bool", "hasCode", (ins), "", [{ return false; }]>
  ];
}

def AsyncOp : OpInterface<"AsyncOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op that only starts something, which another op ends: until then it is busy. Its operands must keep their contents
    and nothing else may touch its results, which have no other reader than that op.
  }];
  let methods = [
    InterfaceMethod<"The op that ends it, in the same block; null if nothing reads the result.", "::mlir::Operation *",
      "getEnd", (ins), "", [{ return $_op->use_empty() ? nullptr : *$_op->user_begin(); }]>
  ];
}

def CollectiveOp : OpInterface<"CollectiveOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op that all ranks run together, the same one at the same point of the program: otherwise they would
    wait for each other for ever.
  }];
  let methods = [
    InterfaceMethod<"The number of ranks.", "int64_t", "getNumRanks", (ins), "", [{ return $_op.getWorld(); }]>,
    InterfaceMethod<"What the ranks send each other (Planner/Communication.h).", "::mlir::scrimp::planner::Exchange",
      "getExchange", (ins)>,
    InterfaceMethod<[{
      Whether the result is for one use alone: micro-batches and the backward pass run the op again instead of keeping it.
    }], "bool", "isForOneUse", (ins), "", [{ return $_op->hasAttr("use"); }]>,
    InterfaceMethod<"Whether the results are the same on all ranks, whatever the operands are.", "bool",
      "givesSameOnAllRanks", (ins)>
  ];
}

def HostCheckOp : OpInterface<"HostCheckOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op without code at whose result 0, one float, the host looks before anything that comes later runs: where that is
    NaN or infinite the rest of the step is left out.
  }];
  let methods = [
    InterfaceMethod<"The parameter whose gradient the number tells of, for messages.", "::llvm::StringRef",
      "getChecked", (ins)>
  ];
}

def AccumulatingOp : OpInterface<"AccumulatingOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op that can add its result 0 to what a buffer holds already, instead of storing it for an add that follows (a
    matrix product, a scatter). With a base the result lies in the base's bytes and is the sum of the two, rounded as the
    op's `eval` says: other bits than those of the op and an add, so the choice is made before rematerialization.
  }];
  let methods = [
    InterfaceMethod<"What the op adds to; null: nothing.", "::mlir::Value", "getBase", (ins), "",
      [{ return $_op.getAcc(); }]>,
    InterfaceMethod<"Sets what the op, which has none, adds to: a value of result 0's type that has no other use.", "void",
      "setBase", (ins "::mlir::Value":$base), "", [{ $_op.getAccMutable().assign(base); }]>
  ];
}

def EpilogueOp : OpInterface<"EpilogueOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An elementwise op that a library can compute on the sums of a product before they are rounded (LinearOp): of operand 0,
    and with a second operand at that.
  }];
  let methods = [InterfaceMethod<"What the library calls it.", "::mlir::scrimp::Epilogue", "getEpilogue", (ins)>];
}

def CommandOp : OpInterface<"CommandOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{ A command of a program (scrimp.cmd.*), as the runtime runs it. }];
  let methods = [
    InterfaceMethod<"The parts of the arena that it touches itself, not through commands inside it.",
      "::llvm::SmallVector<::mlir::scrimp::RangeAttr>", "getRanges", (ins)>
  ];
}

def BodyOp : OpInterface<"BodyOp"> {
  let cppNamespace = "::mlir::scrimp";
  let description = [{
    An op whose region holds ops of the graph that run as they stand, several times or perhaps not at all: a list of
    commands inside the list. (The region of a scrimp.kernel is not such a list, but what one command computes.) The
    body has one block, is isolated from above and ends in a scrimp.yield, one value per carried argument. It is
    planned once: what it needs for an iteration has the same bytes in each.
  }];
  let methods = [
    InterfaceMethod<"The body.", "::mlir::Block &", "getBodyBlock", (ins)>,
    InterfaceMethod<"How often the body runs, at the most.", "int64_t", "getIterations", (ins)>,
    InterfaceMethod<"What the body's argument number `argument` stands for.", "::mlir::scrimp::BodyArgument",
      "getBodyArgument", (ins "unsigned":$argument)>,
    InterfaceMethod<[{
      The operand, an i1, on which it depends whether the body runs; none: it always does. Where it does not run,
      results are what the carried operands were.
    }], "::std::optional<unsigned>", "getConditionOperand", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      EvalOp::eval with `runBody` in the place of the interpreter: it is called once an iteration with the values of
      the body's arguments, and fills in what the body yields.
    }], "::llvm::LogicalResult", "evalWith",
      (ins "::llvm::ArrayRef<const ::mlir::scrimp::HostTensor *>":$operands,
           "::llvm::MutableArrayRef<::mlir::scrimp::HostTensor>":$results,
           "::mlir::scrimp::RunBodyFn":$runBody)>
  ];
}

#endif
