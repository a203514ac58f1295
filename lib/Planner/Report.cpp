#include "scrimp/Planner/Report.h"

#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Analysis/StepTime.h"
#include "scrimp/Analysis/TrainingParts.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;
using llvm::json::Object;

namespace {
struct Holder {
  std::string name, location;
  Role role;
  int64_t bytes;
};

class ReportBuilder {
public:
  ReportBuilder(ModuleOp module, DictionaryAttr plan, const ProcessMemory &beside,
                const std::optional<DeviceRates> &rates)
      : module(module), plan(plan), beside(beside), rates(rates) {}

  FailureOr<Object> build() {
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(addFunction(function)))
        return failure();
    Object segments;
    for (Attribute entry : plan.getAs<ArrayAttr>("segments")) {
      auto segment = cast<DictionaryAttr>(entry);
      segments[segment.getAs<StringAttr>("name").getValue()] = segment.getAs<IntegerAttr>("bytes").getInt();
    }
    std::vector<Holder> holders = std::move(persistent);
    llvm::append_range(holders, atPeak);
    llvm::sort(holders, [](const Holder &a, const Holder &b) {
      return std::tie(b.bytes, a.name, a.location) < std::tie(a.bytes, b.name, b.location);
    });
    Array list;
    for (const Holder &holder : holders)
      if (holder.bytes > 0)
        list.push_back(Object{{"name", holder.name},
                              {"location", holder.location},
                              {"kind", stringifySegment(segmentOf(holder.role))},
                              {"role", stringifyRole(holder.role)},
                              {"bytes", holder.bytes}});
    Object report{{"peak_bytes", number("arena_bytes")},
                  {"lower_bound_bytes", number("lower_bound_bytes")},
                  {"process_bytes", number("arena_bytes") + beside.getBytes()},
                  {"beside_arena", Object{{"code", beside.code}, {"data", beside.data}, {"library", beside.library}}},
                  {"unshared_bytes", number("transient_offset") + unshared},
                  {"segments", std::move(segments)},
                  {"peak", std::move(peak)},
                  {"holders", std::move(list)},
                  {"graphs", std::move(graphs)},
                  {"flops", std::move(flops)},
                  {"communication", std::move(communication)},
                  {"residuals", std::move(residuals)},
                  {"recomputed", std::move(recomputed)}};
    if (!step.empty())
      report["step"] = std::move(step);
    return report;
  }

private:
  int64_t number(StringRef name) { return plan.getAs<IntegerAttr>(name).getInt(); }

  LogicalResult addFunction(func::FuncOp function) {
    FailureOr<Aliases> aliases = Aliases::compute(function);
    if (failed(aliases))
      return failure();
    MemoryUse use = computeMemoryUse(function, *aliases);
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
    if (function.getName() == "train")
      addStep(function);
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
    std::string location = userLocation(block.root.getLoc());
    auto argument = dyn_cast<BlockArgument>(block.root);
    auto bucket = argument ? function.getArgAttrOfType<BucketAttr>(argument.getArgNumber(), ScrimpDialect::kBucket)
                           : BucketAttr();
    int64_t rest = block.bytes;
    llvm::DenseMap<int64_t, std::string> pieces;
    if (bucket)
      pieces = piecesOf(block.root, use, aliases);
    int64_t elementBytes = elementBytesOf(tensorType(block.root).getElementType());
    // Of a bucket that ranks share out, a rank has its part of each member on average.
    int64_t parts =
        bucket
            ? std::max<int64_t>(1, bucket.getElements() / std::max<int64_t>(1, tensorType(block.root).getNumElements()))
            : 1;
    if (bucket)
      for (MemberAttr member : bucket.getTensors()) {
        int64_t bytes = elementBytes * member.getNumElements() / parts;
        auto piece = pieces.find(member.getOffset() * elementBytes);
        persistent.push_back(
            {member.getName().str(), piece == pieces.end() ? location : piece->second, block.role, bytes});
        rest -= bytes;
      }
    std::string name = userNameOf(block.root);
    if (Operation *op = block.root.getDefiningOp())
      name = isProgramConstant(op) ? "constant " + name : block.key;
    if (rest > 0)
      persistent.push_back({bucket ? "padding of " + name : name, location, block.role, rest});
  }

  void setPeak(func::FuncOp function, const MemoryUse &use, int step) {
    Operation *op = use.ops[step];
    peak = Object{{"graph", function.getName()},
                  {"op", userNameOf(op)},
                  {"location", userLocation(op->getLoc())},
                  {"live_bytes", mostLive}};
    atPeak.clear();
    for (const TransientBlock &block : use.transient) {
      std::optional<Role> role = block.getRoleAt(step);
      if (!role)
        continue;
      const Tenant *tenant = block.getTenantAt(step);
      atPeak.push_back({tenant ? userNameOf(tenant->root) : userNameOf(block.workspaceOf),
                        userLocation(tenant ? tenant->root.getLoc() : block.workspaceOf->getLoc()), *role,
                        block.bytes});
    }
  }

