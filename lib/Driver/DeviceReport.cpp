#include "DeviceReport.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Codegen/DeviceCode.h"
#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/AliasTypes.h"
#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;
using llvm::json::Object;

static int64_t getBytes(ValueRange tensors) {
  int64_t bytes = 0;
  for (Value tensor : tensors)
    bytes += bytesOf(tensor);
  return bytes;
}

LogicalResult mlir::scrimp::addDeviceCode(Object &report, ModuleOp module) {
  FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(module);
  if (failed(kernels))
    return failure();
  FailureOr<DeviceCode> code = compileDeviceCode(kernels->get());
  if (failed(code))
    return failure();
  struct Launched {
    std::string where;
    int64_t threads = 0, launches = 0, readBytes = 0, writtenBytes = 0;
  };
  llvm::StringMap<Launched> launched;
  module.walk([&](KernelRegionOp kernel) {
    auto symbol = kernel->getAttrOfType<StringAttr>(ScrimpDialect::kSymbol);
    auto shape = kernel->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kLaunch);
    if (!symbol || !shape)
      return;
    Launched &entry = launched[symbol.getValue()];
    if (!entry.launches++)
      entry = {userNameOf(kernel), shape[1], 1, getBytes(kernel->getOperands()), getBytes(kernel->getResults())};
  });
  Object result{{"ptx_bytes", static_cast<int64_t>(code->ptx.size())}};
  if (code->images.empty())
    result["assembled"] = "no: ptxas is not found in PATH, CUDA_HOME or /usr/local/cuda";
  Array images;
  Object ofKernels;
  std::map<std::string, KernelAccesses> accesses = countAccesses(code->ptx);
  auto toObject = [](const std::map<int64_t, int64_t> &byBits) {
    Object object;
    for (auto [bits, count] : byBits)
      object[std::to_string(bits)] = count;
    return object;
  };
  for (const DeviceImage &image : code->images) {
    images.push_back(Object{{"chip", image.chip}, {"bytes", static_cast<int64_t>(image.cubin.size())}});
    for (const KernelResources &kernel : image.kernels) {
      // The others are those of checks, by one thread.
      const Launched &use = launched.try_emplace(kernel.symbol, Launched{"", 1, 0}).first->second;
      const KernelAccesses &moved = accesses[kernel.symbol];
      auto found = ofKernels.try_emplace(kernel.symbol, Object{{"where", use.where},
                                                               {"launches", use.launches},
                                                               {"threads", use.threads},
                                                               {"read_bytes", use.readBytes},
                                                               {"written_bytes", use.writtenBytes},
                                                               {"loads_by_bits", toObject(moved.loads)},
                                                               {"stores_by_bits", toObject(moved.stores)},
                                                               {"chips", Object()}});
      (*found.first->second.getAsObject()->getObject("chips"))[image.chip] =
          Object{{"registers", kernel.registers},
                 {"shared_bytes", kernel.sharedBytes},
                 {"stack_bytes", kernel.stackBytes},
                 {"spill_bytes", kernel.spillBytes},
                 {"occupancy", computeOccupancy(image.chip, use.threads, kernel)}};
    }
  }
  result["images"] = std::move(images);
  result["kernels"] = std::move(ofKernels);
  report["device_code"] = std::move(result);
  return success();
}
