//===- RoleAttributes.td - what arguments of graph functions are, and what they are compiled for --------------------===//
//
// The attributes that are more than a word or a number; ScrimpBase.td lists the keys of all.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_ROLE_ATTRIBUTES_TD
#define SCRIMP_ROLE_ATTRIBUTES_TD

include "scrimp/Dialect/ScrimpBase.td"

def Scrimp_MemberAttr : AttrDef<Scrimp_Dialect, "Member"> {
  let mnemonic = "member";
  let summary = "A tensor that lies in a bucket";
  let description = [{
    Elements [offset, offset + size of `shape`) of the bucket are the tensor `name`, row by row; it has further names
    `aliases`, begins as `init` says (of a parameter: scrimp.init) and has its role for `reason`.
  }];
  let parameters = (ins "StringAttr":$name, "int64_t":$offset, "DenseI64ArrayAttr":$shape,
                        OptionalParameter<"ArrayAttr">:$aliases, OptionalParameter<"DictionaryAttr">:$init,
                        OptionalParameter<"StringAttr">:$reason);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getNumElements() { return productOf(getShape().asArrayRef()); }
    int64_t getEnd() { return getOffset() + getNumElements(); }
  }];
}

def Scrimp_BucketAttr : AttrDef<Scrimp_Dialect, "Bucket"> {
  let mnemonic = "bucket";
  let summary = "What lies in a flat argument";
  let description = [{
    Tensors of one block of the model, one element type and one group of the optimizer ("decay", "no_decay"; none where
    nothing is updated), or a state of each of them, in `elements` elements; gaps hold zeros. Where the argument has fewer, it is the part of a
    rank, of which there are elements / size. A part takes elements wherever they fall, or, with `owners`, whole tensors:
    none lies in two of so many parts.
  }];
  let parameters = (ins OptionalParameter<"StringAttr">:$block, OptionalParameter<"StringAttr">:$group,
                        "int64_t":$elements, DefaultValuedParameter<"int64_t", "1">:$owners, "ArrayAttr":$members);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    auto getTensors() { return getMembers().getAsRange<MemberAttr>(); }
  }];
}

def Scrimp_TargetKind : I32EnumAttr<"TargetKind", "What runs a program", [
    I32EnumAttrCase<"cpu", 0>, I32EnumAttrCase<"emulated", 1>, I32EnumAttrCase<"cuda", 2>]> {
  let cppNamespace = "::mlir::scrimp";
  let genSpecializedAttr = 0;
}

def Scrimp_TargetAttr : AttrDef<Scrimp_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "What a program is compiled for";
  let description = [{
    Of a module, under `scrimp.target`: `cpu` with the most threads that will run the program, `cuda`, or `emulated`, the
    code of a CUDA device on a CPU. A module without one is for one thread of a CPU. Scratch, the ways in which ops
    become code, and what a library does for a kernel follow from it. With `tf32` its products of f32 round operands to
    TF32.
  }];
  let parameters = (ins EnumParameter<Scrimp_TargetKind>:$kind, DefaultValuedParameter<"int64_t", "1">:$workers,
                        DefaultValuedParameter<"bool", "false">:$tf32);
  let assemblyFormat = "`<` $kind (`,` `workers` `=` $workers^)? (`,` `tf32` `=` $tf32^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// That of the module around `op`.
    static TargetAttr of(::mlir::Operation *op);
    /// Whether kernels are written for a device of many threads, apart from the host.
    bool isDevice() { return getKind() != ::mlir::scrimp::TargetKind::cpu; }
    /// Whether its library's products can be a LinearOp: with bias, addend, epilogue and sums of an operand.
    bool hasEpilogues() { return isDevice(); }
    /// Whether each of its library's products has a workspace of a size of its own (runtime/workspace.h), rather than what
    /// a CPU's takes.
    bool hasProductWorkspace() { return getKind() == ::mlir::scrimp::TargetKind::cuda; }
    /// Buffers, and tensors in buckets, begin at multiples of so many bytes.
    int64_t getAlignment() { return isDevice() ? 4 * kAlignment : kAlignment; }
  }];
}

#endif
