#include "scrimp/Planner/Report.h"

#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;
using llvm::json::Object;

namespace {
struct Holder {
  std::string name, location;
  StringRef kind;
  int64_t bytes;
};

class ReportBuilder {
public:
  ReportBuilder(ModuleOp module, DictionaryAttr plan) : module(module), plan(plan) {}

  FailureOr<Object> build() {
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(addFunction(function)))
        return failure();
    Object segments;
    for (Attribute entry : plan.getAs<ArrayAttr>("segments")) {
      auto segment = cast<DictionaryAttr>(entry);
      segments[segment.getAs<StringAttr>("name").getValue()] = segment.getAs<IntegerAttr>("bytes").getInt();
    }
    int64_t persistentBytes = 0;
    for (StringRef name : {"parameters", "optimizer_state", "inputs"})
      persistentBytes += *segments.getInteger(name);
    std::vector<Holder> holders = std::move(persistent);
    llvm::append_range(holders, atPeak);
    llvm::sort(holders, [](const Holder &a, const Holder &b) {
      return std::tie(b.bytes, a.name, a.location) < std::tie(a.bytes, b.name, b.location);
    });
    Array list;
    for (const Holder &holder : holders)
      if (holder.bytes > 0)
        list.push_back(Object{
            {"name", holder.name}, {"location", holder.location}, {"kind", holder.kind}, {"bytes", holder.bytes}});
    return Object{{"peak_bytes", number("arena_bytes")},
                  {"lower_bound_bytes", number("lower_bound_bytes")},
                  {"process_bytes", number("arena_bytes") + kProcessBytesBesideArena},
                  {"unshared_bytes", persistentBytes + unshared},
                  {"segments", std::move(segments)},
                  {"peak", std::move(peak)},
                  {"holders", std::move(list)},
                  {"graphs", std::move(graphs)},
                  {"flops", std::move(flops)}};
  }

private:
  int64_t number(StringRef name) { return plan.getAs<IntegerAttr>(name).getInt(); }

  LogicalResult addFunction(func::FuncOp function) {
    FailureOr<Aliases> aliases = Aliases::compute(function);
    if (failed(aliases))
      return failure();
    MemoryUse use = computeMemoryUse(function, *aliases, number("workers"));
    for (const PersistentBlock &block : use.persistent)
      if (known.insert(block.key).second)
        addPersistent(function, block, use, *aliases);
    planner::Problem problem = use.getProblem(number("alignment"));
    int step = 0;
    int64_t live = planner::lowerBound(problem, &step);
    graphs[function.getName()] = Object{{"ops", static_cast<int64_t>(use.ops.size()) - 1},
                                        {"buffers", static_cast<int64_t>(problem.buffers.size())},
                                        {"live_bytes", live}};
    if (function.getName() == "train")
      for (const TransientBlock &block : use.transient)
        unshared += block.bytes * std::max<int64_t>(1, block.tenants.size());
    if (live > mostLive) {
      mostLive = live;
      setPeak(function, use, step);
    }
    if (function.getName() == "train" || !hasFlops)
      addFlops(function, use);
    return success();
  }

  /// Where the pieces of a bucket come from, by their offset: the location of the first op that views one.
  static llvm::DenseMap<int64_t, std::string> piecesOf(Value bucket, const MemoryUse &use, const Aliases &aliases) {
    llvm::DenseMap<int64_t, std::string> pieces;
    for (Operation *op : use.ops)
      if (isViewLike(op) && aliases.getRoot(op->getResult(0)) == bucket)
        pieces.try_emplace(aliases.getPlace(op->getResult(0)).offset, userLocation(op->getLoc()));
    return pieces;
  }

