#include "Patterns.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// How much of a pattern stands for itself: "h.[0-9].*" has 3.
static size_t literalCharacters(StringRef pattern) {
  size_t count = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*' || pattern[i] == '?')
      continue;
    if (pattern[i] == '[') {
      i = pattern.find(']', i + 2); // a class holds at least one character
      if (i == StringRef::npos)
        break;
      continue;
    }
    i += pattern[i] == '\\';
    ++count;
  }
  return count;
}

/// The most exact of `patterns` that match; -1 in `literals` without one.
static std::string bestMatch(ArrayRef<std::string> patterns, StringRef name, int64_t &literals) {
  std::string best;
  literals = -1;
  for (const std::string &pattern : patterns) {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob) {
      llvm::consumeError(glob.takeError()); // checkPatterns has reported it
      continue;
    }
    int64_t count = literalCharacters(pattern);
    if (count > literals && glob->match(name)) {
      literals = count;
      best = pattern;
    }
  }
  return best;
}

PatternChoice onnx_import::choosePattern(const ImportOptions &options, StringRef name) {
  int64_t frozen, trainable;
  PatternChoice choice;
  choice.frozen = bestMatch(options.frozen, name, frozen);
  choice.trainable = bestMatch(options.trainable, name, trainable);
  if (frozen >= 0 || trainable >= 0)
    choice.kind = frozen == trainable  ? PatternChoice::Tie
                  : frozen > trainable ? PatternChoice::Frozen
                                       : PatternChoice::Trainable;
  return choice;
}

LogicalResult onnx_import::checkPatterns(const ImportOptions &options, MLIRContext *context) {
  for (const auto &[flag, patterns] : {std::pair{"--frozen", &options.frozen}, {"--trainable", &options.trainable}})
    for (const std::string &pattern : *patterns)
      if (llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern); !glob)
        return emitError(UnknownLoc::get(context)) << flag << " '" << pattern << "': " << toString(glob.takeError());
  return success();
}

LogicalResult onnx_import::checkNoTie(const ImportOptions &options, StringRef name, MLIRContext *context) {
  PatternChoice choice = choosePattern(options, name);
  if (choice.kind != PatternChoice::Tie)
    return success();
  return emitError(UnknownLoc::get(context))
         << "'" << name << "' is matched by --frozen '" << choice.frozen << "' and by --trainable '" << choice.trainable
         << "', which have as many literal characters; the more exact pattern decides, so make one of them longer";
}
