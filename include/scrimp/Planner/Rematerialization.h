// What to keep for the backward pass and what to compute again, apart from any IR: a problem, its optimum for a price
// per byte, and the judge of any choice.
#ifndef SCRIMP_PLANNER_REMATERIALIZATION_H
#define SCRIMP_PLANNER_REMATERIALIZATION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace mlir::scrimp::planner {

/// The forward pass: ops in an order in which they can run, and the values that they give. What is there anyway
/// (parameters, inputs, constants) is no value of the problem.
struct RematProblem {
  struct Op {
    double seconds = 0;                // to compute it again
    bool mayRepeat = true;             // whether it can be
    llvm::SmallVector<unsigned> reads; // numbers of values
  };
  struct Value {
    unsigned op = 0;       // that gives it
    double bytes = 0;      // the weight of keeping it
    bool required = false; // the backward pass reads it
    bool mayKeep = true;   // whether it can be: not, where an op writes over it
  };
  std::vector<Op> ops;
  std::vector<Value> values;
};

/// Values that are kept, and ops that are computed again, once each.
struct RematChoice {
  llvm::BitVector kept, repeated;

  double getBytes(const RematProblem &problem) const;
  double getSeconds(const RematProblem &problem) const;
};

/// Rejects reads of values that are not given by an earlier op, numbers out of range, negative weights.
llvm::Error checkProblem(const RematProblem &problem);

/// Whether every required value is kept or computed again from what is kept or computed again, and nothing is kept or
/// repeated that may not be.
llvm::Error verify(const RematProblem &problem, const RematChoice &choice);

/// The choice with the least seconds + secondsPerByte * bytes, exactly (to rounding of the prices to 60 bits of their
/// sum); of several that with the fewest repeated ops. A value is available if it is kept or its op is repeated; an op
/// is repeated only where all that it reads is available: conditions that couple two binary variables each, so the
/// optimum is a minimum cut (as in PyTorch's partitioner, and in Picard, "Maximal closure of a graph", 1976).
/// `secondsPerByte` may be infinite: fewest bytes, and of these choices least seconds. Every required value must have a
/// way: where it may not be kept, all that it takes to compute it again may be repeated.
RematChoice chooseKept(const RematProblem &problem, double secondsPerByte);

/// Gives the bytes of early values more weight, up to a tenth, so that of equal layers one after the other changes as
/// the price of a byte rises, the earliest first: it is computed again last, when little else is alive.
void preferEarliest(RematProblem &problem);

/// Prices per byte, rising: for each choice on the lower convex hull of bytes and seconds, but the one that keeps most,
/// a price at which it is the cheapest, the last infinite. At most `most` choices, the widest apart. A price has as few
/// digits as its choice allows.
std::vector<double> findPrices(const RematProblem &problem, size_t most);

/// Which adjacent blocks to take together: the first block of each group. `inputs[i]` bytes are kept at the beginning of
/// block i if a group begins there, `inside[i]` are alive in it while it is computed again and differentiated. Least sum
/// of the kept inputs and of the largest group; of several the smallest groups.
std::vector<unsigned> groupBlocks(llvm::ArrayRef<int64_t> inputs, llvm::ArrayRef<int64_t> inside);

} // namespace mlir::scrimp::planner

#endif
