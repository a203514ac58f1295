// Glob patterns over the user's names, as several flags take them.
#ifndef SCRIMP_LIB_TRANSFORMS_NAMEPATTERNS_H
#define SCRIMP_LIB_TRANSFORMS_NAMEPATTERNS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::scrimp {

class NamePatterns {
public:
  /// Fails after an error at `loc` on a malformed pattern; `flag` is what messages call them.
  LogicalResult parse(StringRef flag, ArrayRef<std::string> texts, Location loc) {
    for (const std::string &text : texts) {
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
      if (!pattern)
        return emitError(loc) << flag << " pattern '" << text << "': " << toString(pattern.takeError());
      entries.push_back({text, *pattern});
    }
    return success();
  }

  bool empty() const { return entries.empty(); }

  bool match(StringRef name) {
    bool found = false;
    for (Entry &entry : entries)
      if (entry.pattern.match(name))
        found = entry.used = true;
    return found;
  }

  /// Fails after an error on a pattern that matched none of what it was asked about: most likely a misspelt name.
  LogicalResult checkUsed(StringRef flag, StringRef what, Location loc) {
    for (const Entry &entry : entries)
      if (!entry.used)
        return emitError(loc) << flag << " pattern '" << entry.text << "' matches no " << what;
    return success();
  }

private:
  struct Entry {
    std::string text;
    llvm::GlobPattern pattern;
    bool used = false;
  };
  SmallVector<Entry> entries;
};

} // namespace mlir::scrimp

#endif
