#include "ExpandUnits.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::scrimp;

SmallVector<scf::ParallelOp> mlir::scrimp::collectLoops(func::FuncOp kernel) {
  SmallVector<scf::ParallelOp> loops;
  kernel.walk([&](scf::ParallelOp loop) { loops.push_back(loop); });
  return loops;
}

/// Copies the loop's body at `iv`; gives what it reduces.
static SmallVector<Value> cloneBody(scf::ParallelOp loop, OpBuilder &builder, Value iv) {
  IRMapping mapping;
  mapping.map(loop.getInductionVars()[0], iv);
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value value : loop.getBody()->getTerminator()->getOperands())
    values.push_back(mapping.lookupOrDefault(value));
  return values;
}

Value mlir::scrimp::cloneCombine(scf::ParallelOp loop, size_t k, OpBuilder &builder, Value a, Value b) {
  Block &block = cast<scf::ReduceOp>(loop.getBody()->getTerminator()).getReductions()[k].front();
  IRMapping mapping;
  mapping.map(block.getArgument(0), a);
  mapping.map(block.getArgument(1), b);
  for (Operation &op : block.without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(block.getTerminator()->getOperand(0));
}

/// Lanes and block of a reduction. They are part of what it computes: changing one changes bits.
static constexpr int64_t kLanes = 16;
static constexpr int64_t kBlock = 4096;

/// Elements 0 to n - 1; n is constant.
static SmallVector<Value> expandReduce(scf::ParallelOp loop) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  int64_t n = *getConstantIntValue(loop.getUpperBound()[0]);
  SmallVector<Value> neutrals(loop.getInitVals());
  size_t count = neutrals.size();
  SmallVector<Value> lanes;
  for (Value neutral : neutrals)
    lanes.push_back(emitStackBuffer(builder, loc, {kLanes}, neutral.getType()));
  auto combine = [&](OpBuilder &b, size_t k, Value x, Value y) { return cloneCombine(loop, k, b, x, y); };
  auto emitParallel = [&](OpBuilder &b, int64_t size, llvm::function_ref<void(OpBuilder &, Value)> body) {
    auto lane = scf::ForOp::create(b, loc, emitIndex(b, loc, 0), emitIndex(b, loc, size), emitIndex(b, loc, 1));
    lane->setAttr(ScrimpDialect::kParallel, b.getUnitAttr());
    OpBuilder inside = OpBuilder::atBlockBegin(lane.getBody());
    body(inside, lane.getInductionVar());
  };
  auto accumulate = [&](OpBuilder &b, Value lane, Value j) {
    SmallVector<Value> values = cloneBody(loop, b, j);
    for (size_t k = 0; k < count; ++k) {
      Value old = memref::LoadOp::create(b, loc, lanes[k], lane);
      memref::StoreOp::create(b, loc, combine(b, k, old, values[k]), lanes[k], lane);
    }
  };
  // Elements [begin, begin + whole * 16 + rest), then the tree; gives one value per accumulator.
  auto emitBlock = [&](OpBuilder &b, Value begin, int64_t size) {
    emitParallel(b, kLanes, [&](OpBuilder &inner, Value lane) {
      for (size_t k = 0; k < count; ++k)
        memref::StoreOp::create(inner, loc, neutrals[k], lanes[k], lane);
    });
    emitLoop(b, loc, size / kLanes, [&](OpBuilder &outer, Value chunk) {
      Value offset = arith::MulIOp::create(outer, loc, chunk, emitIndex(outer, loc, kLanes));
      Value base = arith::AddIOp::create(outer, loc, begin, offset);
      emitParallel(outer, kLanes, [&](OpBuilder &inner, Value lane) {
        accumulate(inner, lane, arith::AddIOp::create(inner, loc, base, lane));
      });
    });
    Value base = arith::AddIOp::create(b, loc, begin, emitIndex(b, loc, size / kLanes * kLanes));
    emitLoop(b, loc, size % kLanes, [&](OpBuilder &inner, Value lane) {
      accumulate(inner, lane, arith::AddIOp::create(inner, loc, base, lane));
    });
    SmallVector<Value> totals;
    for (size_t k = 0; k < count; ++k) {
      SmallVector<Value> tree;
      for (int64_t lane = 0; lane < std::min(kLanes, size); ++lane)
        tree.push_back(memref::LoadOp::create(b, loc, lanes[k], emitIndex(b, loc, lane)));
      for (int64_t width = kLanes / 2; width >= 1; width /= 2)
        for (int64_t lane = 0; lane < width; ++lane)
          if (lane + width < static_cast<int64_t>(tree.size()))
            tree[lane] = combine(b, k, tree[lane], tree[lane + width]);
      totals.push_back(tree[0]);
    }
    return totals;
  };

  int64_t blocks = n / kBlock, rest = n % kBlock;
  if (blocks == 0)
    return emitBlock(builder, emitIndex(builder, loc, 0), n);
  auto ofBlocks = scf::ForOp::create(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, blocks),
                                     emitIndex(builder, loc, 1), neutrals);
  {
    OpBuilder inside = OpBuilder::atBlockBegin(ofBlocks.getBody());
    Value begin = arith::MulIOp::create(inside, loc, ofBlocks.getInductionVar(), emitIndex(inside, loc, kBlock));
    SmallVector<Value> totals = emitBlock(inside, begin, kBlock);
    for (size_t k = 0; k < count; ++k)
      totals[k] = combine(inside, k, ofBlocks.getRegionIterArgs()[k], totals[k]);
    scf::YieldOp::create(inside, loc, totals);
  }
  SmallVector<Value> results(ofBlocks.getResults());
  if (rest) {
    SmallVector<Value> totals = emitBlock(builder, emitIndex(builder, loc, blocks * kBlock), rest);
    for (size_t k = 0; k < count; ++k)
      results[k] = combine(builder, k, results[k], totals[k]);
  }
  return results;
}

void mlir::scrimp::expandUnitsForCpu(func::FuncOp kernel) {
  for (scf::ParallelOp loop : collectLoops(kernel)) {
    if (!loop.getInitVals().empty()) {
      loop->replaceAllUsesWith(expandReduce(loop));
      loop->erase();
      continue;
    }
    OpBuilder builder(loop);
    auto inOrder =
        scf::ForOp::create(builder, loop.getLoc(), loop.getLowerBound()[0], loop.getUpperBound()[0], loop.getStep()[0]);
    inOrder->setAttr(ScrimpDialect::kParallel, builder.getUnitAttr());
    loop.getBody()->getTerminator()->erase();
    inOrder.getBody()->getOperations().splice(inOrder.getBody()->begin(), loop.getBody()->getOperations());
    loop.getInductionVars()[0].replaceAllUsesWith(inOrder.getInductionVar());
    loop->erase();
  }
}
