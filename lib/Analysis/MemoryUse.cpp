#include "scrimp/Analysis/MemoryUse.h"

#include "scrimp/Analysis/FusionLegality.h"
#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;
using planner::Problem;

StringRef mlir::scrimp::stringifySegment(Segment segment) {
  static constexpr StringLiteral names[kNumSegments] = {"parameters", "optimizer_state", "inputs",
                                                        "gradients",  "activations",     "workspace"};
  return names[static_cast<unsigned>(segment)];
}

StringRef mlir::scrimp::stringifyRole(Role role) {
  static constexpr StringLiteral names[] = {
      "parameter", "frozen_parameter", "buffer",     "constant", "optimizer_state", "input", "scalar", "output",
      "gradient",  "gradient_sum",     "activation", "sum",      "workspace"};
  return names[static_cast<unsigned>(role)];
}

Segment mlir::scrimp::segmentOf(Role role) {
  switch (role) {
  case Role::Parameter:
  case Role::FrozenParameter:
  case Role::Buffer:
  case Role::Constant:
    return Segment::Parameters;
  case Role::OptimizerState:
    return Segment::OptimizerState;
  case Role::Input:
  case Role::Scalar:
  case Role::Output:
    return Segment::Inputs;
  case Role::Gradient:
  case Role::GradientSum:
    return Segment::Gradients;
  case Role::Activation:
  case Role::Sum:
    return Segment::Activations;
  case Role::Workspace:
    return Segment::Workspace;
  }
  llvm_unreachable("a role");
}

Problem MemoryUse::getProblem(int64_t alignment) const {
  Problem problem;
  for (const TransientBlock &block : transient) {
    std::string name =
        block.workspaceOf ? "workspace of " + userNameOf(block.workspaceOf) : userNameOf(block.tenants.front().root);
    problem.buffers.push_back({block.bytes, alignment, block.first, block.last, std::move(name)});
  }
  return problem;
}

const Tenant *TransientBlock::getTenantAt(int t) const {
  for (const Tenant &tenant : llvm::reverse(tenants))
    if (tenant.first <= t && t <= tenant.last)
      return &tenant;
  return nullptr;
}

std::optional<Role> TransientBlock::getRoleAt(int t) const {
  if (const Tenant *tenant = getTenantAt(t))
    return tenant->role;
  return workspaceOf && first == t ? std::optional(Role::Workspace) : std::nullopt;
}

namespace {
class MemoryUseBuilder {
public:
  MemoryUseBuilder(func::FuncOp function, const Aliases &aliases)
      : function(function), aliases(aliases), ranges(aliases.getStorages().size()),
        isPersistent(ranges.size()), isGradient(ranges.size()), isInput(ranges.size()), isSum(ranges.size()),
        blockOf(ranges.size(), -1) {}

  MemoryUse build(bool tellRoles) {
    addOps(function.getBody().front());
    computeRanges();
    findPersistent();
    if (tellRoles)
      findGradients();
    for (auto [t, op] : llvm::enumerate(use.ops))
      addBlocks(t, op);
    return std::move(use);
  }

private:
  struct Range {
    int first = -1, last = -1;
  };
  /// Where `start` ends, which reads the storage until then.
  struct Hold {
    Operation *start;
    int end;
  };

  void addOps(Block &block) {
    for (Operation &op : block) {
      int begin = use.ops.size();
      use.ops.push_back(&op);
      if (auto body = dyn_cast<BodyOp>(op))
        addOps(body.getBodyBlock());
      extents[&op] = {begin, static_cast<int>(use.ops.size()) - 1};
    }
  }

  /// Until when a storage must keep its bytes for the sake of an op that touches it: the end of the outermost body
  /// around the op that the storage is not made in.
  int getEndOfUse(Storage storage, Operation *op) {
    return extents.lookup(storage.root.getParentBlock()->findAncestorOpInBlock(*op)).last;
  }

  void touch(Value value, int t, Operation *op) {
    unsigned storage = aliases.getPlace(value).storage;
    Range &range = ranges[storage];
    if (range.first < 0)
      range.first = t;
    range.last = std::max(range.last, getEndOfUse(aliases.getStorages()[storage], op));
  }

