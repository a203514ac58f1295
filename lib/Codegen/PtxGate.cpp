#include "scrimp/Codegen/PtxGate.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

std::string mlir::scrimp::findPtxFault(StringRef ptx, const StringSet<> &approximate) {
  constexpr unsigned leastAlignment = 4;
  SmallVector<StringRef> lines;
  ptx.split(lines, '\n');
  StringRef entry;
  for (StringRef line : lines) {
    line = line.split("//").first.trim();
    if (line.starts_with(".extern"))
      return "uses '" + line.str() + "', which nothing defines";
    if (line.consume_front(".visible .entry ") || line.consume_front(".entry "))
      entry = line.take_while([](char c) { return c != '('; });
    if (line.starts_with(".shared .align ")) {
      unsigned alignment = 0;
      line.drop_front(StringRef(".shared .align ").size()).consumeInteger(10, alignment);
      if (alignment < leastAlignment)
        return "has shared memory in '" + entry.str() + "' that is aligned to " + std::to_string(alignment) + " bytes";
    }
    SmallVector<StringRef> words;
    line.split(words, ' ');
    if (words.front().starts_with("@") && words.size() > 1) // a predicate
      words.erase(words.begin());
    StringRef opcode = words.front().split('\t').first;
    if (opcode == "call" || opcode.starts_with("call."))
      return "calls a function in '" + entry.str() + "'";
    bool isInexact = opcode.contains(".approx") || opcode.contains(".ftz");
    if (isInexact && !approximate.contains(entry))
      return "has " + opcode.str() + " in '" + entry.str() + "', whose ops declare no approximation";
  }
  return "";
}
