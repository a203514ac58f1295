// From a file, of ONNX or of the dialect, to a checked @main and where its first values are.
#include "scrimp/Driver/CheckModel.h"
#include "scrimp/Driver/Compile.h"
#include "scrimp/Support/Messages.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::PrefixRename;

/// Whether two stored tensors are the same to the bit. Fails after an error where one cannot be read.
static FailureOr<bool> areEqual(const WeightSource &a, const WeightSource &b, Location loc) {
  if (a.elementType != b.elementType || a.shape != b.shape || a.getLength() != b.getLength())
    return false;
  char left[1 << 14], right[1 << 14];
  for (uint64_t offset = 0; offset < a.getLength(); offset += sizeof(left)) {
    size_t count = std::min<uint64_t>(sizeof(left), a.getLength() - offset);
    if (failed(readWeightBytes(a, offset, MutableArrayRef(left, count), loc)) ||
        failed(readWeightBytes(b, offset, MutableArrayRef(right, count), loc)))
      return failure();
    if (memcmp(left, right, count))
      return false;
  }
  return true;
}

/// --init-from: the values of all parameters and states come from `path`; every one must be there, under its name or an
/// alias. Names of one parameter may not differ in value.
static LogicalResult takeValues(StringRef path, const PrefixRename &rename, func::FuncOp main,
                                Compilation &compilation) {
  MLIRContext *context = main.getContext();
  Location loc = UnknownLoc::get(context);
  FailureOr<llvm::StringMap<WeightSource>> tensors = openSafetensors(path, context);
  if (failed(tensors))
    return failure();
  if (!rename.empty()) {
    llvm::StringMap<WeightSource> renamed;
    for (auto &entry : *tensors)
      if (!renamed.try_emplace(rename.apply(entry.first().str()), entry.second).second)
        return emitError(loc) << "--init-rename " << rename.text() << " gives '" << rename.apply(entry.first().str())
                              << "' to two tensors of '" << path << "'";
    tensors = std::move(renamed);
  }
  for (CarriedTensor &carried : compilation.carried)
    for (const std::string &name : carried.names)
      if (auto found = tensors->find(name); found != tensors->end()) {
        if (found->second.shape != carried.source.shape)
          return emitError(loc) << "'" << name << "' in '" << path << "' has shape [" << ArrayRef(found->second.shape)
                                << "], the model needs [" << ArrayRef(carried.source.shape) << "]";
        carried.source = found->second;
        break;
      }
  Builder builder(context);
  std::vector<std::vector<std::string>> missing;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    if (!main.getArgAttr(i, ScrimpDialect::kParam) && !main.getArgAttr(i, ScrimpDialect::kState))
      continue;
    StringRef name = main.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kName).getValue();
    SmallVector<StringRef> names{name};
    if (auto aliases = main.getArgAttrOfType<ArrayAttr>(i, ScrimpDialect::kAliases))
      for (Attribute alias : aliases)
        names.push_back(cast<StringAttr>(alias).getValue());
    auto found = tensors->end();
    for (StringRef candidate : names) {
      auto here = tensors->find(candidate);
      if (found == tensors->end()) {
        found = here;
      } else if (here != tensors->end()) {
        FailureOr<bool> equal = areEqual(found->second, here->second, loc);
        if (failed(equal))
          return failure();
        if (!*equal)
          return emitError(loc) << "'" << found->first() << "' and '" << candidate << "' are one parameter of the "
                                << "model, but '" << path << "' gives them different values; leave one of them out";
      }
    }
    if (found == tensors->end()) {
      missing.emplace_back(names.begin(), names.end());
      continue;
    }
    auto type = cast<RankedTensorType>(main.getArgument(i).getType());
    if (ArrayRef(found->second.shape) != type.getShape())
      return emitError(loc) << "'" << name << "' in '" << path << "' has shape [" << ArrayRef(found->second.shape)
                            << "], the model needs [" << type.getShape() << "]";
    Type elementType = found->second.elementType;
    if (!elementType || (isa<FloatType>(elementType) && !isa<FloatType>(type.getElementType())))
      return emitError(loc) << "'" << name << "' in '" << path << "' holds " << found->second.typeName
                            << ", which does not convert to the model's " << type.getElementType();
    compilation.weights[name] = found->second;
    main.setArgAttr(i, ScrimpDialect::kInit,
                    builder.getDictionaryAttr(builder.getNamedAttr("kind", builder.getStringAttr("file"))));
  }
  if (missing.empty())
    return success();
  std::vector<std::string> names;
  for (const auto &entry : *tensors)
    names.push_back(entry.first().str());
  llvm::sort(names);
  PrefixRename match = ::scrimp::runtime::findRename(missing, names);
  InFlightDiagnostic diagnostic = emitError(loc) << "'" << path << "' has no tensor '" << missing[0][0] << "'";
  if (missing.size() > 1)
    diagnostic << " (and " << missing.size() - 1 << " more)";
  if (!match.empty())
    diagnostic << ", but has all of them under another prefix; --init-rename " << match.text() << " takes them";
  return diagnostic;
}

