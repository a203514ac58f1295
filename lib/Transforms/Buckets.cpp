#include "Buckets.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What a part of a bucket is a multiple of, in bytes: as GPUs fetch memory and as their libraries want it.
static constexpr int64_t kPartAlignment = 256;

std::string Bucket::getName(StringRef state) const {
  std::string name;
  llvm::raw_string_ostream os(name);
  os << "bucket." << block << (block.empty() ? "" : ".") << (isSmall ? "small." : "")
     << (isTrained() ? group : "frozen") << "." << state << (state.empty() ? "" : ".") << elementType;
  if (number > 0)
    os << "." << number + 1;
  return name;
}

/// The largest first, each goes to the rank that has least (R. L. Graham, Bounds on Multiprocessing Timing Anomalies,
/// 1969: within 4/3 of the best).
void Bucket::layOutWhole(int64_t memberAlignment, int64_t partAlignment) {
  SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(0, members.size()));
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::pair(-members[a].type.getNumElements(), a) < std::pair(-members[b].type.getNumElements(), b);
  });
  SmallVector<int64_t> held(ranks);
  SmallVector<int64_t> owner(members.size());
  for (unsigned i : order) {
    int64_t rank = owner[i] = llvm::min_element(held) - held.begin();
    members[i].offset = held[rank];
    held[rank] = llvm::alignTo(held[rank] + members[i].type.getNumElements(), memberAlignment);
  }
  int64_t part = llvm::alignTo(*llvm::max_element(held), partAlignment);
  for (auto [member, rank] : llvm::zip(members, owner))
    member.offset += rank * part;
  // What is empty lies before what begins at its place.
  auto key = [](const BucketMember &m) { return std::tuple(m.offset, m.type.getNumElements(), StringRef(m.name)); };
  llvm::sort(members, [&](const BucketMember &a, const BucketMember &b) { return key(a) < key(b); });
  elements = ranks * part;
}

void Bucket::layOut() {
  int64_t elementBytes = elementBytesOf(narrowest ? narrowest : elementType);
  if (keepsWhole)
    return layOutWhole(alignment / elementBytes, kPartAlignment / elementBytes);
  elements = 0;
  for (BucketMember &member : members) {
    member.offset = elements;
    elements = llvm::alignTo(elements + member.type.getNumElements(), alignment / elementBytes);
  }
  elements = llvm::alignTo(elements, kPartAlignment * ranks / elementBytes);
}

const BucketMember *Bucket::find(StringRef name) const {
  auto *found = llvm::find_if(members, [&](const BucketMember &m) { return m.name == name; });
  return found == members.end() ? nullptr : found;
}

DictionaryAttr Bucket::attributes(MLIRContext *context, StringRef state, NamedAttribute role,
                                  ArrayRef<Attribute> entries) const {
  Builder builder(context);
  auto text = [&](StringRef value) { return value.empty() ? StringAttr() : builder.getStringAttr(value); };
  auto layout = BucketAttr::get(context, text(block), text(group), elements, keepsWhole ? ranks : 1,
                                builder.getArrayAttr(entries));
  return builder.getDictionaryAttr({builder.getNamedAttr(ScrimpDialect::kName, builder.getStringAttr(getName(state))),
                                    role, builder.getNamedAttr(ScrimpDialect::kBucket, layout)});
}

DictionaryAttr Bucket::parameterAttributes(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<Attribute> table;
  for (const BucketMember &member : members)
    table.push_back(MemberAttr::get(context, builder.getStringAttr(member.name), member.offset,
                                    builder.getDenseI64ArrayAttr(member.type.getShape()),
                                    member.attributes.getAs<ArrayAttr>(ScrimpDialect::kAliases),
                                    member.attributes.getAs<DictionaryAttr>(ScrimpDialect::kInit),
                                    member.attributes.getAs<StringAttr>(ScrimpDialect::kReason)));
  StringRef kind = isTrained() ? "trainable" : "frozen";
  return attributes(context, "", builder.getNamedAttr(ScrimpDialect::kParam, builder.getStringAttr(kind)), table);
}

DictionaryAttr Bucket::stateAttributes(MLIRContext *context, StringRef state) const {
  Builder builder(context);
  auto zeros = builder.getDictionaryAttr(builder.getNamedAttr("kind", builder.getStringAttr("zeros")));
  SmallVector<Attribute> table;
  for (const BucketMember &member : members)
    table.push_back(MemberAttr::get(context, builder.getStringAttr(member.name + "." + state), member.offset,
                                    builder.getDenseI64ArrayAttr(member.type.getShape()), {}, zeros, {}));
  return attributes(context, state, builder.getNamedAttr(ScrimpDialect::kState, builder.getUnitAttr()), table);
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

/// The arguments of `function` that are parameters in the bucket, with their members.
static SmallVector<std::pair<BlockArgument, const BucketMember *>> membersOf(func::FuncOp function,
                                                                             const Bucket &bucket) {
  SmallVector<std::pair<BlockArgument, const BucketMember *>> members;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kParam))
      if (const BucketMember *member = bucket.find(argumentName(function, argument.getArgNumber())))
        members.push_back({argument, member});
  return members;
}

