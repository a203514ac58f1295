// The placement problem, apart from any IR: buffers with sizes and live ranges get offsets in one arena. Every solver
// is held to the same judge, `verify`.
#ifndef SCRIMP_PLANNER_PROBLEM_H
#define SCRIMP_PLANNER_PROBLEM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace mlir::scrimp::planner {

/// A block of memory that is needed during the steps [first, last], both included.
struct Buffer {
  int64_t bytes = 0;
  int64_t alignment = 1; // of the offset, in bytes; a power of two
  int first = 0, last = 0;
  std::string name; // for messages
};

/// Offsets in bytes, one per buffer, and the end of the highest buffer.
struct Solution {
  llvm::SmallVector<int64_t> offsets;
  int64_t bytes = 0;
};

struct Problem {
  llvm::SmallVector<Buffer> buffers;

  /// Whether the two must not share a byte: both have bytes, and their live ranges meet.
  bool conflict(size_t a, size_t b) const {
    const Buffer &x = buffers[a], &y = buffers[b];
    return x.bytes > 0 && y.bytes > 0 && x.first <= y.last && y.first <= x.last;
  }
};

/// Rejects negative sizes and steps, live ranges that end before they begin, and alignments that are no power of two.
llvm::Error checkProblem(const Problem &problem);

/// The most bytes that are live at one step, each buffer rounded up to its alignment (the next one cannot begin
/// before): no placement whose arena is a multiple of the alignment takes less. Where `step` is given it gets the first
/// such step.
int64_t lowerBound(const Problem &problem, int *step = nullptr);

/// Places every buffer by best fit: of the gaps that the buffers in conflict leave, the smallest that suffices. Tries
/// several orders (large first, large and long-lived first, early first, ...) and keeps the lowest arena; stops at the
/// lower bound. Deterministic; quadratic in the number of buffers.
Solution solveBestFit(const Problem &problem);

/// Whether the solution keeps its promises: offsets aligned and not negative, no two conflicting buffers share a byte,
/// `bytes` covers all. Shares nothing with the solvers.
llvm::Error verify(const Problem &problem, const Solution &solution);

} // namespace mlir::scrimp::planner

#endif