  void addPersistent(func::FuncOp function, const PersistentBlock &block, const MemoryUse &use,
                     const Aliases &aliases) {
    StringRef kind = stringifySegment(block.segment);
    std::string location = userLocation(block.root.getLoc());
    auto argument = dyn_cast<BlockArgument>(block.root);
    auto members =
        argument ? function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "scrimp.members") : ArrayAttr();
    int64_t rest = block.bytes;
    llvm::DenseMap<int64_t, std::string> pieces;
    if (members)
      pieces = piecesOf(block.root, use, aliases);
    int64_t elementBytes = elementBytesOf(tensorType(block.root).getElementType());
    for (Attribute entry : members ? members.getValue() : ArrayRef<Attribute>()) {
      auto member = cast<DictionaryAttr>(entry);
      auto shape = member.getAs<DenseI64ArrayAttr>("shape");
      int64_t bytes = elementBytes * (shape ? productOf(shape) : 1);
      auto piece = pieces.find(member.getAs<IntegerAttr>("offset").getInt() * elementBytes);
      persistent.push_back({member.getAs<StringAttr>("name").getValue().str(),
                            piece == pieces.end() ? location : piece->second, kind, bytes});
      rest -= bytes;
    }
    std::string name = userNameOf(block.root);
    if (Operation *op = block.root.getDefiningOp())
      name = isProgramConstant(op) ? "constant " + name : block.key;
    if (rest > 0)
      persistent.push_back({members ? "padding of " + name : name, location, kind, rest});
  }

  void setPeak(func::FuncOp function, const MemoryUse &use, int step) {
    Operation *op = use.ops[step];
    peak = Object{{"graph", function.getName()},
                  {"op", userNameOf(op)},
                  {"location", userLocation(op->getLoc())},
                  {"live_bytes", mostLive}};
    atPeak.clear();
    for (const TransientBlock &block : use.transient) {
      std::optional<Segment> segment = block.getSegmentAt(step);
      if (!segment)
        continue;
      const Tenant *tenant = block.getTenantAt(step);
      atPeak.push_back({tenant ? userNameOf(tenant->root) : userNameOf(block.workspaceOf),
                        userLocation(tenant ? tenant->root.getLoc() : block.workspaceOf->getLoc()),
                        stringifySegment(*segment), block.bytes});
    }
  }

  /// What a value is computed from: operands, and through bodies what the arguments stand for and what is yielded.
  static void visitSources(Value value, function_ref<void(Value)> visit) {
    if (auto result = dyn_cast<OpResult>(value)) {
      if (auto body = dyn_cast<BodyOp>(result.getOwner()))
        visit(body.getBodyBlock().getTerminator()->getOperand(result.getResultNumber()));
      else
        llvm::for_each(result.getOwner()->getOperands(), visit);
      return;
    }
    auto argument = cast<BlockArgument>(value);
    auto body = dyn_cast<BodyOp>(argument.getOwner()->getParentOp());
    if (!body)
      return;
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (means.kind != BodyArgument::Index)
      visit(body->getOperand(means.operand));
    if (means.kind == BodyArgument::Carried)
      visit(argument.getOwner()->getTerminator()->getOperand(means.result));
  }

  void addFlops(func::FuncOp function, const MemoryUse &use) {
    hasFlops = true;
    llvm::SmallDenseSet<Value> forward; // what the loss depends on
    SmallVector<Value> worklist;
    auto visit = [&](Value value) {
      if (forward.insert(value).second)
        worklist.push_back(value);
    };
    for (auto [i, value] : llvm::enumerate(use.ops.back()->getOperands())) {
      auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput);
      if (output && output.getValue() != "grad_norm")
        visit(value);
    }
    while (!worklist.empty())
      visitSources(worklist.pop_back_val(), visit);
    int64_t counts[2] = {};
    for (Operation *op : use.ops) {
      auto cost = dyn_cast<CostOp>(op);
      if (!cost || isa<BodyOp>(op)) // what is inside is counted
        continue;
      int64_t times = 1;
      for (Operation *parent = op->getParentOp(); parent != function; parent = parent->getParentOp())
        times *= cast<BodyOp>(parent).getIterations();
      bool isForward = llvm::any_of(op->getResults(), [&](Value result) { return forward.contains(result); });
      counts[!isForward] += times * cost.getFlops();
    }
    flops = Object{{"forward", counts[0]}, {"backward", counts[1]}, {"recompute", 0}};
  }

  ModuleOp module;
  DictionaryAttr plan;
  llvm::StringSet<> known;
  std::vector<Holder> persistent, atPeak;
  Object graphs, peak, flops;
  int64_t unshared = 0; // bytes of all values of @train, had each its own
  int64_t mostLive = -1;
  bool hasFlops = false;
};
} // namespace

FailureOr<Object> mlir::scrimp::buildMemoryReport(ModuleOp module) {
  auto plan = module->getAttrOfType<DictionaryAttr>("scrimp.plan");
  if (!plan)
    return module.emitError() << "has no plan; run scrimp-plan-memory";
  return ReportBuilder(module, plan).build();
}