  /// What a rank sends in a step, and how long that and the step take.
  void addStep(func::FuncOp train) {
    for (const Traffic &traffic : collectTraffic(train, rates.value_or(DeviceRates()).network)) {
      Object entry{{"collective", traffic.collective}, {"count", traffic.count}, {"bytes", traffic.bytes}};
      if (rates) {
        entry["between_nodes_bytes"] = traffic.betweenBytes;
        entry["seconds"] = traffic.seconds;
      }
      communication.push_back(std::move(entry));
    }
    if (!rates)
      return;
    StepTime time = estimateStep(train, *rates);
    BatchSize batch = getBatchSize(train);
    double perSecond = static_cast<double>(batch.samples) / std::max(time.getSeconds(), 1e-12);
    step = Object{{"seconds", time.getSeconds()},
                  {"computing_seconds", time.computing},
                  {"communicating_seconds", time.communicating},
                  {"exposed_seconds", time.exposed},
                  {"overlapped_seconds", time.getOverlapped()},
                  {"nodes", rates->network.nodes},
                  {"mfu", time.getUtilization()},
                  {"samples_per_second", perSecond},
                  {"tokens_per_second", perSecond * static_cast<double>(batch.tokensPerSample)}};
  }

  /// How often the op runs in a step.
  static int64_t timesOf(Operation *op, func::FuncOp function) {
    int64_t times = 1;
    for (Operation *parent = op->getParentOp(); parent != function; parent = parent->getParentOp())
      times *= cast<BodyOp>(parent).getIterations();
    return times;
  }

  /// The op, or the ops that the kernel computes.
  static void forEachComputed(Operation *op, function_ref<void(Operation *)> visit) {
    auto kernel = dyn_cast<KernelRegionOp>(op);
    if (!kernel)
      return visit(op);
    for (Operation &inner : kernel.getBody().front().without_terminator())
      visit(&inner);
  }

  void addFlops(func::FuncOp function, const MemoryUse &use) {
    hasFlops = true;
    TrainingParts parts(function);
    bool isTraining = llvm::any_of(use.ops, [&](Operation *op) { return parts.isBackward(op); });
    int64_t forward = 0, backward = 0, repeated = 0;
    std::map<std::pair<std::string, std::string>, int64_t> repeatedOps; // by name and location
    for (Operation *op : use.ops) {
      if (isa<BodyOp>(op)) // what is inside is counted
        continue;
      forEachComputed(op, [&](Operation *inner) {
        auto cost = dyn_cast<CostOp>(inner);
        if (!cost)
          return;
        int64_t work = timesOf(op, function) * cost.getFlops();
        if (isRecomputed(inner) && !isViewLike(inner)) {
          repeated += work;
          repeatedOps[{userNameOf(inner), userLocation(inner->getLoc())}] += work;
        } else {
          (isTraining && !parts.isForward(op) ? backward : forward) += work;
        }
      });
    }
    flops = Object{{"forward", forward}, {"backward", backward}, {"recompute", repeated}};
    for (auto &[op, work] : repeatedOps)
      recomputed.push_back(Object{{"name", op.first}, {"location", op.second}, {"flops", work}});
    addResiduals(parts, use);
  }

  /// The op that computes a kernel's result, or the value's own.
  static Operation *nameGiverOf(OpResult value) {
    auto kernel = dyn_cast<KernelRegionOp>(value.getOwner());
    Operation *inner =
        kernel ? kernel.getBody().front().getTerminator()->getOperand(value.getResultNumber()).getDefiningOp()
               : nullptr;
    return inner ? inner : value.getOwner();
  }

  /// What the forward pass leaves to the backward pass, by the names of the ops that compute it.
  void addResiduals(const TrainingParts &parts, const MemoryUse &use) {
    llvm::SetVector<Value> kept;
    for (Operation *op : use.ops) {
      if (!parts.isBackward(op) || isViewLike(op))
        continue;
      for (Value operand : op->getOperands()) {
        while (std::optional<Tie> tie = getViewTie(operand))
          operand = operand.getDefiningOp()->getOperand(tie->operand);
        Operation *source = operand.getDefiningOp();
        if (source && parts.isForward(source) && !isProgramConstant(source) && !isa<BodyOp>(source))
          kept.insert(operand);
      }
    }
    for (Value value : kept) {
      Operation *giver = nameGiverOf(cast<OpResult>(value));
      residuals.push_back(
          Object{{"name", userNameOf(giver)}, {"location", userLocation(giver->getLoc())}, {"bytes", bytesOf(value)}});
    }
  }

  ModuleOp module;
  DictionaryAttr plan;
  ProcessMemory beside;
  llvm::StringSet<> known;
  std::vector<Holder> persistent, atPeak;
  const std::optional<DeviceRates> &rates;
  Object graphs, peak, flops, step;
  Array residuals, recomputed, communication;
  int64_t unshared = 0; // bytes of all values of @train, had each its own
  int64_t mostLive = -1;
  bool hasFlops = false;
};
} // namespace

FailureOr<Object> mlir::scrimp::buildMemoryReport(ModuleOp module, ArrayRef<::scrimp::runtime::BlasBlocks> kernels,
                                                  const std::optional<DeviceRates> &rates) {
  auto plan = module->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
  if (!plan)
    return module.emitError() << "has no plan; run scrimp-plan-memory";
  return ReportBuilder(module, plan, computeBesideArena(module, kernels), rates).build();
}
