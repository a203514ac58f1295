// How long an op takes, by what it computes and moves (CostOp) and the rates of a device.
#ifndef SCRIMP_ANALYSIS_COST_H
#define SCRIMP_ANALYSIS_COST_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// Rates of a device. The defaults are those of two cores of a server.
struct DeviceRates {
  double library16 = 1e11, library32 = 1e11, library64 = 5e10; // a second, of products and convolutions of that type
  double kernelFlops = 4e10;                                   // a second, of generated code
  double bytes = 1.5e10;                                       // of memory, a second
  double launch = 2e-6;                                        // seconds of any command
  double productShare = 1;                                     // of the peak of products, what a library reaches
  planner::Network network;                                    // between ranks

  /// Of products of that element type.
  double getLibraryFlops(Type type) const {
    unsigned width = type.getIntOrFloatBitWidth();
    return width <= 16 ? library16 : width == 32 ? library32 : library64;
  }
};

/// Seconds of the op's arithmetic alone, as part of a kernel that runs anyway.
double secondsInKernel(Operation *op, const DeviceRates &rates);

/// Seconds of the op as a command of its own: a launch, and the longest of arithmetic, memory and network. 0 without
/// code. Of an op that only starts something (AsyncOp): until it has ended.
double secondsAlone(Operation *op, const DeviceRates &rates);

} // namespace mlir::scrimp

#endif
