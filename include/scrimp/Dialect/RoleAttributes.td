//===- RoleAttributes.td - what arguments of graph functions are ---------------------------------------------------===//
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
    rank, of which there are elements / size.
  }];
  let parameters = (ins OptionalParameter<"StringAttr">:$block, OptionalParameter<"StringAttr">:$group,
                        "int64_t":$elements, "ArrayAttr":$members);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    auto getTensors() { return getMembers().getAsRange<MemberAttr>(); }
  }];
}

#endif
