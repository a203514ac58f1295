#include "VerifyProducts.h"
#include "../common/GemmArguments.h"
#include "../common/LinearArguments.h"
#include <cmath>
#include <random>
#include <set>

namespace scrimp::runtime::cuda {

namespace {

/// A number, and how far from it a right result may be.
struct Expected {
  double value = 0, bound = 0;
};

/// The unit roundoff.
double roundoff(DType type) {
  return std::ldexp(1.0, type == DType::f64 ? -53 : type == DType::f32 ? -24 : type == DType::f16 ? -11 : -8);
}

/// One call: its buffers before it ran, and what they should hold afterwards.
class Calculation {
public:
  Calculation(const LibraryArguments &arguments, const std::vector<std::vector<char>> &before)
      : arguments(arguments), before(before) {}

  /// Sum over k of op(A)[i, k] op(B)[k, j] of one member of a batch, added to `sum`.
  void addProduct(const GemmCall &s, int64_t member, int64_t i, int64_t j, Expected &sum) const {
    for (int64_t x = 0; x < s.k; ++x) {
      double term = load(0, member * s.strideA + (s.transA ? x * s.m + i : i * s.k + x)) *
                    load(1, member * s.strideB + (s.transB ? j * s.k + x : x * s.n + j));
      sum.value += term;
      sum.bound += std::abs(term);
    }
  }
  void add(size_t buffer, int64_t index, Expected &sum) const {
    sum.value += load(buffer, index);
    sum.bound += std::abs(load(buffer, index));
  }
  /// From the sizes of the terms to a bound on the error of their sum, rounded to the type of a buffer.
  Expected round(Expected sum, int64_t terms, size_t result) const {
    double each = roundoff(arguments.dtype);
    return {sum.value, sum.bound * each * static_cast<double>(terms + 8) +
                           2 * roundoff(arguments.typeOf(result)) * std::abs(sum.value) + 1e-30};
  }
  double load(size_t buffer, int64_t index) const {
    return loadElement(arguments.typeOf(buffer), before[buffer].data(), index);
  }

private:
  const LibraryArguments &arguments;
  const std::vector<std::vector<char>> &before;
};

double geluSlope(double x) {
  double scale = std::sqrt(2 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}
double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/// Calls visit(buffer, index, expected) for a sample of the elements of all results.
template <typename Visit>
void forSample(std::string_view function, const LibraryArguments &arguments, const Calculation &from,
               std::minstd_rand &random, Visit visit) {
  constexpr int sample = 60;
  auto pick = [&](int k, int64_t count) -> int64_t {
    return k == 0 ? 0 : k == 1 ? count - 1 : static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  if (function == "gemm") {
    GemmCall s = gemmCallOf(arguments);
    if (!s.m || !s.n || !s.batch)
      return;
    int64_t members = s.sumsBatch() ? s.batch : 1;
    for (int k = 0; k < sample; ++k) {
      int64_t i = pick(k, s.m), j = pick(k, s.n), member = s.sumsBatch() ? 0 : pick(k, s.batch);
      int64_t place = member * s.strideC + i * s.n + j;
      Expected sum;
      for (int64_t x = 0; x < members; ++x)
        from.addProduct(s, member + x, i, j, sum);
      if (s.accumulate)
        from.add(2, place, sum);
      visit(size_t(2), place, from.round(sum, s.k * members, 2));
    }
    return;
  }
  LinearCall s = linearCallOf(arguments);
  LinearPlaces at(s, /*hasWorkspace=*/true);
  if (!s.m || !s.n)
    return;
  auto buffer = [](int place) { return static_cast<size_t>(place); };
  // The library's tanh is an approximation.
  constexpr double ofTanh = 1e-3;
  for (int k = 0; k < sample; ++k) {
    int64_t i = pick(k, s.m), j = pick(k, s.n), place = i * s.n + j;
    Expected sum;
    from.addProduct(s.product(), 0, i, j, sum);
    if (s.addend != noAddend)
      from.add(buffer(s.addend == ownAddend ? at.addend : at.result), place, sum);
    if (s.bias)
      from.add(buffer(at.bias), j, sum);
    Expected result = from.round(sum, s.k, buffer(at.result));
    if (at.kept >= 0)
      visit(buffer(at.kept), place, result);
    if (s.epilogue == reluEpilogue)
      result.value = std::max(result.value, 0.0);
    if (s.epilogue == geluEpilogue || s.epilogue == geluKeepingEpilogue)
      result = {gelu(result.value), 1.2 * result.bound + ofTanh * (1 + std::abs(result.value))};
    if (s.epilogue == geluGradEpilogue) {
      double slope = geluSlope(from.load(buffer(at.read), place));
      result = {result.value * slope, 1.2 * result.bound + ofTanh * (1 + std::abs(result.value))};
    }
    visit(buffer(at.result), place, result);
    if (s.sums == noSums)
      continue;
    bool ofA = s.sums == sumsOfA;
    Expected line;
    for (int64_t x = 0; x < s.k; ++x)
      from.add(ofA ? 0 : 1, ofA ? (s.transA ? x * s.m + i : i * s.k + x) : (s.transB ? j * s.k + x : x * s.n + j),
               line);
    visit(buffer(at.sums), ofA ? i : j, from.round(line, s.k, buffer(at.sums)));
  }
}

} // namespace

Status verifyProducts(const program::Program *program, Device &device, char *arena, const std::string &library,
                      std::string &summary) {
  std::set<std::string> seen;
  std::minstd_rand random(1);
  Status status;
  int64_t compared = 0;
  auto verifyCall = [&](const program::Call *call) -> Status {
    LibraryArguments arguments;
    setScalarArguments(arguments, *call, *program);
    if (!seen.insert(keyOf(*call)).second)
      return Status::ok();
    std::vector<char *> pointers;
    std::vector<uint64_t> lengths;
    std::vector<std::vector<char>> before, after;
    for (const program::Range *range : items(call->buffers())) {
      DType type = arguments.typeOf(pointers.size());
      before.emplace_back(range->bytes());
      for (int64_t i = 0, count = static_cast<int64_t>(range->bytes()) / elementBytes(type); i < count; ++i)
        storeElement(type, before.back().data(), i, static_cast<double>(random()) / std::minstd_rand::max() * 2 - 1);
      pointers.push_back(arena + range->offset());
      lengths.push_back(range->bytes());
      if (Status copied = device.upload(pointers.back(), before.back().data(), static_cast<int64_t>(range->bytes()));
          copied.failed())
        return copied;
    }
    auto download = [&](std::vector<std::vector<char>> &buffers) {
      buffers.resize(pointers.size());
      Status copied;
      for (size_t i = 0; i < pointers.size() && !copied.failed(); ++i) {
        buffers[i].resize(lengths[i]);
        copied = device.download(buffers[i].data(), pointers[i], static_cast<int64_t>(lengths[i]));
      }
      return copied;
    };
    // Two of them may be the same bytes.
    if (Status copied = download(before); copied.failed())
      return copied;
    arguments.buffers = pointers;
    arguments.bytes = lengths;
    std::string_view function = textOf(call->function());
    Status ran = device.call(*findLibraryFunction(function), arguments);
    if (!ran.failed())
      ran = download(after);
    if (ran.failed())
      return ran;
    Status fault;
    auto compare = [&](size_t buffer, int64_t index, Expected expected) {
      double found = loadElement(arguments.typeOf(buffer), after[buffer].data(), index);
      ++compared;
      if (!fault.failed() && !(std::abs(found - expected.value) <= expected.bound))
        fault =
            Status::error("%s computes wrong on this GPU: element %lld of buffer %zu of a %.*s of %s is %.9g, expected "
                          "%.9g within %.2g, in '%s'; install another version, or give --cuda-libs",
                          library.c_str(), (long long)index, buffer, (int)function.size(), function.data(),
                          dtypeName(arguments.typeOf(0)), found, expected.value, expected.bound,
                          std::string(arguments.where).c_str());
    };
    forSample(function, arguments, Calculation(arguments, before), random, compare);
    return fault;
  };
  for (const program::Graph *graph : items(program->graphs()))
    forEachCommand(graph->commands(), [&](const program::Command *command) {
      if (const program::Call *call = command->body_as_Call(); call && !status.failed())
        status = verifyCall(call);
    });
  summary = format("%zu different library calls, %lld elements of their results: all agree with plain sums; %s",
                   seen.size(), (long long)compared, library.c_str());
  return status;
}

} // namespace scrimp::runtime::cuda
