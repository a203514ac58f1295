// Kernels in this process, by ORC, from the same bytes that go into an object file.
#include "scrimp/Codegen/LoadedKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "scrimp/runtime/Emulated.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::scrimp;

LoadedKernels::LoadedKernels() = default;
LoadedKernels::LoadedKernels(LoadedKernels &&) = default;
LoadedKernels &LoadedKernels::operator=(LoadedKernels &&) = default;
LoadedKernels::~LoadedKernels() = default;

FailureOr<LoadedKernels> LoadedKernels::load(ModuleOp kernels, const CpuOptions &options) {
  FailureOr<std::string> object = compileKernels(kernels, options, CodeKind::Object);
  if (failed(object))
    return failure();
  auto fail = [&](llvm::Error error) -> FailureOr<LoadedKernels> {
    return kernels.emitError() << "cannot load the kernels: " << llvm::toString(std::move(error)), failure();
  };
  LoadedKernels loaded;
  auto created = llvm::orc::LLJITBuilder().create();
  if (!created)
    return fail(created.takeError());
  loaded.jit = std::move(*created);
  // libm is in this process.
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(loaded.jit->getDataLayout().getGlobalPrefix());
  if (!process)
    return fail(process.takeError());
  loaded.jit->getMainJITDylib().addGenerator(std::move(*process));
  llvm::orc::SymbolMap emulated;
  for (auto [name, address] : ::scrimp::runtime::emulatedFunctions())
    emulated[loaded.jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                   llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error = loaded.jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(emulated))))
    return fail(std::move(error));
  if (llvm::Error error = loaded.jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(*object, "kernels")))
    return fail(std::move(error));
  for (auto function : kernels.getOps<func::FuncOp>()) {
    auto address = loaded.jit->lookup(function.getName());
    if (!address)
      return fail(address.takeError());
    loaded.functions[function.getName()] = address->toPtr<KernelFunction>();
  }
  return loaded;
}
