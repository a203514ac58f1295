// The devices that this machine's processor can be; with lib/cuda the runtime has another openDevice.
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

Result<std::unique_ptr<Device>> openDevice(const program::Program *program, ThreadPool &pool, const DeviceOptions &) {
  switch (program->target()) {
  case program::Target::cpu:
    return makeCpuDevice(pool);
  case program::Target::emulated:
    return makeEmulatedDevice(pool);
  case program::Target::cuda:
    break;
  }
  return Status::error("this program is for %s, which this runtime cannot run",
                       program::EnumNameTarget(program->target()));
}

} // namespace scrimp::runtime
