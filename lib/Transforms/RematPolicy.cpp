#include "scrimp/Transforms/RematPolicy.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace llvm;
using namespace mlir::scrimp;

Expected<RematPolicy> RematPolicy::parse(StringRef text) {
  auto [word, value] = text.split('=');
  bool hasValue = text.contains('=');
  auto kind = StringSwitch<std::optional<Kind>>(word)
                  .Case("none", None)
                  .Case("full", Full)
                  .Case("selective", Selective)
                  .Case("min-cut", MinCut)
                  .Case("tradeoff", Tradeoff)
                  .Case("save", Save)
                  .Case("recompute", Recompute)
                  .Default(std::nullopt);
  if (!kind || hasValue != (kind >= Tradeoff))
    return createStringError("expected none, full, selective, min-cut, tradeoff=SECONDS_PER_BYTE, save=GLOB,... or "
                             "recompute=GLOB,..., found '" +
                             text + "'");
  RematPolicy policy;
  policy.kind = *kind;
  if (kind == Tradeoff && (value.getAsDouble(policy.secondsPerByte) || !(policy.secondsPerByte >= 0)))
    return createStringError("a price is a number of seconds per byte, at least 0, found '" + value + "'");
  if (kind < Save)
    return policy;
  for (StringRef pattern : split(value, ',')) {
    Expected<GlobPattern> glob = GlobPattern::create(pattern);
    if (!glob)
      return createStringError("'" + pattern + "': " + toString(glob.takeError()));
    policy.names.push_back(std::move(*glob));
    policy.texts.push_back(pattern.str());
  }
  return policy;
}
