// What every message to the user goes through, and the check of files that a user names.
#ifndef SCRIMP_SUPPORT_MESSAGES_H
#define SCRIMP_SUPPORT_MESSAGES_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace mlir::scrimp {

/// `text` with control characters written as \n, \t, \x1B, ...: names come from files, a message is one line. What is
/// no UTF-8 is written so too.
inline std::string onOneLine(llvm::StringRef text) {
  std::string result;
  bool isUtf8 = llvm::json::isUTF8(text);
  for (char c : text) {
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\r')
      result += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || (c & 0x80 && !isUtf8))
      result += "\\x" + llvm::toHex(llvm::StringRef(&c, 1));
    else
      result += c;
  }
  return result;
}

/// What is wrong with `path` as a file to read, to follow its name in a message; empty if it is a regular file. Pipes
/// and devices are refused before they are opened: they may have no end, or block for ever.
inline std::string whyNotReadable(const llvm::Twine &path) {
  llvm::sys::fs::file_status status;
  if (std::error_code code = llvm::sys::fs::status(path, status); code && code != std::errc::no_such_file_or_directory)
    return "cannot be read: " + code.message();
  if (!llvm::sys::fs::exists(status))
    return "does not exist";
  if (llvm::sys::fs::is_directory(status))
    return "is a directory";
  return llvm::sys::fs::is_regular_file(status) ? "" : "is not a regular file";
}

} // namespace mlir::scrimp

#endif
