#include "scrimp/Driver/Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// What links executables; a sanitized build says otherwise.
#ifndef SCRIMP_LINKER
#define SCRIMP_LINKER "c++"
#define SCRIMP_LINK_FLAGS ""
#endif

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Where a runtime's archive is.
static llvm::Expected<std::string> findRuntime(StringRef name) {
  static int anchor;
  SmallVector<std::string> folders;
  std::string self = fs::getMainExecutable(nullptr, &anchor);
  SmallString<256> beside(path::parent_path(self));
  path::append(beside, "..", "lib");
  folders.push_back(beside.str().str());
  if (auto folder = llvm::sys::Process::GetEnv("SCRIMP_RUNTIME_DIR"))
    folders.push_back(*folder);
  for (const std::string &folder : folders) {
    SmallString<256> candidate(folder);
    path::append(candidate, name);
    if (fs::exists(candidate))
      return candidate.str().str();
  }
  return error("cannot find " + name + " in " + llvm::join(folders, " or ") + "; set SCRIMP_RUNTIME_DIR");
}

/// The symbols of abi.h as assembly: the program by .incbin, the kernels as a table.
static std::string programAssembly(const Program &program, StringRef programFile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << ".section .rodata\n"
     << ".globl scrimp_program\n.balign 64\nscrimp_program:\n.incbin \"";
  // The assembler's strings escape as C's do.
  for (char c : programFile) {
    if (c == '"' || c == '\\')
      os << '\\';
    os << (c == '\n' ? "\\n" : StringRef(&c, 1));
  }
  os << "\"\n"
     << ".globl scrimp_program_size\n.balign 8\nscrimp_program_size: .quad " << program.bytes.size() << "\n"
     << ".globl scrimp_kernel_count\nscrimp_kernel_count: .quad " << program.kernels.size() << "\n"
     << ".section .data.rel.ro,\"aw\"\n"
     << ".globl scrimp_kernels\n.balign 8\nscrimp_kernels:\n";
  for (const std::string &kernel : program.kernels)
    os << ".quad " << (program.holdsKernels ? "0" : kernel) << "\n";
  os << ".quad 0\n.section .note.GNU-stack,\"\",@progbits\n";
  return text;
}

static llvm::Error writeFile(StringRef file, StringRef contents) {
  std::error_code code;
  llvm::raw_fd_ostream os(file, code);
  if (!code) {
    os << contents;
    os.close();
    code = os.error();
    os.clear_error();
  }
  return code ? error("cannot write '" + file + "': " + code.message()) : llvm::Error::success();
}

/// Appends the first values and the footer that says how long they are.
static llvm::Error appendWeights(const Program &program, StringRef file, ReadWeights read) {
  if (program.stored.empty())
    return llvm::Error::success();
  std::error_code code;
  llvm::raw_fd_ostream os(file, code, fs::OF_Append);
  if (code)
    return error("cannot append weights to '" + file + "': " + code.message());
  std::vector<char> bytes;
  for (const StoredTensor &tensor : program.stored) {
    bytes.assign(tensor.bytes, 0);
    if (llvm::Error failed = read(tensor, bytes)) {
      os.clear_error();
      return failed;
    }
    os.write(bytes.data(), bytes.size());
  }
  char footer[16];
  memcpy(footer, "SCRIMPW1", 8);
  llvm::support::endian::write64le(footer + 8, program.storedBytes);
  os.write(footer, sizeof(footer));
  os.close();
  code = os.error();
  os.clear_error();
  return code ? error("cannot append weights to '" + file + "': " + code.message()) : llvm::Error::success();
}

llvm::Error mlir::scrimp::linkExecutable(const Program &program, StringRef object, StringRef output, ReadWeights read) {
  llvm::Expected<std::string> runtime =
      findRuntime(program.holdsKernels ? "libscrimp_runtime_cuda.a" : "libscrimp_runtime.a");
  if (!runtime)
    return runtime.takeError();
  llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName(SCRIMP_LINKER);
  if (!linker)
    return error("cannot find the C++ compiler driver '" SCRIMP_LINKER "', which links executables; install g++");

  // Absolute, so that the linker takes none of the names for a flag.
  SmallString<256> absolute(output);
  if (std::error_code code = fs::make_absolute(absolute))
    return error("cannot write '" + output + "': " + code.message());
  std::string part = (absolute + ".part." + llvm::Twine(llvm::sys::Process::getProcessId())).str();
  std::string programFile = part + ".program", assembly = part + ".s", log = part + ".log";
  // Elsewhere if possible: where the disk is full, what the linker says of it would not be written either.
  SmallString<128> temporary;
  if (!fs::createTemporaryFile("scrimp-link", "log", temporary))
    log = temporary.str().str();
  for (const std::string &file : {part, programFile, assembly, log})
    llvm::sys::RemoveFileOnSignal(file);
  llvm::scope_exit cleanup([&] {
    for (const std::string &file : {part, programFile, assembly, log}) {
      fs::remove(file);
      llvm::sys::DontRemoveFileOnSignal(file);
    }
  });
  if (llvm::Error failed = writeFile(programFile, program.bytes))
    return failed;
  if (llvm::Error failed = writeFile(assembly, programAssembly(program, programFile)))
    return failed;

  // The whole archive is not needed: its main() pulls in the rest.
  SmallVector<StringRef> arguments{*linker, "-o", part, assembly};
  // A GPU's machine has what runs there, and maybe no more than libc.
  if (program.holdsKernels)
    arguments.append({*runtime, "-static-libstdc++", "-static-libgcc", "-ldl"});
  else
    arguments.append({object, *runtime, "-L/usr/lib/x86_64-linux-gnu/openblas-pthread", "-lopenblas"});
  arguments.append({"-lpthread", "-lm"});
  llvm::SplitString(SCRIMP_LINK_FLAGS, arguments);
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  std::string message;
  if (llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt, redirects, 0, 0, &message) != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(log))
      message += llvm::join(llvm::split((*text)->getBuffer().trim(), '\n'), "; ");
    return error("linking '" + output + "' failed: " + message);
  }
  if (llvm::Error failed = appendWeights(program, part, read))
    return failed;
  if (std::error_code code = fs::rename(part, output))
    return error("cannot write '" + output + "': " + code.message());
  return llvm::Error::success();
}
