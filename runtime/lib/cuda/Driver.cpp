#include "Driver.h"

namespace scrimp::runtime::cuda {

Result<Driver> Driver::open() {
  constexpr int least = 12000;
  Result<SharedLibrary> library = SharedLibrary::open({"libcuda.so.1"}, "", "is the driver of NVIDIA's GPUs");
  if (library.failed())
    return Status::error("no CUDA device: there is no libcuda.so.1, the driver of NVIDIA's GPUs, on this machine; run "
                         "where there is one, or compile with --target cpu");
  Driver driver;
  driver.library = std::move(*library);
  Status status;
#define SCRIMP_BIND(name, parameters)                                                                                  \
  if (!status.failed())                                                                                                \
    status = driver.library.bind(#name, driver.name);
  SCRIMP_DRIVER_FUNCTIONS(SCRIMP_BIND)
#undef SCRIMP_BIND
  int version = 0;
  if (driver.cuDriverGetVersion)
    driver.cuDriverGetVersion(&version);
  if (version && version < least)
    return Status::error("the driver of this machine is for CUDA %d.%d, this program needs 12.0 at least; install a "
                         "newer driver",
                         version / 1000, version % 1000 / 10);
  if (status.failed())
    return status;
  if (Code code = driver.cuInit(0); code == noDevice)
    return Status::error("no CUDA device: the driver finds none that this process may use (CUDA_VISIBLE_DEVICES, "
                         "nvidia-smi)");
  else if (code)
    return driver.check(code, "the driver does not start");
  return driver;
}

Status Driver::check(Code code, const std::string &what) const {
  if (code == success)
    return Status::ok();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  return Status::error("%s: %s (%s)", what.c_str(), text ? text : "unknown error", name ? name : "?");
}

} // namespace scrimp::runtime::cuda