  void computeRanges() {
    for (auto [t, op] : llvm::enumerate(use.ops)) {
      if (isViewLike(op))
        continue;
      for (AsyncOp start : getEndedOps(op))
        for (Value operand : start->getOperands())
          holds[aliases.getPlace(operand).storage].push_back({start, static_cast<int>(t)});
      for (Value operand : op->getOperands())
        touch(operand, t, op);
      for (Value result : op->getResults()) // also one that nothing reads
        touch(result, t, op);
      if (auto body = dyn_cast<BodyOp>(op))
        addBodyArguments(body);
    }
  }

  void addBodyArguments(BodyOp body) {
    for (BlockArgument argument : body.getBodyBlock().getArguments()) {
      BodyArgument means = body.getBodyArgument(argument.getArgNumber());
      unsigned storage = aliases.getPlace(argument).storage;
      isSum[storage] = isSum[storage] || (means.kind == BodyArgument::Carried && !body.getConditionOperand());
      isInput[storage] = isInput[storage] || means.kind == BodyArgument::Filled;
      if (!means.hasOwnBytes())
        continue;
      // The host looks at the number of the iteration too; a piece is there from the beginning to its last use.
      ranges[storage] = extents.lookup(body);
      if (means.kind == BodyArgument::Filled)
        ranges[storage].last = ranges[storage].first;
    }
  }

  /// Until when `op`, at `t`, needs the storage that it reads, if it is the last to read it; -1: it is not.
  int getEndOfLastUse(unsigned storage, int t, Operation *op) {
    int end = t;
    for (Hold hold : holds.lookup(storage)) {
      if (hold.start == op)
        end = hold.end;
      else if (hold.end > t)
        return -1;
    }
    return ranges[storage].last == t ? end : -1;
  }

  void addPersistent(unsigned storage, Role role, std::string key) {
    if (isPersistent[storage])
      return;
    isPersistent[storage] = true;
    const Storage &s = aliases.getStorages()[storage];
    use.persistent.push_back({s.root, isStreamed(s.root) ? 0 : s.bytes, role, std::move(key)});
  }

