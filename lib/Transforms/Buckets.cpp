#include "Buckets.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;

static std::string typeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

void Bucket::layOut() {
  SmallVector<BucketMember> ordered;
  for (bool decay : {true, false})
    llvm::copy_if(members, std::back_inserter(ordered), [=](const BucketMember &m) { return m.decay == decay; });
  members = std::move(ordered);
  int64_t offset = 0;
  for (BucketMember &member : members) {
    member.offset = offset;
    offset += alignedElements(member);
  }
}

int64_t Bucket::size() const {
  if (members.empty())
    return 0;
  return members.back().offset + alignedElements(members.back());
}

int64_t Bucket::alignedElements(const BucketMember &member) const {
  return llvm::alignTo(member.type.getNumElements(), kAlignment / elementBytesOf(narrowest ? narrowest : elementType));
}

const BucketMember *Bucket::find(StringRef name) const {
  auto *found = llvm::find_if(members, [&](const BucketMember &m) { return m.name == name; });
  return found == members.end() ? nullptr : found;
}

/// {name, offset, shape} and what `extra` adds.
static DictionaryAttr memberAttr(Builder &builder, const BucketMember &member, StringRef suffix,
                                 ArrayRef<NamedAttribute> extra) {
  SmallVector<NamedAttribute> entries(extra);
  entries.push_back(builder.getNamedAttr("name", builder.getStringAttr(member.name + suffix)));
  entries.push_back(builder.getNamedAttr("offset", builder.getI64IntegerAttr(member.offset)));
  entries.push_back(builder.getNamedAttr("shape", builder.getDenseI64ArrayAttr(member.type.getShape())));
  return builder.getDictionaryAttr(entries);
}

static DictionaryAttr bucketAttr(Builder &builder, const Twine &name, NamedAttribute role,
                                 ArrayRef<Attribute> members) {
  return builder.getDictionaryAttr({builder.getNamedAttr(ScrimpDialect::kName, builder.getStringAttr(name)), role,
                                    builder.getNamedAttr("scrimp.members", builder.getArrayAttr(members))});
}

DictionaryAttr Bucket::parameterAttributes(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<Attribute> table;
  for (const BucketMember &member : members) {
    SmallVector<NamedAttribute> extra;
    for (StringRef key : {"aliases", "init", "reason"})
      if (Attribute value = member.attributes.get(("scrimp." + key).str()))
        extra.push_back(builder.getNamedAttr(key, value));
    if (kind == "trainable")
      extra.push_back(builder.getNamedAttr("group", builder.getStringAttr(member.decay ? "decay" : "no_decay")));
    table.push_back(memberAttr(builder, member, "", extra));
  }
  return bucketAttr(builder, "bucket." + kind + "." + typeName(elementType),
                    builder.getNamedAttr(ScrimpDialect::kParam, builder.getStringAttr(kind)), table);
}

DictionaryAttr Bucket::stateAttributes(MLIRContext *context, StringRef state) const {
  Builder builder(context);
  NamedAttribute zeros = builder.getNamedAttr(
      "init", builder.getDictionaryAttr(builder.getNamedAttr("kind", builder.getStringAttr("zeros"))));
  SmallVector<Attribute> table;
  for (const BucketMember &member : members)
    table.push_back(memberAttr(builder, member, ("." + state).str(), zeros));
  return bucketAttr(builder, "bucket." + state + "." + typeName(elementType),
                    builder.getNamedAttr(ScrimpDialect::kState, builder.getUnitAttr()), table);
}

BlockArgument mlir::scrimp::appendArgument(func::FuncOp function, Type type, DictionaryAttr attributes,
                                           Location loc) {
  (void)function.insertArgument(function.getNumArguments(), type, attributes, loc);
  return function.getArguments().back();
}

/// Drops arguments and keeps scrimp.updates pointing at what it did.
static void eraseArguments(func::FuncOp function, const llvm::BitVector &erased) {
  Builder builder(function.getContext());
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates);
    if (!updates)
      continue;
    int64_t index = updates.getInt(), before = 0;
    for (int64_t j = 0; j < index; ++j)
      before += erased.test(j);
    function.setResultAttr(i, ScrimpDialect::kUpdates, builder.getI64IntegerAttr(index - before));
  }
  (void)function.eraseArguments(erased);
}

SmallVector<BlockArgument> mlir::scrimp::replaceByBuckets(func::FuncOp function, ArrayRef<Bucket> buckets) {
  unsigned former = function.getNumArguments();
  SmallVector<BlockArgument> arguments;
  for (const Bucket &bucket : buckets)
    arguments.push_back(appendArgument(function, RankedTensorType::get({bucket.size()}, bucket.elementType),
                                       bucket.parameterAttributes(function.getContext()), function.getLoc()));
  llvm::BitVector erased(function.getNumArguments());
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  for (unsigned i = 0; i < former; ++i) {
    if (!function.getArgAttr(i, ScrimpDialect::kParam))
      continue;
    std::string name = argumentName(function, i);
    for (auto [bucket, whole] : llvm::zip(buckets, arguments)) {
      const BucketMember *member = bucket.find(name);
      if (!member)
        continue;
      BlockArgument argument = function.getArgument(i);
      if (!argument.use_empty())
        argument.replaceAllUsesWith(
            ViewOp::create(builder, argument.getLoc(), argument.getType(), whole, member->offset));
      erased.set(i);
      break;
    }
  }
  // Erasing shifts the arguments but keeps the objects: only indices into the function change.
  eraseArguments(function, erased);
  return arguments;
}