Type mlir::scrimp::getReadType(BlockArgument parameter) {
  Type read;
  for (Operation *user : parameter.getUsers()) {
    auto cast = dyn_cast<CastOp>(user);
    Type type = cast ? tensorType(cast.getY()).getElementType() : Type();
    if (!type || (read && type != read) ||
        elementBytesOf(type) >= elementBytesOf(tensorType(parameter).getElementType()))
      return nullptr;
    read = type;
  }
  return read;
}

Type mlir::scrimp::getReadType(func::FuncOp function, const Bucket &bucket) {
  Type read;
  for (auto [argument, member] : membersOf(function, bucket)) {
    if (argument.use_empty())
      continue;
    Type type = getReadType(argument);
    if (!type || (read && type != read))
      return nullptr;
    read = type;
  }
  return read;
}

namespace {
/// A reader of a parameter, past the cast to the type in which it is gathered.
struct Read {
  OpOperand *use;
  const Bucket *bucket;
  const BucketMember *member;
};
} // namespace

/// All readers in the order of the function.
static SmallVector<Read> collectReads(func::FuncOp function, ArrayRef<Bucket> buckets) {
  SmallVector<Read> reads;
  for (const Bucket &bucket : buckets) {
    bool isCast = bucket.holdsPart && getReadType(function, bucket);
    for (auto [argument, member] : membersOf(function, bucket))
      for (OpOperand &use : argument.getUses()) {
        if (!isCast) {
          reads.push_back({&use, &bucket, member});
          continue;
        }
        for (OpOperand &inner : use.getOwner()->getResult(0).getUses())
          reads.push_back({&inner, &bucket, member});
      }
  }
  llvm::sort(reads, [](const Read &a, const Read &b) {
    Operation *first = a.use->getOwner(), *second = b.use->getOwner();
    return first == second ? a.use->getOperandNumber() < b.use->getOperandNumber() : first->isBeforeInBlock(second);
  });
  return reads;
}

/// Those of one bucket, together where none of another block reads in between: an embedding that the head shares has
/// two groups.
static SmallVector<SmallVector<Read>> groupReads(ArrayRef<Read> reads, const Bucket &bucket) {
  SmallVector<SmallVector<Read>> groups;
  bool begins = true;
  for (const Read &read : reads) {
    if (read.bucket == &bucket) {
      if (begins)
        groups.emplace_back();
      groups.back().push_back(read);
      begins = false;
    } else if (bucket.gathersAnew && read.bucket->block != bucket.block) {
      begins = true;
    }
  }
  return groups;
}

/// Has each group of readers read what ranks gather for it.
static void gatherMembers(func::FuncOp function, const Bucket &bucket, BlockArgument part,
                          ArrayRef<SmallVector<Read>> groups, Type read) {
  for (auto [number, group] : llvm::enumerate(groups)) {
    OpBuilder builder(group.front().use->getOwner());
    Location loc = NameLoc::get(builder.getStringAttr(bucket.getName()));
    Value own = read ? castToType(builder, loc, part, bucket.getArgumentType().clone(read)) : part;
    auto gather = AllGatherOp::create(builder, loc, own, bucket.ranks);
    if (bucket.gathersAnew)
      gather.setUse(number);
    Value whole = WaitOp::create(builder, loc, gather);
    for (const Read &reader : group)
      reader.use->set(ViewOp::create(builder, reader.use->get().getLoc(), reader.use->get().getType(), whole,
                                     reader.member->offset));
  }
  for (auto [argument, member] : membersOf(function, bucket))
    for (Operation *cast : llvm::make_early_inc_range(argument.getUsers()))
      cast->erase(); // to the type that is gathered
}

SmallVector<BlockArgument> mlir::scrimp::replaceByBuckets(func::FuncOp function, ArrayRef<Bucket> buckets) {
  SmallVector<BlockArgument> arguments;
  for (const Bucket &bucket : buckets)
    arguments.push_back(appendArgument(function, bucket.getArgumentType(),
                                       bucket.parameterAttributes(function.getContext()), function.getLoc()));
  llvm::BitVector erased(function.getNumArguments());
  SmallVector<Read> reads = collectReads(function, buckets);
  SmallVector<SmallVector<SmallVector<Read>>> groups;
  for (const Bucket &bucket : buckets)
    groups.push_back(groupReads(reads, bucket));
  for (auto [bucket, part, ofBucket] : llvm::zip(buckets, arguments, groups))
    if (bucket.holdsPart)
      gatherMembers(function, bucket, part, ofBucket, getReadType(function, bucket));
  for (auto [bucket, whole] : llvm::zip(buckets, arguments)) {
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    for (auto [argument, member] : membersOf(function, bucket)) {
      if (!argument.use_empty())
        argument.replaceAllUsesWith(
            ViewOp::create(builder, argument.getLoc(), argument.getType(), whole, member->offset));
      erased.set(argument.getArgNumber());
    }
  }
  // Erasing shifts the arguments but keeps the objects: only indices into the function change.
  eraseArguments(function, erased);
  return arguments;
}
