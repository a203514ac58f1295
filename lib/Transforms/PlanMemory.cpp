// scrimp-plan-memory: one arena for all functions of a module. The live ranges come from computeMemoryUse, the
// placement from the solver, and the verdict from verifyPlan.
#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Analysis/PlanVerifier.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Planner/Problem.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_PLANMEMORY
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

struct FunctionPlan {
  func::FuncOp function;
  Aliases aliases;
  MemoryUse use;
  planner::Solution solution;
  int64_t lowerBound = 0;
  int peak = 0; // the op with the largest live set
};

/// A block that all functions share by its key.
struct SharedBlock {
  int64_t bytes, offset;
  Segment segment;
  func::FuncOp firstIn;
};

struct PlanMemory : scrimp::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    if (verifyOnly) {
      if (failed(verifyPlan(getOperation())))
        signalPassFailure();
      return;
    }
    plans.clear();
    shared.clear();
    alignment = TargetAttr::of(getOperation()).getAlignment();
    if (failed(analyze()) || failed(placePersistent()) || failed(placeTransient()))
      return signalPassFailure();
    for (FunctionPlan &plan : plans)
      annotate(plan);
    annotateModule();
    if (failed(checkCapacity()) || failed(verifyPlan(getOperation())))
      signalPassFailure();
  }

  LogicalResult analyze() {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      FailureOr<Aliases> aliases = Aliases::compute(function);
      if (failed(aliases))
        return failure();
      MemoryUse use = computeMemoryUse(function, *aliases);
      plans.push_back({function, std::move(*aliases), std::move(use), {}});
    }
    return success();
  }

  /// Parameters, then optimizer state, then inputs, each in the order of first appearance.
  LogicalResult placePersistent() {
    for (FunctionPlan &plan : plans)
      for (const PersistentBlock &block : plan.use.persistent) {
        auto [it, isNew] = shared.insert({block.key, {block.bytes, 0, segmentOf(block.role), plan.function}});
        if (!isNew && it->second.bytes != block.bytes)
          return plan.function.emitError()
                 << "'" << userNameOf(block.root) << "' has " << block.bytes << " bytes in @" << plan.function.getName()
                 << " but " << it->second.bytes << " in @" << it->second.firstIn.getName();
      }
    int64_t end = 0;
    for (unsigned s = 0; s < kNumSegments; ++s) {
      segmentOffsets[s] = end;
      for (auto &[key, block] : shared)
        if (static_cast<unsigned>(block.segment) == s) {
          block.offset = end;
          end = llvm::alignTo(end + block.bytes, alignment);
        }
    }
    transientOffset = end;
    return success();
  }

  /// Every function uses the same region for what its steps need; the largest decides. How that region's bytes are
  /// divided among inputs, gradients, activations and workspace is an account of who holds them at the highest peak.
  LogicalResult placeTransient() {
    FunctionPlan *highest = nullptr;
    for (FunctionPlan &plan : plans) {
      planner::Problem problem = plan.use.getProblem(alignment);
      if (llvm::Error error = planner::checkProblem(problem))
        return plan.function.emitError() << llvm::toString(std::move(error));
      plan.solution = planner::solveBestFit(problem);
      if (llvm::Error error = planner::verify(problem, plan.solution))
        return plan.function.emitError() << llvm::toString(std::move(error));
      plan.lowerBound = planner::lowerBound(problem, &plan.peak);
      transientBytes = std::max<int64_t>(transientBytes, llvm::alignTo(plan.solution.bytes, alignment));
      if (!highest || plan.lowerBound > highest->lowerBound)
        highest = &plan;
    }
    lowerBound = transientOffset + (highest ? highest->lowerBound : 0);
    if (!highest)
      return success();
    int64_t held[kNumSegments] = {};
    for (const TransientBlock &block : highest->use.transient)
      if (std::optional<Role> role = block.getRoleAt(highest->peak))
        held[static_cast<unsigned>(segmentOf(*role))] += llvm::alignTo(block.bytes, alignment);
    auto at = [&](Segment segment) -> int64_t & { return segmentOffsets[static_cast<unsigned>(segment)]; };
    // Pieces of inputs that the host fills as the step goes on lie there too.
    at(Segment::Gradients) = transientOffset + held[static_cast<unsigned>(Segment::Inputs)];
    at(Segment::Activations) = at(Segment::Gradients) + held[static_cast<unsigned>(Segment::Gradients)];
    at(Segment::Workspace) = transientOffset + transientBytes - held[static_cast<unsigned>(Segment::Workspace)];
    return success();
  }

  void annotate(FunctionPlan &plan) {
    Builder builder(&getContext());
    SmallVector<int64_t> bases(plan.aliases.getStorages().size(), 0);
    for (const PersistentBlock &block : plan.use.persistent)
      bases[plan.aliases.getPlace(block.root).storage] = shared.find(block.key)->second.offset;
    llvm::DenseMap<Operation *, SmallVector<int64_t>> workspaces;
    for (auto [block, offset] : llvm::zip(plan.use.transient, plan.solution.offsets)) {
      for (const Tenant &tenant : block.tenants)
        bases[plan.aliases.getPlace(tenant.root).storage] = transientOffset + offset;
      if (block.workspaceOf)
        workspaces[block.workspaceOf].push_back(transientOffset + offset); // in order of their index
    }
    auto offsetOf = [&](Value value) {
      Place place = plan.aliases.getPlace(value);
      return bases[place.storage] + place.offset;
    };
    for (BlockArgument argument : plan.function.getArguments())
      plan.function.setArgAttr(argument.getArgNumber(), ScrimpDialect::kOffset,
                               builder.getI64IntegerAttr(offsetOf(argument)));
    for (Operation *op : plan.use.ops) {
      if (isViewLike(op) || op->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (auto body = dyn_cast<BodyOp>(op)) {
        SmallVector<int64_t> own =
            llvm::map_to_vector(getOwnArguments(body), [&](BlockArgument argument) { return offsetOf(argument); });
        op->setAttr(ScrimpDialect::kBodyOffsets, builder.getDenseI64ArrayAttr(own));
      }
      SmallVector<int64_t> offsets = llvm::map_to_vector(op->getResults(), [&](Value v) { return offsetOf(v); });
      op->setAttr(ScrimpDialect::kOffsets, builder.getDenseI64ArrayAttr(offsets));
      op->removeAttr(ScrimpDialect::kWorkspace);
      if (auto it = workspaces.find(op); it != workspaces.end())
        op->setAttr(ScrimpDialect::kWorkspace, builder.getDenseI64ArrayAttr(it->second));
    }
  }

  int64_t getArenaBytes() const { return transientOffset + transientBytes; }

  void annotateModule() {
    Builder builder(&getContext());
    auto number = [&](StringRef name, int64_t value) {
      return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
    };
    SmallVector<Attribute> segments;
    for (unsigned s = 0; s < kNumSegments; ++s) {
      int64_t end = s + 1 < kNumSegments ? segmentOffsets[s + 1] : getArenaBytes();
      segments.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("name", builder.getStringAttr(stringifySegment(static_cast<Segment>(s)))),
           number("offset", segmentOffsets[s]), number("bytes", end - segmentOffsets[s])}));
    }
    getOperation()->setAttr(
        ScrimpDialect::kPlan,
        builder.getDictionaryAttr({number("arena_bytes", getArenaBytes()), number("lower_bound_bytes", lowerBound),
                                   number("transient_offset", transientOffset), number("alignment", alignment),
                                   builder.getNamedAttr("segments", builder.getArrayAttr(segments))}));
  }

  /// Reports the largest of what is live at the peak if all of it does not fit.
  LogicalResult checkCapacity() {
    int64_t most = capacity;
    if (most <= 0 || getArenaBytes() <= most)
      return success();
    Value largest;
    int64_t bytes = -1;
    auto consider = [&](Value root, int64_t size) {
      if (size <= bytes)
        return;
      largest = root;
      bytes = size;
    };
    FunctionPlan *highest = &*llvm::max_element(plans, [](auto &a, auto &b) { return a.lowerBound < b.lowerBound; });
    for (const PersistentBlock &block : highest->use.persistent)
      consider(block.root, block.bytes);
    for (const TransientBlock &block : highest->use.transient)
      if (block.first <= highest->peak && highest->peak <= block.last && !block.workspaceOf)
        consider(block.tenants.front().root, block.bytes);
    return emitError(largest.getLoc()) << "the plan needs " << getArenaBytes() << " bytes but the capacity is " << most
                                       << "; the largest block at the peak is '" << userNameOf(largest) << "' with "
                                       << bytes << " bytes";
  }

  std::vector<FunctionPlan> plans;
  llvm::MapVector<std::string, SharedBlock, std::map<std::string, unsigned>> shared;
  int64_t segmentOffsets[kNumSegments] = {};
  int64_t transientOffset = 0, transientBytes = 0, lowerBound = 0, alignment = kAlignment;
};
} // namespace
