//===- CommandOps.td - the program as the runtime runs it ----------------------------------------------------------===//
//
// One op for each table of runtime/include/scrimp/runtime/program.fbs, with the same fields: what they mean is said
// there. Ops have no operands; they name bytes of the arena.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_COMMAND_OPS_TD
#define SCRIMP_COMMAND_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Scrimp_MemorySpace : I32EnumAttr<"MemorySpace", "Where memory is", [
    I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host", 1>, I32EnumAttrCase<"pinned", 2>]> {
  let cppNamespace = "::mlir::scrimp";
}

def Scrimp_RangeAttr : AttrDef<Scrimp_Dialect, "Range"> {
  let mnemonic = "range";
  let summary = "Bytes that a command touches";
  let description = [{
    `offset : bytes`, then where it moves: `step [s0, s1]`, one per enclosing repeat, outermost first, in bytes per
    iteration (none: it stays), `rank s` bytes per rank, and `in host` or `in pinned` for another space than device.
  }];
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes, ArrayRefParameter<"int64_t">:$strides,
                        "int64_t":$rankStride, "::mlir::scrimp::MemorySpace":$space);
  let builders = [AttrBuilder<(ins "int64_t":$offset, "int64_t":$bytes, CArg<"::llvm::ArrayRef<int64_t>", "{}">:$strides), [{
    return $_get($_ctxt, offset, bytes, strides, 0, ::mlir::scrimp::MemorySpace::device);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Scrimp_RangeArrayAttr : TypedArrayAttrBase<Scrimp_RangeAttr, "array of ranges">;

class Scrimp_CommandOp<string mnemonic, list<Trait> traits = []>
    : Scrimp_Op<"cmd." # mnemonic, !listconcat([DeclareOpInterfaceMethods<CommandOp>], traits)> {
  let hasVerifier = 1;
}

/// An op with commands inside.
class Scrimp_CommandListOp<string mnemonic, list<Trait> traits = []>
    : Scrimp_CommandOp<mnemonic, !listconcat([NoTerminator, SingleBlock], traits)> {
  let regions = (region SizedRegion<1>:$body);
}

//===-- Tables ----------------------------------------------------------------------------------------------------===//

def Scrimp_CmdProgramOp : Scrimp_Op<"cmd.program", [IsolatedFromAbove, SymbolTable, NoTerminator, SingleBlock]> {
  let summary = "A compiled model apart from its machine code";
  let arguments = (ins StrAttr:$model, I64Attr:$fingerprint, I64Attr:$arena_bytes, I64Attr:$alignment,
                       StrAttr:$optimizer, I64Attr:$batch, I64Attr:$tokens_per_sample, I64Attr:$workers,
                       I64Attr:$weights_bytes, BoolAttr:$eval_drops_partial, OptionalAttr<StrArrayAttr>:$unused_inputs,
                       OptionalAttr<StrAttr>:$cpu, OptionalAttr<StrArrayAttr>:$cpu_features,
                       DefaultValuedAttr<I64Attr, "1">:$world, DefaultValuedStrAttr<StrAttr, "cpu">:$target);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$model attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Scrimp_CmdSegmentOp : Scrimp_CommandOp<"segment", [HasParent<"CmdProgramOp">]> {
  let summary = "A contiguous part of the arena";
  let arguments = (ins StrAttr:$name, Scrimp_RangeAttr:$place);
  let assemblyFormat = "$name custom<Range>($place) attr-dict";
}

def Scrimp_CmdTensorOp : Scrimp_CommandOp<"tensor", [HasParent<"CmdProgramOp">]> {
  let summary = "A named tensor that lives across steps";
  let description = [{
    In a bucket that is shared out: `part_elements` is how many of the bucket's elements each rank has at the offset,
    `bucket_offset` which of the bucket's elements is the tensor's first.
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<Scrimp_Tensor>:$type, I64Attr:$offset, StrAttr:$role,
                       StrAttr:$init, DefaultValuedAttr<F64Attr, "0.0">:$a, DefaultValuedAttr<F64Attr, "0.0">:$b,
                       OptionalAttr<I64Attr>:$weights_offset, StrArrayAttr:$aliases, StrAttr:$reason,
                       OptionalAttr<ElementsAttr>:$value, DefaultValuedAttr<I64Attr, "0">:$part_elements,
                       DefaultValuedAttr<I64Attr, "0">:$bucket_offset);
  let assemblyFormat = "$name `:` $type `at` $offset $role `init` $init attr-dict";
}

def Scrimp_CmdCarriedOp : Scrimp_Op<"cmd.carried", [HasParent<"CmdProgramOp">]> {
  let summary = "A tensor that no graph reads, but that checkpoints hold";
  let arguments = (ins StrAttr:$name, StrArrayAttr:$aliases, StrAttr:$dtype, DenseI64ArrayAttr:$shape, I64Attr:$bytes,
                       I64Attr:$weights_offset);
  let assemblyFormat = "$name `:` $dtype $shape attr-dict";
}

def Scrimp_CmdInputOp : Scrimp_CommandOp<"input", [HasParent<"CmdProgramOp">]> {
  let summary = "A tensor that the user's data fills before each step, or piece by piece";
  let arguments = (ins StrAttr:$name, TypeAttrOf<Scrimp_Tensor>:$type, I64Attr:$offset, I64Attr:$batch_dim,
                       OptionalAttr<DenseI64ArrayAttr>:$valid, OptionalAttr<I64Attr>:$ignore, UnitAttr:$streamed);
  let assemblyFormat = "$name `:` $type `at` $offset `batch` $batch_dim attr-dict";
}

def Scrimp_CmdScalarOp : Scrimp_CommandOp<"scalar", [HasParent<"CmdProgramOp">]> {
  let summary = "A one-element tensor that the runtime computes before each step";
  let arguments = (ins StrAttr:$name, TypeAttr:$type, I64Attr:$offset);
  let assemblyFormat = "$name `:` $type `at` $offset attr-dict";
}

def Scrimp_CmdHyperparameterOp : Scrimp_Op<"cmd.hyperparameter", [HasParent<"CmdProgramOp">]> {
  let summary = "A run-time flag with its default";
  let arguments = (ins StrAttr:$name, F64Attr:$value);
  let assemblyFormat = "$name $value attr-dict";
}

def Scrimp_CmdKernelOp : Scrimp_Op<"cmd.kernel", [HasParent<"CmdProgramOp">, Symbol]> {
  let summary = "A kernel of the executable and how many buffers it takes";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$buffers);
  let assemblyFormat = "$sym_name $buffers attr-dict";
}

def Scrimp_CmdGraphOp : Scrimp_Op<"cmd.graph", [HasParent<"CmdProgramOp">, Symbol, NoTerminator, SingleBlock]> {
  let summary = "A list of commands and the values the host reads after it";
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$updates_wait);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Scrimp_CmdOutputOp : Scrimp_CommandOp<"output", [HasParent<"CmdGraphOp">]> {
  let summary = "A value the host reads after the graph has run";
  let description = [{ `partial`: each rank holds its share, and the value is their sum. }];
  let arguments = (ins StrAttr:$name, TypeAttr:$type, I64Attr:$offset, UnitAttr:$partial);
  let assemblyFormat = "$name `:` $type `at` $offset attr-dict";
}

//===-- Commands --------------------------------------------------------------------------------------------------===//

def Scrimp_CmdLaunchOp : Scrimp_CommandOp<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel over its units";
  let description = [{
    The first `reads` buffers are not written through these pointers; 0: any may be. On a device `grid` blocks of
    `block` threads share the units, each block with `shared` bytes.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, I64Attr:$units, I64Attr:$grain, Scrimp_RangeArrayAttr:$buffers,
                       OptionalAttr<F64Attr>:$seconds, DefaultValuedAttr<I64Attr, "0">:$reads,
                       DefaultValuedAttr<I64Attr, "0">:$grid, DefaultValuedAttr<I64Attr, "0">:$block,
                       DefaultValuedAttr<I64Attr, "0">:$shared);
  let assemblyFormat = "$kernel `units` $units `grain` $grain custom<Ranges>($buffers) attr-dict";
}

def Scrimp_CmdCallOp : Scrimp_CommandOp<"call"> {
  let summary = "Calls a function of the runtime's library";
  let description = [{
    `type` is that of its sums; `types` are those of the elements of its operands and results, where they differ from it.
    `reads` is as of launch. `tf32`: operands of f32 are rounded to TF32.
  }];
  let arguments = (ins StrAttr:$function, TypeAttr:$type, DenseI64ArrayAttr:$ints, DenseF64ArrayAttr:$floats,
                       Scrimp_RangeArrayAttr:$buffers, OptionalAttr<F64Attr>:$seconds,
                       OptionalAttr<TypeArrayAttr>:$types, DefaultValuedAttr<I64Attr, "0">:$reads, UnitAttr:$tf32);
  let assemblyFormat = "$function `:` $type `ints` $ints `floats` $floats custom<Ranges>($buffers) attr-dict";
}

def Scrimp_CmdCopyOp : Scrimp_CommandOp<"copy"> {
  let summary = "Copies bytes within the arena";
  let arguments = (ins Scrimp_RangeAttr:$source, Scrimp_RangeAttr:$target);
  let assemblyFormat = "custom<Range>($source) `to` custom<Range>($target) attr-dict";
}

def Scrimp_CmdFillOp : Scrimp_CommandOp<"fill", [HasParent<"CmdRepeatOp">]> {
  let summary = "Reads samples of a streamed input: `samples` more in each iteration, from `first` on";
  let arguments = (ins StrAttr:$input, I64Attr:$first, I64Attr:$samples, Scrimp_RangeAttr:$target);
  let assemblyFormat = "$input `from` $first `samples` $samples custom<Range>($target) attr-dict";
}

def Scrimp_CmdCheckFiniteOp : Scrimp_CommandOp<"check_finite"> {
  let summary = "Ends the graph here if an element is not finite";
  let description = [{
    `agreed`: all ranks have the same value there, so that none goes on alone. `by`, on a device: the kernel that looks.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$name, TypeAttr:$type, I64Attr:$offset, UnitAttr:$agreed,
                       OptionalAttr<StrAttr>:$kernel);
  let assemblyFormat = "$kind $name `:` $type `at` $offset (`by` $kernel^)? attr-dict";
}

def Scrimp_CmdCollectiveOp : Scrimp_CommandOp<"collective"> {
  let summary = "Starts what all ranks do together; the wait for its event ends it";
  let description = [{
    `kind` is one of the schema's; `type` is that of the elements, `wire` that in which they are sent where it is another.
  }];
  let arguments = (ins StrAttr:$kind, TypeAttr:$type, OptionalAttr<TypeAttr>:$wire, OptionalAttr<I64Attr>:$root,
                       Scrimp_RangeAttr:$source, Scrimp_RangeAttr:$target, I64Attr:$event,
                       OptionalAttr<F64Attr>:$seconds);
  let assemblyFormat = [{
    $kind `:` $type (`wire` $wire^)? (`root` $root^)? custom<Range>($source) `to` custom<Range>($target) `event` $event
    attr-dict
  }];
}

def Scrimp_CmdWaitOp : Scrimp_CommandOp<"wait"> {
  let summary = "Waits until what was started under the event is done";
  let arguments = (ins I64Attr:$event);
  let assemblyFormat = "`event` $event attr-dict";
}

def Scrimp_CmdRepeatOp : Scrimp_CommandListOp<"repeat"> {
  let summary = "Runs its commands `count` times; `index` holds the number of the iteration as an i64";
  let arguments = (ins I64Attr:$count, Scrimp_RangeAttr:$index);
  let assemblyFormat = "$count `index` custom<Range>($index) attr-dict-with-keyword $body";
}

def Scrimp_CmdConditionalOp : Scrimp_CommandListOp<"conditional"> {
  let summary = "Runs its launches if the byte at `condition` is not 0";
  let arguments = (ins Scrimp_RangeAttr:$condition);
  let assemblyFormat = "custom<Range>($condition) attr-dict-with-keyword $body";
}

#endif
