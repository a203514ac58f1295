// Products take in what is done to their results, as far as the target's library does it in the same call. Only what
// nobody else reads is taken in, so no value is kept or computed that was not before.
#include "LinearEpilogues.h"

#include "scrimp/Analysis/FusionLegality.h"
#include "scrimp/runtime/workspace.h"

#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::scrimp;

static Type elementOf(Value value) { return tensorType(value).getElementType(); }

/// The value seen through reshapes.
static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The value seen through reshapes and casts that change no number.
static Value skipExact(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto cast = dyn_cast<CastOp>(op);
    if (!isa<ReshapeOp>(op) && !(cast && isFloatTensor(cast.getX()) && cast.isLinearIn({true})))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The vector of `n` numbers that is broadcast to the rows of `value`; null if it is no such thing.
static Value getBias(Value value, int64_t n) {
  auto broadcast = skipExact(value).getDefiningOp<BroadcastOp>();
  if (!broadcast || shapeOf(value).empty() || shapeOf(value).back() != n || shapeOf(broadcast.getY()).back() != n)
    return {};
  Value bias = broadcast.getX();
  return shapeOf(bias).size() >= 1 && shapeOf(bias).back() == n && tensorType(bias).getNumElements() == n ? bias
                                                                                                          : Value();
}

namespace {
/// What a product becomes: operands of a LinearOp, and the value that its result replaces.
struct Formation {
  SmallVector<Operation *> ops; // that are taken in, from the product's reader on
  Value addend, bias, at; // as they stand in the graph: getMatrix says what the call reads of the first and the last
  std::optional<Epilogue> epilogue;
};
} // namespace

/// The matrix in `type` that a call can read in the place of `value`: the value itself, or what it was cast from
/// without loss. Null: it has other numbers, or would have to be stored for this alone.
static Value getMatrix(Value value, Type type) {
  if (elementOf(value) != type)
    value = skipExact(value);
  Operation *source = skipReshapes(value).getDefiningOp();
  bool isStored = !isFreeProducer(source) && !(isFusibleMap(source) && source->hasOneUse());
  return elementOf(value) == type && isStored ? value : Value();
}

/// Takes `op`, which reads the sums in operand `sums`, into the formation, whose result is then of `type`; false if the
/// library does not compute it.
static bool takeIn(Formation &formation, Operation *op, unsigned sums, Type type, int64_t n) {
  if (auto epilogue = dyn_cast<EpilogueOp>(op)) {
    if (op->getNumOperands() == 2) {
      if (sums != 0 || n % ::scrimp::runtime::epilogueColumns != 0)
        return false;
      formation.at = op->getOperand(1);
    }
    formation.epilogue = epilogue.getEpilogue();
  } else if (isa<AddOp>(op)) {
    Value other = op->getOperand(1 - sums), bias = getBias(other, n);
    Value &taken = bias ? formation.bias : formation.addend;
    if (taken)
      return false;
    taken = bias ? bias : other;
  } else {
    return false;
  }
  return (!formation.addend || getMatrix(formation.addend, type)) && (!formation.at || getMatrix(formation.at, type));
}

/// Follows the one reader of each value after the product as long as the library computes it.
static Formation findFormation(MatmulOp product) {
  Formation formation;
  SmallVector<Operation *> path;
  int64_t n = product.getN();
  Type operand = elementOf(product.getA()), sum = getComputeType(operand);
  Value value = product.getY();
  while (!formation.epilogue && value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    Operation *op = use.getOwner();
    Value result = op->getNumResults() == 1 ? Value(op->getResult(0)) : Value();
    if (!result || op->getBlock() != product->getBlock() || !isFloatTensor(result) ||
        (elementOf(result) != operand && elementOf(result) != sum))
      break;
    path.push_back(op);
    if (isa<ReshapeOp, CastOp>(op)) {
      value = result;
      continue;
    }
    if (shapeOf(result) != shapeOf(value) || shapeOf(value).empty() || shapeOf(value).back() != n)
      break;
    // The one rounding is to the type in which the result is stored.
    if (result.hasOneUse())
      if (auto cast = dyn_cast<CastOp>(*result.user_begin()); cast && elementOf(cast) == operand) {
        path.push_back(cast);
        result = cast;
      }
    Formation next = formation;
    if (!takeIn(next, op, use.getOperandNumber(), elementOf(result), n))
      break;
    formation = std::move(next);
    formation.ops = path;
    value = result;
  }
  return formation;
}

/// The product moves to where the last op stood that it takes in: what that reads is there.
static void form(MatmulOp product, const Formation &formation) {
  Operation *last = formation.ops.back();
  OpBuilder builder(last);
  Location loc = last->getLoc();
  auto type = RankedTensorType::get({product.getM(), product.getN()}, elementOf(last->getResult(0)));
  auto matrix = [&](Value value) {
    return value ? reshapeTo(builder, loc, getMatrix(value, type.getElementType()), type.getShape()) : value;
  };
  EpilogueAttr epilogue = formation.epilogue ? EpilogueAttr::get(builder.getContext(), *formation.epilogue) : nullptr;
  // A bias that was gathered in 16 bits is these.
  Value bias = formation.bias;
  if (bias && elementOf(skipExact(bias)) == type.getElementType())
    bias = skipExact(bias);
  if (bias) {
    auto vector = RankedTensorType::get({product.getN()}, type.getElementType());
    bias = castToType(builder, loc, reshapeTo(builder, loc, bias, vector.getShape()), vector);
  }
  auto linear = LinearOp::create(builder, loc, TypeRange{type}, product.getA(), product.getB(),
                                 product.getTransposeAAttr(), product.getTransposeBAttr(), matrix(formation.addend),
                                 bias, matrix(formation.at), epilogue, /*sums=*/nullptr, /*acc=*/nullptr);
  Value end = last->getResult(0);
  end.replaceAllUsesWith(reshapeTo(builder, loc, linear.getY(), shapeOf(end)));
  for (Operation *op : llvm::reverse(formation.ops))
    op->erase();
  product->erase();
}

/// Where the product can stand to give the sums too; null: nowhere.
static Operation *findPlace(MatmulOp product, ReduceOp reduce) {
  if (product->isBeforeInBlock(reduce))
    return product;
  auto isThere = [&](Value operand) {
    Operation *op = skipReshapes(operand).getDefiningOp();
    return !op || op->getBlock() != reduce->getBlock() || op->isBeforeInBlock(reduce);
  };
  if (llvm::all_of(product->getOperands(), isThere))
    return reduce;
  bool isReadLater = llvm::all_of(reduce->getUsers(), [&](Operation *user) {
    return product->isBeforeInBlock(reduce->getBlock()->findAncestorOpInBlock(*user));
  });
  return isReadLater ? product.getOperation() : nullptr;
}

/// Has the product sum its operand `gradient` up, which `reduce` does, over the same rows. False if it cannot.
static bool formSums(MatmulOp product, Value gradient, ReduceOp reduce) {
  Type sum = elementOf(reduce.getY());
  if (product->getBlock() != reduce->getBlock() || shapeOf(gradient).size() != 2 ||
      shapeOf(gradient)[1] != shapeOf(reduce.getX()).back() || elementOf(product.getY()) != sum ||
      getComputeType(elementOf(gradient)) != sum)
    return false;
  bool isB = product.getB() == gradient && !product.getTransposeB();
  if (!isB && !(product.getA() == gradient && product.getTransposeA()))
    return false;
  Operation *place = findPlace(product, reduce);
  if (!place)
    return false;
  OpBuilder builder(place);
  // A reshape that stands further down is made again.
  auto here = [&](Value operand) {
    Operation *op = operand.getDefiningOp();
    bool isLater = op && op->getBlock() == place->getBlock() && !op->isBeforeInBlock(place);
    return isLater ? reshapeTo(builder, product.getLoc(), skipReshapes(operand), shapeOf(operand)) : operand;
  };
  auto sums = OperandSumsAttr::get(builder.getContext(), isB ? OperandSums::b : OperandSums::a);
  auto linear = LinearOp::create(builder, product.getLoc(), TypeRange{product.getType(), reduce.getType()},
                                 here(product.getA()), here(product.getB()), product.getTransposeAAttr(),
                                 product.getTransposeBAttr(), /*addend=*/nullptr, /*bias=*/nullptr, /*at=*/nullptr,
                                 /*epilogue=*/nullptr, sums, product.getAcc());
  product.replaceAllUsesWith(linear.getY());
  reduce.replaceAllUsesWith(linear.getBeside());
  product->erase();
  reduce->erase();
  return true;
}

/// The gradient of a bias is the sum over rows of what is multiplied for that of a weight.
static void formSums(ReduceOp reduce) {
  Value x = reduce.getX();
  size_t rank = shapeOf(x).size();
  if (reduce.getKind() != ReduceKind::sum || !isFloatTensor(x) || rank < 2 || reduce.getDims().size() != rank - 1 ||
      llvm::is_contained(reduce.getDims(), static_cast<int64_t>(rank - 1)))
    return;
  SmallVector<Value> same{skipExact(x)};
  for (size_t i = 0; i < same.size(); ++i)
    for (Operation *user : same[i].getUsers()) {
      if (auto reshape = dyn_cast<ReshapeOp>(user))
        same.push_back(reshape);
      auto product = dyn_cast<MatmulOp>(user);
      if (product && formSums(product, same[i], reduce))
        return;
    }
}

void mlir::scrimp::formEpilogues(ModuleOp module) {
  SmallVector<MatmulOp> products;
  SmallVector<ReduceOp> reductions;
  module.walk([&](MatmulOp product) {
    if (shapeOf(product.getY()).size() == 2 && !product.getAcc())
      products.push_back(product);
  });
  for (MatmulOp product : products)
    if (Formation formation = findFormation(product); !formation.ops.empty())
      form(product, formation);
  module.walk([&](ReduceOp reduce) { reductions.push_back(reduce); });
  for (ReduceOp reduce : reductions)
    formSums(reduce);
  // Broadcasts, casts and reshapes that nothing reads any more.
  module.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}
