#include "scrimp/Planner/Rematerialization.h"

#include "MaxFlow.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

using namespace llvm;
using namespace mlir::scrimp::planner;

static Error error(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

double RematChoice::getBytes(const RematProblem &problem) const {
  double bytes = 0;
  for (unsigned v : kept.set_bits())
    bytes += problem.values[v].bytes;
  return bytes;
}

double RematChoice::getSeconds(const RematProblem &problem) const {
  double seconds = 0;
  for (unsigned o : repeated.set_bits())
    seconds += problem.ops[o].seconds;
  return seconds;
}

Error mlir::scrimp::planner::checkProblem(const RematProblem &problem) {
  for (auto [v, value] : enumerate(problem.values)) {
    if (value.op >= problem.ops.size())
      return error("value " + Twine(v) + " is given by op " + Twine(value.op) + " of " + Twine(problem.ops.size()));
    if (!(value.bytes >= 0))
      return error("value " + Twine(v) + " has negative bytes");
  }
  for (auto [o, op] : enumerate(problem.ops)) {
    if (!(op.seconds >= 0))
      return error("op " + Twine(o) + " takes negative time");
    for (unsigned v : op.reads)
      if (v >= problem.values.size() || problem.values[v].op >= o)
        return error("op " + Twine(o) + " reads value " + Twine(v) + ", which no earlier op gives");
  }
  return Error::success();
}

Error mlir::scrimp::planner::verify(const RematProblem &problem, const RematChoice &choice) {
  if (choice.kept.size() != problem.values.size() || choice.repeated.size() != problem.ops.size())
    return error("expected a choice for " + Twine(problem.values.size()) + " values and " + Twine(problem.ops.size()) +
                 " ops, found " + Twine(choice.kept.size()) + " and " + Twine(choice.repeated.size()));
  auto isAvailable = [&](unsigned v) { return choice.kept.test(v) || choice.repeated.test(problem.values[v].op); };
  for (auto [v, value] : enumerate(problem.values)) {
    if (value.required && !isAvailable(v))
      return error("value " + Twine(v) + " is required, but neither kept nor computed again");
    if (choice.kept.test(v) && !value.mayKeep)
      return error("value " + Twine(v) + " may not be kept");
  }
  for (unsigned o : choice.repeated.set_bits()) {
    if (!problem.ops[o].mayRepeat)
      return error("op " + Twine(o) + " may not be computed again");
    for (unsigned v : problem.ops[o].reads)
      if (!isAvailable(v))
        return error("op " + Twine(o) + " is computed again, but value " + Twine(v) +
                     " is neither kept nor computed again");
  }
  return Error::success();
}

RematChoice mlir::scrimp::planner::chooseKept(const RematProblem &problem, double secondsPerByte) {
  // Nodes: "value v is available", "op o is repeated", the source (true) and the sink (false).
  unsigned values = problem.values.size(), ops = problem.ops.size(), source = values + ops, sink = source + 1;
  double bytes = 0, seconds = 0;
  for (const RematProblem::Value &value : problem.values)
    bytes += value.mayKeep ? value.bytes : 0;
  for (const RematProblem::Op &op : problem.ops)
    seconds += op.mayRepeat ? op.seconds : 0;
  double perByte = secondsPerByte, perSecond = 1;
  if (std::isinf(secondsPerByte)) {
    // All seconds together weigh as much as half a byte.
    perByte = 1;
    perSecond = seconds > 0 ? 0.5 / seconds : 0;
  }
  double total = perByte * bytes + perSecond * seconds, scale = total > 0 ? std::ldexp(1, 60) / total : 0;
  // What costs anything at all is never free.
  auto toUnits = [&](double price) { return price > 0 ? std::max<int64_t>(1, std::llround(price * scale)) : 0; };
  MaxFlow flow(values + ops + 2);
  for (auto [v, value] : enumerate(problem.values)) {
    if (value.required)
      flow.addArc(source, v, MaxFlow::kUnbounded);
    // Available, but not repeated: kept.
    flow.addArc(v, values + value.op, value.mayKeep ? toUnits(perByte * value.bytes) : MaxFlow::kUnbounded);
  }
  for (auto [o, op] : enumerate(problem.ops)) {
    flow.addArc(values + o, sink, op.mayRepeat ? toUnits(perSecond * op.seconds) : MaxFlow::kUnbounded);
    for (unsigned v : op.reads)
      flow.addArc(values + o, v, MaxFlow::kUnbounded);
  }
  BitVector isTrue = flow.cut(source, sink);
  RematChoice choice{BitVector(values), BitVector(ops)};
  for (unsigned o = 0; o < ops; ++o)
    choice.repeated[o] = isTrue[values + o];
  for (auto [v, value] : enumerate(problem.values))
    choice.kept[v] = isTrue[v] && !choice.repeated[value.op];
  return choice;
}

void mlir::scrimp::planner::preferEarliest(RematProblem &problem) {
  for (RematProblem::Value &value : problem.values)
    value.bytes *= 1.1 - 0.1 * value.op / problem.ops.size();
}

/// The number of fewest digits between two others.
static double roundBetween(double low, double high) {
  double middle = low > 0 ? std::sqrt(low * high) : high / 2;
  for (unsigned digits = 0; digits < 16; ++digits) {
    char text[32];
    snprintf(text, sizeof(text), "%.*e", digits, middle);
    double rounded = std::strtod(text, nullptr);
    if (rounded > low && rounded < high)
      return rounded;
  }
  return middle;
}

std::vector<double> mlir::scrimp::planner::findPrices(const RematProblem &problem, size_t most) {
  // Between two points of the hull, the price at which both cost the same finds a third below their line, or none
  // (Eisner and Severance, "Mathematical techniques for efficient record segmentation", 1976). The widest gap comes
  // first.
  struct Point {
    double price, bytes, seconds;
  };
  auto at = [&](double price) {
    RematChoice choice = chooseKept(problem, price);
    return Point{price, choice.getBytes(problem), choice.getSeconds(problem)};
  };
  std::vector<Point> hull{at(0), at(std::numeric_limits<double>::infinity())};
  std::vector<bool> isEdge{false}; // whether nothing lies below the line from point i to i + 1
  auto slope = [&](size_t i) { return (hull[i + 1].seconds - hull[i].seconds) / (hull[i].bytes - hull[i + 1].bytes); };
  while (hull.size() < most + 1) {
    size_t widest = hull.size();
    for (size_t i = 0; i + 1 < hull.size(); ++i)
      if (!isEdge[i] &&
          (widest == hull.size() || hull[i].bytes - hull[i + 1].bytes > hull[widest].bytes - hull[widest + 1].bytes))
        widest = i;
    if (widest == hull.size())
      break;
    Point left = hull[widest], right = hull[widest + 1];
    if (left.bytes <= right.bytes) {
      isEdge[widest] = true;
      continue;
    }
    double price = slope(widest);
    Point middle = at(price);
    double gain = left.seconds + price * left.bytes - (middle.seconds + price * middle.bytes);
    if (middle.bytes >= left.bytes || middle.bytes <= right.bytes ||
        gain <= 1e-9 * std::max(left.seconds, right.seconds)) {
      isEdge[widest] = true;
      continue;
    }
    hull.insert(hull.begin() + widest + 1, middle);
    isEdge.insert(isEdge.begin() + widest, false);
  }
  // A point is the cheapest at the prices between the slopes of its edges, and where it was found.
  std::vector<double> prices;
  for (size_t i = 1; i < hull.size(); ++i) {
    if (hull[i - 1].bytes <= hull[i].bytes)
      continue;
    bool isBetween = i + 1 < hull.size() && isEdge[i - 1] && isEdge[i];
    prices.push_back(isBetween ? roundBetween(slope(i - 1), slope(i)) : hull[i].price);
  }
  return prices;
}

std::vector<unsigned> mlir::scrimp::planner::groupBlocks(ArrayRef<int64_t> inputs, ArrayRef<int64_t> inside) {
  size_t count = inputs.size();
  std::vector<int64_t> sums(count + 1, 0);
  for (size_t i = 0; i < count; ++i)
    sums[i + 1] = sums[i] + inside[i] + inputs[i];
  // An input that is not kept is alive in its group.
  auto sizeOf = [&](size_t first, size_t last) { return sums[last] - sums[first] - inputs[first]; };
  int64_t smallest = 0;
  for (size_t i = 0; i < count; ++i)
    smallest = std::max(smallest, inside[i]);
  int64_t largest = std::max(smallest, count ? sizeOf(0, count) : 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<unsigned> bestStarts;
  // Fewest bytes with groups of at most `limit`; limits in steps of a twentieth.
  for (double limit = smallest;; limit = std::min<double>(largest, limit * 1.05 + 1)) {
    std::vector<int64_t> kept(count + 1, std::numeric_limits<int64_t>::max() / 2);
    std::vector<size_t> startOf(count + 1, 0);
    kept[0] = 0;
    for (size_t last = 1; last <= count; ++last)
      for (size_t first = last; first-- > 0 && (first + 1 == last || sizeOf(first, last) <= limit);)
        if (kept[first] + inputs[first] < kept[last]) {
          kept[last] = kept[first] + inputs[first];
          startOf[last] = first;
        }
    int64_t most = 0;
    std::vector<unsigned> starts;
    for (size_t last = count; last > 0; last = startOf[last]) {
      most = std::max(most, sizeOf(startOf[last], last));
      starts.push_back(startOf[last]);
    }
    if (kept[count] + most < best) {
      best = kept[count] + most;
      bestStarts.assign(starts.rbegin(), starts.rend());
    }
    if (limit >= largest)
      break;
  }
  return bestStarts;
}