/// Notes that differ only in the names they quote become one: the first, and the names of the others, in brackets those
/// but the first that the first note does not have.
static SmallVector<std::string> foldNotes(ArrayRef<std::string> notes) {
  SmallVector<std::string> folded;
  SmallVector<SmallVector<StringRef>> named; // by the first of each kind
  llvm::StringMap<size_t> kinds;             // what is outside the quotes: where in `folded`
  for (StringRef note : notes) {
    std::string kind;
    SmallVector<StringRef> names;
    for (size_t i = 0; i < note.size(); ++i) {
      size_t end = note.find('\'', i + 1);
      bool opens = note[i] == '\'' && (i == 0 || !llvm::isAlnum(note[i - 1])) && end != StringRef::npos;
      if (opens)
        names.push_back(note.slice(i, end + 1));
      kind += note[i];
      i = opens ? end : i;
    }
    auto [entry, isNew] = kinds.try_emplace(kind, folded.size());
    if (isNew) {
      folded.push_back(note.str());
      named.push_back(names);
      continue;
    }
    std::string &first = folded[entry->second];
    if (names.empty())
      continue;
    ArrayRef<StringRef> rest = ArrayRef(names).drop_front();
    first += (StringRef(first).contains("; likewise ") ? ", " : "; likewise ") + names[0].str();
    if (rest != ArrayRef(named[entry->second]).drop_front())
      first += " (" + llvm::join(rest, ", ") + ")";
  }
  return folded;
}

FailureOr<Compilation> mlir::scrimp::loadModel(const CompileOptions &options, MLIRContext *context) {
  Compilation compilation;
  Location loc = UnknownLoc::get(context);
  if (StringRef(options.model).ends_with(".mlir")) {
    if (std::string problem = whyNotReadable(options.model); !problem.empty())
      return emitError(loc) << "'" << options.model << "' " << problem
                            << (problem.starts_with("is") ? "; expected a model in the scrimp dialect" : ""),
             failure();
    const ImportOptions &import = options.import;
    for (auto [flag, given] : {std::pair{"--dim", !import.dims.empty()},
                               {"--loss", !import.loss.empty()},
                               {"--data", !import.dataNames.empty()},
                               {"--trainable", !import.trainable.empty()},
                               {"--frozen", !import.frozen.empty()},
                               {"--training-mode", import.trainingMode},
                               {"--follow-links", import.followLinks}})
      if (given)
        return emitError(loc) << flag << " is about ONNX models; '" << options.model << "' says so itself", failure();
    compilation.module = parseSourceFile<ModuleOp>(options.model, context);
    if (!compilation.module)
      return failure();
  } else {
    FailureOr<ImportedModel> imported = importOnnx(options.model, options.import, context);
    if (failed(imported))
      return failure();
    for (StringRef note : foldNotes(imported->notes))
      if (bool isWarning = note.consume_front("warning: "); !options.quiet)
        (isWarning ? emitWarning(loc) : emitRemark(loc)) << note;
    compilation.module = std::move(imported->module);
    compilation.weights = std::move(imported->weights);
    compilation.carried = std::move(imported->carried);
  }
  auto main = compilation.module->lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(loc) << "'" << options.model << "' has no function @main" << (main ? " with a body" : ""),
           failure();
  for (Operation &op : *compilation.module->getBody())
    if (&op != main)
      return op.emitError() << "only @main is compiled, found another " << op.getName() << "; inline it there",
             failure();
  if (failed(checkModel(main)) ||
      (!options.initFrom.empty() && failed(takeValues(options.initFrom, options.initRename, main, compilation))))
    return failure();
  return std::move(compilation);
}
