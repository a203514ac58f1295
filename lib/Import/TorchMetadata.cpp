// Reads the strings that torch wrote; see TorchMetadata.h for their forms. Nothing here may trust its input.
#include "TorchMetadata.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir::scrimp::onnx_import;
using llvm::StringRef;

std::optional<Signature> Signature::parse(StringRef text, std::string &problem) {
  Signature result;
  llvm::SmallVector<StringRef> lines;
  text.split(lines, '\n');
  bool inside = false;
  auto fail = [&](StringRef line) {
    problem = line.take_front(80).str();
    return std::nullopt;
  };
  for (StringRef whole : lines) {
    StringRef line = whole.trim();
    if (line.empty())
      continue;
    if (line.starts_with("#")) {
      inside = line == "# inputs";
      continue;
    }
    if (!inside)
      continue;
    auto [argument, rest] = line.split(": ");
    auto [kind, description] = rest.split(' ');
    if (argument.empty() || kind.empty() || kind.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != StringRef::npos)
      return fail(line);
    Entry entry;
    entry.argument = argument.str();
    entry.kind = llvm::StringSwitch<Entry::Kind>(kind)
                     .Case("PARAMETER", Entry::Parameter)
                     .Case("BUFFER", Entry::Buffer)
                     .Case("CONSTANT_TENSOR", Entry::Constant)
                     .Default(Entry::Other);
    if (entry.kind != Entry::Other) {
      // Torch escapes nothing: the name ends where the last quote is.
      if (description.consume_back(" persistent=False"))
        entry.persistent = false;
      else
        description.consume_back(" persistent=True");
      if (!description.consume_front("target='") || !description.consume_back("'") || description.empty())
        return fail(line);
      entry.target = description.str();
      if (!result.targets.insert({entry.target, result.entries.size()}).second)
        return fail(line);
    }
    if (!result.arguments.insert({entry.argument, result.entries.size()}).second)
      return fail(line);
    result.entries.push_back(std::move(entry));
  }
  if (result.entries.empty())
    return fail(text.trim());
  return result;
}

std::optional<TracedCall> mlir::scrimp::onnx_import::parseTracedCall(StringRef text) {
  TracedCall call;
  if (!text.consume_front("%"))
    return std::nullopt;
  call.name = text.take_until([](char c) { return c == ' '; }).str();
  auto [before, target] = text.split("call_function[target=");
  auto [op, rest] = target.split(']');
  if (call.name.empty() || op.empty() || !rest.consume_front("(args = ("))
    return std::nullopt;
  llvm::SmallVector<StringRef> path;
  op.split(path, '.');
  // torch.ops.aten.addmm.default; operator.getitem.
  call.op = (op.starts_with("torch.ops.") && path.size() >= 4 ? path[3] : path.back()).str();
  // Up to the bracket that closes `args`, then the keywords.
  int depth = 0;
  bool positional = true, isFirst = true;
  std::string argument;
  auto finish = [&] {
    if (positional && !(isFirst && argument.empty()))
      call.arguments.push_back(argument.starts_with("%") ? argument.substr(1) : "");
    argument.clear();
    isFirst = false;
  };
  for (size_t i = 0; i < rest.size(); ++i) {
    char c = rest[i];
    if (c == '%') {
      StringRef name = rest.substr(i + 1).take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      call.values.push_back(name.str());
      if (depth == 0)
        argument = "%" + name.str();
      i += name.size();
      continue;
    }
    if (c == '(' || c == '[' || c == '{') {
      argument = depth == 0 && argument.empty() ? std::string(1, c) : argument;
      ++depth;
    }
    if ((c == ')' || c == ']' || c == '}') && --depth < 0) {
      finish();
      positional = false;
      depth = 1; // the keywords' braces, and whatever follows, are no arguments
      continue;
    }
    if (c == ',' && depth == 0)
      finish();
    else if (c != ' ' && argument.empty())
      argument = std::string(1, c);
  }
  if (positional)
    return std::nullopt;
  return call;
}

std::vector<std::string> mlir::scrimp::onnx_import::parsePythonList(StringRef text) {
  std::vector<std::string> result;
  while (true) {
    size_t open = text.find_first_of("'\"");
    if (open == StringRef::npos)
      return result;
    size_t close = text.find(text[open], open + 1);
    if (close == StringRef::npos)
      return result;
    result.push_back(text.slice(open + 1, close).str());
    text = text.substr(close + 1);
  }
}
