// What training in these tests starts from and reads: functions of names, shapes, steps and seeds, the same for every
// way to run a program.
#ifndef SCRIMP_TEST_UNIT_EQUIVALENCE_TRAININGDATA_H
#define SCRIMP_TEST_UNIT_EQUIVALENCE_TRAININGDATA_H

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/HostTensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// The samples of a batch that a rank has; the first ranks have one more where they do not divide it.
struct Share {
  int64_t rank = 0, world = 1, begin = 0, count = 0;

  static Share of(int64_t batch, int64_t rank, int64_t world) {
    int64_t samples = batch / world, larger = batch % world;
    return {rank, world, rank * samples + std::min(rank, larger), samples + (rank < larger)};
  }
};

/// `valid`: samples of the batch, from the first on.
double scalarValue(StringRef name, int step, int64_t valid, const Share &share);

/// The first value of a parameter or state.
void initialize(StringRef name, ArrayRef<int64_t> shape, Attribute init, MutableArrayRef<double> elements);

/// The rank's samples of input `i`, in as many places as `type` has; what is too many holds the first of the batch.
HostTensor takeShare(func::FuncOp function, unsigned i, uint64_t seed, int step, int64_t batch, const Share &share,
                     RankedTensorType type);

/// The tensors of a bucket; none of another argument.
ArrayRef<Attribute> membersOf(func::FuncOp function, unsigned argument);

} // namespace mlir::scrimp

#endif
