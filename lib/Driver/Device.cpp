#include "scrimp/Driver/Device.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

//===-- The table ------------------------------------------------------------------------------------------------===//

namespace {
/// Dense rates of the makers' data sheets, in 10^12 operations and bytes a second and 10^9 bytes. Links are what a rank
/// sends, in 10^9 bytes a second: over NVLink (half of what the sheets add up), or PCIe where there is none; and by its
/// network card in the usual server: one for each of 8 GPUs (DGX: ConnectX-7, -6), one of 10^10 bits a second for
/// all in a desktop.
struct DataSheet {
  StringLiteral name;
  double flops16, flops32, flops64, bandwidth, capacity, inside, between;
  int64_t ranksOfNode;
};
} // namespace

static constexpr DataSheet dataSheets[] = {
    {"b200", 2250, 75, 37, 8.0, 180, 900, 50, 8},        {"h200", 989, 67, 34, 4.8, 141, 450, 50, 8},
    {"h100", 989, 67, 34, 3.35, 80, 450, 50, 8},         {"a100-80g", 312, 19.5, 9.7, 2.039, 80, 300, 25, 8},
    {"a100-40g", 312, 19.5, 9.7, 1.555, 40, 300, 25, 8}, {"l40s", 362, 91.6, 1.4, .864, 48, 32, 25, 8},
    {"l4", 121, 30.3, .47, .3, 24, 32, 12.5, 8},         {"rtx4090", 165, 82.6, 1.3, 1.008, 24, 32, 1.25, 1},
    {"rtx3090", 71, 35.6, .56, .936, 24, 32, 1.25, 1},
};

std::vector<std::string> mlir::scrimp::knownDevices() {
  std::vector<std::string> names;
  for (const DataSheet &sheet : dataSheets)
    names.push_back(sheet.name.str());
  return names;
}

static Device fromSheet(const DataSheet &sheet) {
  Device device;
  // Large products of 16 bits reach some four fifths: 86% on an A100, 80% on an H100 ("Maximum Achievable Matmul FLOPS"
  // in Bekman, "Machine Learning Engineering").
  constexpr double productShare = 0.8;
  device.name = sheet.name.str();
  device.rates.productShare = productShare;
  device.rates.library16 = productShare * sheet.flops16 * 1e12;
  device.rates.library32 = productShare * sheet.flops32 * 1e12;
  device.rates.library64 = productShare * sheet.flops64 * 1e12;
  device.rates.kernelFlops = sheet.flops32 * 1e12 / 2; // no multiply-adds
  device.rates.bytes = sheet.bandwidth * 1e12;
  device.rates.launch = 3e-6;
  // Seconds of a hop, of the order of NCCL's own tables for large messages (its tuning.cc): NVLink, PCIe, network.
  bool hasNvlink = sheet.inside > 100;
  device.rates.network.inside = {hasNvlink ? 3.4e-6 : 5.7e-6, sheet.inside * 1e9};
  device.rates.network.between = {14e-6, sheet.between * 1e9};
  device.ranksOfNode = sheet.ranksOfNode;
  device.capacityBytes = static_cast<int64_t>(sheet.capacity * 1e9);
  return device;
}

//===-- Measured devices ----------------------------------------------------------------------------------------===//

static FailureOr<Device> parseDevice(StringRef text, StringRef file, Location loc) {
  auto refuse = [&](const Twine &why) { return emitError(loc) << "device '" << file << "' " << why; };
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return refuse("is no JSON: " + llvm::toString(value.takeError()));
  const llvm::json::Object *object = value->getAsObject();
  if (!object)
    return refuse("must be a JSON object, as scrimp-calibrate writes it");
  Device device;
  device.name = object->getString("name").value_or(path::stem(file)).str();
  for (auto [key, rate] : {std::pair{"library_flops_16", &device.rates.library16},
                           {"library_flops_32", &device.rates.library32},
                           {"library_flops_64", &device.rates.library64},
                           {"kernel_flops", &device.rates.kernelFlops},
                           {"bytes", &device.rates.bytes},
                           {"launch_seconds", &device.rates.launch}}) {
    std::optional<double> number = object->getNumber(key);
    if (!number || !(*number > 0))
      return refuse("needs a positive number '" + Twine(key) + "'");
    *rate = *number;
  }
  planner::Network &network = device.rates.network;
  for (auto [key, rate] : {std::pair{"node_link_bytes", &network.inside.bandwidth},
                           {"node_link_seconds", &network.inside.latency},
                           {"network_bytes", &network.between.bandwidth},
                           {"network_seconds", &network.between.latency}}) {
    const llvm::json::Value *given = object->get(key);
    std::optional<double> number = given ? given->getAsNumber() : *rate;
    if (!number || !(*number > 0))
      return refuse("has '" + Twine(key) + "', which must be a positive number");
    *rate = *number;
  }
  device.capacityBytes = object->getInteger("capacity_bytes").value_or(0);
  device.ranksOfNode = object->getInteger("ranks_of_node").value_or(0);
  return device;
}

