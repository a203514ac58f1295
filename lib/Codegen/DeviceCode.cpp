// Images by ptxas, which is a program and not linked.
#include "scrimp/Codegen/DeviceCode.h"

#include "scrimp/Codegen/Kernels.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace fs = llvm::sys::fs;

namespace {
/// What a multiprocessor has.
struct Multiprocessor {
  llvm::StringLiteral chip;
  int64_t threads, blocks, sharedBytes;
};
} // namespace

static constexpr Multiprocessor multiprocessors[] = {{"sm_80", 2048, 32, 164 << 10},
                                                     {"sm_89", 1536, 24, 100 << 10},
                                                     {"sm_90", 2048, 32, 228 << 10},
                                                     {"sm_100", 2048, 32, 228 << 10},
                                                     {"sm_120", 1536, 24, 100 << 10}};
static constexpr int64_t kRegisters = 65536, kWarp = 32;
/// What a block of every one of them may share.
static constexpr int64_t kMostShared = 99 << 10;

llvm::ArrayRef<llvm::StringLiteral> mlir::scrimp::deviceChips() {
  static const std::vector<llvm::StringLiteral> chips = [] {
    std::vector<llvm::StringLiteral> names;
    for (const Multiprocessor &each : multiprocessors)
      names.push_back(each.chip);
    return names;
  }();
  return chips;
}

double mlir::scrimp::computeOccupancy(StringRef chip, int64_t threads, const KernelResources &resources) {
  const Multiprocessor *here = llvm::find_if(multiprocessors, [&](auto &each) { return each.chip == chip; });
  if (here == std::end(multiprocessors))
    return 0;
  constexpr int64_t registerUnit = 256, reservedShared = 1 << 10; // of a warp; of a block
  int64_t warps = llvm::divideCeil(threads, kWarp);
  int64_t registers = std::max<int64_t>(1, llvm::alignTo(resources.registers * kWarp, registerUnit) * warps);
  int64_t blocks = std::min({here->blocks, here->threads / (warps * kWarp), kRegisters / registers,
                             here->sharedBytes / (resources.sharedBytes + reservedShared)});
  return static_cast<double>(blocks * warps * kWarp) / static_cast<double>(here->threads);
}

static std::string findPtxas() {
  SmallVector<std::string> folders;
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"))
    folders.push_back(*home + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  SmallVector<StringRef> paths(folders.begin(), folders.end());
  auto found = llvm::sys::findProgramByName("ptxas", paths);
  return found ? *found : "";
}

/// What `ptxas --verbose` says of each entry.
static std::vector<KernelResources> parseResources(StringRef log) {
  std::vector<KernelResources> kernels;
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  // The number in front of `what`.
  auto numberBefore = [](StringRef line, StringRef what) {
    int64_t number = 0;
    StringRef before = line.split(what).first;
    if (before.size() != line.size())
      before.rsplit(' ').second.getAsInteger(10, number);
    return number;
  };
  for (StringRef line : lines) {
    if (line.contains("Compiling entry function '"))
      kernels.push_back({line.split('\'').second.split('\'').first.str()});
    if (kernels.empty())
      continue;
    KernelResources &last = kernels.back();
    last.registers = std::max(last.registers, numberBefore(line, " registers"));
    last.sharedBytes = std::max(last.sharedBytes, numberBefore(line, " bytes smem"));
    last.stackBytes = std::max(last.stackBytes, numberBefore(line, " bytes stack frame"));
    last.spillBytes += numberBefore(line, " bytes spill stores") + numberBefore(line, " bytes spill loads");
  }
  return kernels;
}

std::map<std::string, KernelAccesses> mlir::scrimp::countAccesses(StringRef ptx) {
  std::map<std::string, KernelAccesses> kernels;
  KernelAccesses *last = nullptr;
  SmallVector<StringRef> lines;
  ptx.split(lines, '\n');
  for (StringRef line : lines) {
    line = line.trim();
    if (line.consume_front(".visible .entry "))
      last = &kernels[line.take_until([](char c) { return c == '('; }).str()];
    if (line.starts_with("@")) // a predicate
      line = line.split(' ').second.trim();
    bool isLoad = line.starts_with("ld.global");
    if (!last || (!isLoad && !line.starts_with("st.global")))
      continue;
    // ld.global.nc.v4.b32
    int64_t bits = 0, count = 1;
    SmallVector<StringRef> words;
    line.take_until([](char c) { return c == ' ' || c == '\t'; }).split(words, '.');
    for (StringRef word : words) {
      if (word.consume_front("v"))
        word.getAsInteger(10, count);
      else if (!word.empty() && StringRef("busf").contains(word.front()))
        word.drop_front().getAsInteger(10, bits);
    }
    ++(isLoad ? last->loads : last->stores)[bits * count];
  }
  return kernels;
}

static FailureOr<DeviceImage> assemble(const std::string &ptxas, StringRef chip, StringRef ptxFile, Location loc) {
  SmallString<128> cubin, log;
  if (fs::createTemporaryFile("scrimp", "cubin", cubin) || fs::createTemporaryFile("scrimp", "log", log))
    return emitError(loc) << "cannot make a temporary file for ptxas";
  llvm::scope_exit cleanup([&] {
    fs::remove(cubin);
    fs::remove(log);
  });
  std::string arch = ("-arch=" + chip).str(), message;
  StringRef arguments[] = {ptxas, arch, "--verbose", "-o", cubin, ptxFile};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &message);
  auto text = llvm::MemoryBuffer::getFile(log);
  auto image = llvm::MemoryBuffer::getFile(cubin);
  if (status || !text || !image)
    return emitError(loc) << "'" << ptxas << "' refuses the kernels for " << chip << ": "
                          << (text ? (*text)->getBuffer().trim() : StringRef(message));
  return DeviceImage{chip.str(), (*image)->getBuffer().str(), parseResources((*text)->getBuffer())};
}

FailureOr<DeviceCode> mlir::scrimp::compileDeviceCode(ModuleOp kernels) {
  Location loc = UnknownLoc::get(kernels.getContext());
  FailureOr<std::string> ptx = emitPtx(kernels, multiprocessors[0].chip);
  if (failed(ptx))
    return failure();
  DeviceCode code{std::move(*ptx), {}};
  std::string ptxas = findPtxas();
  if (ptxas.empty())
    return code;
  SmallString<128> file;
  if (fs::createTemporaryFile("scrimp", "ptx", file))
    return emitError(loc) << "cannot make a temporary file for ptxas";
  llvm::scope_exit cleanup([&] { fs::remove(file); });
  std::error_code error;
  llvm::raw_fd_ostream os(file, error);
  os << code.ptx;
  os.close();
  if (error || os.has_error()) {
    os.clear_error();
    return emitError(loc) << "cannot write '" << file << "' for ptxas";
  }
  for (StringRef chip : deviceChips()) {
    FailureOr<DeviceImage> image = assemble(ptxas, chip, file, loc);
    if (failed(image))
      return failure();
    for (const KernelResources &kernel : image->kernels)
      if (kernel.sharedBytes > kMostShared)
        return emitError(loc) << "kernel '" << kernel.symbol << "' takes " << kernel.sharedBytes
                              << " bytes of shared memory, more than the " << kMostShared << " that every card has";
    code.images.push_back(std::move(*image));
  }
  return code;
}