  void findPersistent() {
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      auto has = [&](StringRef name) { return bool(function.getArgAttr(index, name)); };
      Role role = Role::Input;
      if (auto param = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kParam))
        role = param.getValue() == "trainable" ? Role::Parameter : Role::FrozenParameter;
      else if (has(ScrimpDialect::kState))
        role = has(ScrimpDialect::kBucket) ? Role::OptimizerState : Role::Buffer;
      else if (has(ScrimpDialect::kScalar))
        role = Role::Scalar;
      std::string key;
      if (auto scalar = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kScalar))
        key = "scalar " + scalar.str();
      else if (auto name = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kName))
        key = "argument " + name.str();
      else
        key = "argument " + std::to_string(index) + " of " + function.getName().str();
      if (role == Role::Parameter || role == Role::OptimizerState)
        learned.insert(aliases.getPlace(argument).storage);
      addPersistent(aliases.getPlace(argument).storage, role, std::move(key));
    }
    for (Operation *op : use.ops)
      if (isProgramConstant(op)) {
        std::string key = "constant ";
        llvm::raw_string_ostream os(key);
        Attribute value;
        matchPattern(op, m_Constant(&value));
        os << value.getAsOpaquePointer(); // attributes are unique
        addPersistent(aliases.getPlace(op->getResult(0)).storage, Role::Constant, std::move(key));
      }
    for (auto [i, value] : llvm::enumerate(use.ops.back()->getOperands()))
      if (auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
        addPersistent(aliases.getPlace(value).storage, Role::Output, "output " + output.str());
  }

  /// From the updates back to where gradients are made. In a loop the sum comes before what is added to it.
  void findGradients() {
    for (auto [i, value] : llvm::enumerate(use.ops.back()->getOperands()))
      if (function.getResultAttr(i, ScrimpDialect::kGradient))
        isGradient[aliases.getPlace(value).storage] = true;
    for (Operation *op : llvm::reverse(use.ops))
      for (OpResult result : op->getResults())
        if (unsigned storage = aliases.getPlace(result).storage; !isViewLike(op))
          if (isGradient[storage] || learned.contains(storage))
            findGradientsRead(op, result);
  }

  /// `result` is learned, or a gradient.
  void findGradientsRead(Operation *op, OpResult result) {
    unsigned storage = aliases.getPlace(result).storage;
    llvm::SmallDenseSet<unsigned> sources;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned source = aliases.getPlace(operand.get()).storage;
      Operation *producer = operand.get().getDefiningOp();
      bool isAddedUp = isa<AsyncOp>(op) && isGradient[storage];
      if (source != storage && !isPersistent[source] && !(producer && isFreeProducer(producer)) &&
          (isAddedUp || readsElementwise(op, operand.getOperandNumber(), result.getResultNumber())))
        sources.insert(source);
    }
    if (sources.size() == 1)
      isGradient[*sources.begin()] = true;
  }

  /// The block of an operand whose bytes result `result` of `op` may take, or -1.
  int findDyingBlock(int t, Operation *op, unsigned result) {
    int64_t bytes = bytesOf(op->getResult(result));
    for (Value candidate : op->getOperands()) {
      Place place = aliases.getPlace(candidate);
      int block = blockOf[place.storage];
      if (block < 0 || use.transient[block].last != getEndOfLastUse(place.storage, t, op) ||
          use.transient[block].bytes != bytes || use.transient[block].tenants.back().first == t)
        continue;
      // Every operand that lies in those bytes must allow it.
      bool legal = true;
      for (OpOperand &operand : op->getOpOperands()) {
        Place other = aliases.getPlace(operand.get());
        if (blockOf[other.storage] == block)
          legal &= other.offset == 0 && other.bytes == bytes && mayOverwrite(op, operand.getOperandNumber(), result);
      }
      if (legal)
        return block;
    }
    return -1;
  }

  void addBlocks(int t, Operation *op) {
    if (isViewLike(op))
      return;
    if (auto body = dyn_cast<BodyOp>(op))
      for (BlockArgument argument : getOwnArguments(body))
        addTenant(t, aliases.getPlace(argument).storage, -1);
    for (OpResult result : op->getResults()) {
      Place place = aliases.getPlace(result);
      unsigned storage = place.storage;
      if (isPersistent[storage] || blockOf[storage] >= 0)
        continue;
      int64_t bytes = aliases.getStorages()[storage].bytes;
      addTenant(t, storage, place.bytes == bytes && bytes > 0 ? findDyingBlock(t, op, result.getResultNumber()) : -1);
    }
    for (auto [i, type] : llvm::enumerate(getWorkspaceTypes(op)))
      use.transient.push_back({bytesOf(type), t, t, {}, op, static_cast<unsigned>(i)});
  }

  /// A storage moves into a block; -1: one of its own.
  void addTenant(int t, unsigned storage, int block) {
    if (block < 0) {
      block = use.transient.size();
      use.transient.push_back({aliases.getStorages()[storage].bytes, t, t, {}});
    }
    int last = ranges[storage].last;
    for (Hold hold : holds.lookup(storage))
      last = std::max(last, hold.end);
    use.transient[block].last = last;
    use.transient[block].tenants.push_back({aliases.getStorages()[storage].root, t, last,
                                            isInput[storage]      ? Role::Input
                                            : isGradient[storage] ? isSum[storage] ? Role::GradientSum : Role::Gradient
                                            : isSum[storage]      ? Role::Sum
                                                                  : Role::Activation});
    blockOf[storage] = block;
  }

  func::FuncOp function;
  const Aliases &aliases;
  MemoryUse use;
  llvm::DenseMap<Operation *, Range> extents;           // positions from an op to the end of its body
  SmallVector<Range> ranges;                            // by storage
  llvm::DenseMap<unsigned, SmallVector<Hold, 1>> holds; // by storage
  SmallVector<bool> isPersistent, isGradient, isInput, isSum;
  llvm::DenseSet<unsigned> learned; // storages of trainable parameters and of optimizer state
  SmallVector<int> blockOf;
};
} // namespace

MemoryUse mlir::scrimp::computeMemoryUse(func::FuncOp function, const Aliases &aliases, bool tellRoles) {
  return MemoryUseBuilder(function, aliases).build(tellRoles);
}
