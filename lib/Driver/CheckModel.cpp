#include "scrimp/Driver/CheckModel.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/runtime/program_generated.h"
#include "scrimp/runtime/scalar_names.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class ModelChecker {
public:
  explicit ModelChecker(func::FuncOp main) : main(main) {}

  LogicalResult check() {
    for (BlockArgument argument : main.getArguments()) {
      this->argument = argument;
      checkArgument();
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      checkResult(i);
    return success(ok);
  }

private:
  template <typename T> T get(StringRef key) { return main.getArgAttrOfType<T>(argument.getArgNumber(), key); }
  Attribute get(StringRef key) { return main.getArgAttr(argument.getArgNumber(), key); }

  InFlightDiagnostic error() {
    ok = false;
    auto name = get<StringAttr>(ScrimpDialect::kName);
    return emitError(argument.getLoc()) << (name ? ("'" + name.getValue() + "' ").str()
                                                 : ("argument " + Twine(argument.getArgNumber()) + " ").str());
  }

  void checkArgument() {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape()) {
      error() << "is " << argument.getType() << ", expected a tensor of static shape";
      return;
    }
    SmallVector<StringRef> roles;
    for (StringRef key : {ScrimpDialect::kInput, ScrimpDialect::kParam, ScrimpDialect::kState, ScrimpDialect::kScalar})
      if (get(key))
        roles.push_back(key);
    if (roles.size() != 1) {
      InFlightDiagnostic diagnostic = error();
      diagnostic << "has " << (roles.empty() ? "no role" : "several roles (" + llvm::join(roles, ", ") + ")")
                 << ", expected one of scrimp.input, scrimp.param, scrimp.state and scrimp.scalar";
      return;
    }
    if (roles[0] == ScrimpDialect::kScalar)
      return checkScalar(type);
    auto name = get<StringAttr>(ScrimpDialect::kName);
    if (!name || name.getValue().empty()) {
      error() << "has no scrimp.name";
      return;
    }
    if (!names.insert(name.getValue()).second)
      error() << "has the name of another argument";
    checkName(name.getValue());
    if (roles[0] == ScrimpDialect::kInput)
      return checkInput(type);
    if (roles[0] == ScrimpDialect::kParam)
      checkParameter(type);
    auto aliases = get<ArrayAttr>(ScrimpDialect::kAliases);
    for (Attribute alias : aliases ? aliases.getValue() : ArrayRef<Attribute>())
      if (!isa<StringAttr>(alias) || !names.insert(cast<StringAttr>(alias).getValue()).second)
        error() << "has the alias " << alias << ", expected a string that names nothing else";
      else
        checkName(cast<StringAttr>(alias).getValue());
    checkInit();
  }

  /// Names are keys in checkpoints.
  void checkName(StringRef name) {
    if (!llvm::json::isUTF8(name))
      error() << "has a name that is not UTF-8, which checkpoints need; rename it in the model";
    else if (name == "__metadata__")
      error() << "is a name that safetensors files reserve; rename it in the model";
  }

  void checkScalar(RankedTensorType type) {
    auto scalar = get<StringAttr>(ScrimpDialect::kScalar);
    if (!scalar || !llvm::is_contained(::scrimp::runtime::scalarNames, scalar.getValue()))
      error() << "has the scrimp.scalar " << get(ScrimpDialect::kScalar)
              << ", which nothing gives; there are seed, step and sample_base, and the optimizer's";
    else if (type.getRank() != 0)
      error() << "is the scalar '" << scalar.getValue() << "' but of type " << type << ", expected rank 0";
  }

  void checkInput(RankedTensorType type) {
    auto dimAttr = get<IntegerAttr>(ScrimpDialect::kInput);
    int64_t dim = dimAttr ? dimAttr.getInt() : -2;
    if (dim < -1 || dim >= type.getRank()) {
      error() << "has the batch dimension " << get(ScrimpDialect::kInput) << ", expected -1 (none) to "
              << type.getRank() - 1 << " for " << type;
      return;
    }
    if (Attribute valid = get(ScrimpDialect::kValid)) {
      auto range = dyn_cast<DenseI64ArrayAttr>(valid);
      if (!range || range.size() != 2 || range[0] > range[1])
        error() << "has the scrimp.valid " << valid << ", expected array<i64: begin, end>";
    }
    if (Attribute ignore = get(ScrimpDialect::kIgnore); ignore && !isa<IntegerAttr>(ignore))
      error() << "has the scrimp.ignore " << ignore << ", expected an integer";
    if (dim < 0)
      return;
    int64_t size = type.getDimSize(dim);
    if (size == 0) {
      error() << "has batches of 0 samples (dimension " << dim << " of " << type << "), expected at least 1";
      return;
    }
    if (batched && size != batch)
      error() << "has batches of " << size << " samples (dimension " << dim << " of " << type << "), but '"
              << main.getArgAttrOfType<StringAttr>(batched.getArgNumber(), ScrimpDialect::kName).getValue() << "' of "
              << batch;
    if (!batched) {
      batched = argument;
      batch = size;
    }
  }

  void checkParameter(RankedTensorType type) {
    auto kind = get<StringAttr>(ScrimpDialect::kParam);
    if (!kind || (kind.getValue() != "trainable" && kind.getValue() != "frozen"))
      error() << "has the scrimp.param " << get(ScrimpDialect::kParam) << R"(, expected "trainable" or "frozen")";
    else if (kind.getValue() == "trainable" && !isa<FloatType>(type.getElementType()))
      error() << "is a trainable parameter of " << type << "; only floats can be trained";
  }

  void checkInit() {
    Attribute attribute = get(ScrimpDialect::kInit);
    if (!attribute)
      return;
    auto init = dyn_cast<DictionaryAttr>(attribute);
    auto kind = init ? init.getAs<StringAttr>("kind") : StringAttr();
    SmallVector<StringRef> kinds;
    for (::scrimp::program::InitKind known : ::scrimp::program::EnumValuesInitKind())
      kinds.push_back(::scrimp::program::EnumNameInitKind(known));
    bool fits = kind && llvm::is_contained(kinds, kind.getValue());
    for (StringRef key : {"a", "b"})
      fits = fits && (!init.get(key) || isa<FloatAttr>(init.get(key)));
    if (!fits)
      error() << "has the scrimp.init " << attribute << ", expected {kind = \"" << llvm::join(kinds, "\" | \"")
              << "\", a = float, b = float}";
  }

  void checkResult(unsigned i) {
    auto error = [&] {
      ok = false;
      return main.emitError() << "result " << i << " of @main ";
    };
    Attribute output = main.getResultAttr(i, ScrimpDialect::kOutput);
    Attribute updates = main.getResultAttr(i, ScrimpDialect::kUpdates);
    if (!output == !updates) {
      error() << "has "
              << (output ? "both scrimp.output and scrimp.updates" : "neither scrimp.output nor scrimp.updates")
              << ", expected one of them";
      return;
    }
    if (auto name = dyn_cast_or_null<StringAttr>(output)) {
      if (!outputs.insert(name.getValue()).second)
        error() << "is a second output '" << name.getValue() << "'";
      return;
    }
    auto index = dyn_cast_or_null<IntegerAttr>(updates);
    if (!index || index.getInt() < 0 || index.getInt() >= main.getNumArguments() ||
        !main.getArgAttr(index.getInt(), ScrimpDialect::kState)) {
      error() << "has the " << (output ? "scrimp.output " : "scrimp.updates ") << (output ? output : updates)
              << ", expected " << (output ? "a string" : "the number of an argument that is scrimp.state");
      return;
    }
    if (main.getArgument(index.getInt()).getType() != main.getResultTypes()[i])
      error() << "is " << main.getResultTypes()[i] << ", but argument " << index.getInt() << ", which it updates, is "
              << main.getArgument(index.getInt()).getType();
    if (!updated.insert(index.getInt()).second)
      error() << "updates argument " << index.getInt() << " a second time";
  }

  func::FuncOp main;
  BlockArgument argument, batched;
  int64_t batch = 0;
  llvm::StringSet<> names, outputs;
  llvm::DenseSet<int64_t> updated;
  bool ok = true;
};
} // namespace

LogicalResult mlir::scrimp::checkModel(func::FuncOp main) { return ModelChecker(main).check(); }