/// The user's cache folder for what is measured once; empty where there is none.
static std::string getCacheFile(int64_t workers) {
  SmallString<256> folder;
  if (auto given = llvm::sys::Process::GetEnv("XDG_CACHE_HOME"); given && path::is_absolute(*given))
    folder = *given;
  else if (!path::cache_directory(folder))
    return "";
  path::append(folder, "scrimp");
  if (fs::create_directories(folder))
    return "";
  // Another processor under the same home is another device.
  uint64_t processor = 0;
  if (auto info = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo"))
    for (StringRef rest = (*info)->getBuffer(); !rest.empty();) {
      auto [line, tail] = rest.split('\n');
      if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
        processor = llvm::hash_combine(processor, llvm::hash_value(line));
      rest = line.empty() && processor ? StringRef() : tail; // the first processor is enough
    }
  path::append(folder, llvm::formatv("cpu-{0}-threads-{1:x-}.json", workers, processor).str());
  return folder.str().str();
}

/// Runs scrimp-calibrate, which lies beside this program.
static FailureOr<std::string> measure(int64_t workers, Location loc) {
  static int anchor;
  SmallString<256> tool(path::parent_path(fs::getMainExecutable(nullptr, &anchor)));
  path::append(tool, "scrimp-calibrate");
  if (!fs::can_execute(tool))
    return emitError(loc) << "cannot find '" << tool << "', which measures this machine; name another --device";
  SmallString<256> output;
  if (std::error_code code = fs::createTemporaryFile("scrimp-device", "json", output))
    return emitError(loc) << "cannot measure this machine: " << code.message();
  llvm::scope_exit cleanup([&] { fs::remove(output); });
  std::string threads = std::to_string(workers), problem;
  StringRef arguments[] = {tool, "--threads", threads};
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(output), std::nullopt};
  int status = llvm::sys::ExecuteAndWait(tool, arguments, std::nullopt, redirects, /*SecondsToWait=*/60, 0, &problem);
  auto text = llvm::MemoryBuffer::getFile(output);
  if (status || !text)
    return emitError(loc) << "'" << tool << "' failed" << (problem.empty() ? "" : ": ") << problem
                          << "; name another --device";
  return (*text)->getBuffer().str();
}

static FailureOr<Device> findThisMachine(int64_t workers, Location loc) {
  std::string cache = getCacheFile(workers);
  if (!cache.empty())
    if (auto text = llvm::MemoryBuffer::getFile(cache))
      return parseDevice((*text)->getBuffer(), cache, loc);
  FailureOr<std::string> text = measure(workers, loc);
  if (failed(text))
    return failure();
  FailureOr<Device> device = parseDevice(*text, "cpu", loc);
  if (failed(device) || cache.empty())
    return device;
  // Whole or not at all: two compilers may measure at once. Without the file the next one measures again.
  auto written = fs::TempFile::create(cache + ".%%%%%%");
  if (!written) {
    llvm::consumeError(written.takeError());
    return device;
  }
  llvm::raw_fd_ostream(written->FD, /*shouldClose=*/false) << *text;
  llvm::consumeError(written->keep(cache));
  return device;
}

FailureOr<Device> mlir::scrimp::findDevice(StringRef name, int64_t workers, MLIRContext *context) {
  Location loc = UnknownLoc::get(context);
  if (name.empty() || name == "cpu")
    return findThisMachine(workers, loc);
  for (const DataSheet &sheet : dataSheets)
    if (name == sheet.name)
      return fromSheet(sheet);
  if (!name.ends_with(".json"))
    return emitError(loc) << "unknown --device '" << name << "'; there are cpu, " << llvm::join(knownDevices(), ", ")
                          << ", and files that scrimp-calibrate wrote (FILE.json)";
  auto text = llvm::MemoryBuffer::getFile(name);
  if (!text)
    return emitError(loc) << "cannot read device '" << name << "': " << text.getError().message();
  return parseDevice((*text)->getBuffer(), name, loc);
}

//===-- Nodes ----------------------------------------------------------------------------------------------------===//

FailureOr<Device> mlir::scrimp::findDevice(const CompileOptions &options, MLIRContext *context) {
  int64_t world = options.world, nodes = options.nodes;
  if (nodes > 0 && world % nodes != 0)
    return emitError(UnknownLoc::get(context)) << "--nodes " << nodes << " does not divide --world " << world
                                               << ": a node has as many ranks as any other",
           failure();
  FailureOr<Device> device = findDevice(options.device, workersOf(options), context);
  if (failed(device))
    return failure();
  if (nodes == 0)
    nodes = device->ranksOfNode > 0 ? llvm::divideCeil(world, device->ranksOfNode) : 1;
  while (world % nodes != 0)
    ++nodes;
  device->rates.network.nodes = nodes;
  return device;
}
