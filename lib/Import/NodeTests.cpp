// Integers and booleans of a test's inputs are constants (they are shapes, axes, indices); floats stay inputs, so that
// both folding and the graph itself are tested. ONNX's own tolerances: relative 1e-3, absolute 1e-7;
// wider for half precision.
#include "scrimp/Import/NodeTests.h"

#include "NodeBuilder.h"

#include "scrimp/Eval/Interpreter.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

struct OpTally {
  int64_t passed = 0, excepted = 0;
  bool differentiable = false, blocked = false;
};

/// A test's outcome; `reason` is empty when it passed.
struct Outcome {
  std::string reason;
  std::vector<std::string> ops; // empty: not all of them are supported
  bool differentiable = false, blocked = false;
};

} // namespace

static bool close(const HostTensor &found, const HostTensor &expected) {
  Type type = expected.getType().getElementType();
  double absolute = type.isF16() ? 1e-3 : type.isBF16() ? 1e-2 : 1e-7, relative = type.isBF16() ? 1e-2 : 1e-3;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double a = found.asDouble(i), b = expected.asDouble(i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!(std::abs(a - b) <= absolute + relative * std::abs(b)))
      return false;
  }
  return true;
}

/// Whether gradients reach the float inputs: every float op that depends on one is differentiable.
static void findGradient(func::FuncOp function, Outcome &outcome) {
  llvm::DenseSet<Value> dependent;
  for (BlockArgument argument : function.getArguments())
    if (isFloatTensor(argument))
      dependent.insert(argument);
  for (Operation &op : function.front().without_terminator()) {
    auto differentiable = dyn_cast<DifferentiableOp>(op);
    bool reads = false, carries = false;
    for (OpOperand &operand : op.getOpOperands())
      if (dependent.contains(operand.get())) {
        reads = true;
        carries |= differentiable && differentiable.isDifferentiableOperand(operand.getOperandNumber());
      }
    bool isFloat = llvm::any_of(op.getResults(), isFloatTensor);
    if (!reads || !isFloat)
      continue;
    outcome.blocked |= !carries;
    for (Value result : op.getResults())
      if (carries && isFloatTensor(result))
        dependent.insert(result);
  }
  for (Value result : function.front().getTerminator()->getOperands())
    outcome.differentiable |= dependent.contains(result);
}

static Outcome runTest(StringRef folder) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Outcome outcome;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (outcome.reason.empty())
      outcome.reason = diagnostic.str();
    return success();
  });
  auto fail = [&](const Twine &reason) {
    if (outcome.reason.empty())
      outcome.reason = reason.str();
    return outcome;
  };
  std::string path = (folder + "/model.onnx").str();
  FailureOr<Model> model = loadModel(path, &context, true);
  if (failed(model))
    return fail("does not load");
  std::vector<std::string> ops;
  for (const Node &node : model->nodes) {
    Node newest = node;
    newest.opset = 23;
    std::string reason;
    if (!findOp(newest, reason)) {
      outcome.reason = reason;
      return outcome;
    }
    ops.push_back(node.type);
  }
  outcome.ops = ops;
  llvm::StringMap<WeightSource> constants;
  std::map<std::string, WeightSource> inputs;
  for (auto [i, input] : llvm::enumerate(model->inputs)) {
    FailureOr<WeightSource> value =
        readTensorFile((folder + "/test_data_set_0/input_" + Twine(i) + ".pb").str(), &context);
    if (failed(value))
      return fail("input " + Twine(i) + " cannot be read");
    // ONNX files name optional inputs that are left out "".
    bool known = !isa<FloatType>(value->elementType) || (value->shape.empty() && (i > 0 || model->inputs.size() > 2)) ||
                 input.name == "scales"; // Resize's
    (known ? constants[input.name] : inputs[input.name]) = *value;
  }
  FailureOr<ImportedModel> imported = importOnnxGraph(path, constants, {}, &context);
  if (failed(imported))
    return fail("does not import");
  auto function = imported->module->lookupSymbol<func::FuncOp>("main");
  SmallVector<HostTensor> arguments, results;
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ScrimpDialect::kName);
    auto source = inputs.find(name.str());
    if (source == inputs.end()) {
      arguments.push_back(HostTensor(cast<RankedTensorType>(argument.getType())));
      continue;
    }
    FailureOr<HostTensor> value = readTensor(source->second, source->second.elementType, function.getLoc());
    if (failed(value) || value->getType() != argument.getType())
      return fail("input '" + name.getValue() + "' does not have the type that the model says");
    arguments.push_back(*value);
  }
  if (failed(evalFunction(function, arguments, results, Rounding::Typed)))
    return fail("cannot be interpreted");
  findGradient(function, outcome);
  for (auto [i, output] : llvm::enumerate(model->outputs)) {
    FailureOr<WeightSource> source =
        readTensorFile((folder + "/test_data_set_0/output_" + Twine(i) + ".pb").str(), &context);
    FailureOr<HostTensor> expected = failure();
    if (succeeded(source))
      expected = readTensor(*source, source->elementType, function.getLoc());
    if (failed(expected))
      return fail("output " + Twine(i) + " cannot be read");
    if (results[i].getType() != expected->getType()) {
      std::string text;
      llvm::raw_string_ostream(text) << "output '" << output.name << "' is " << results[i].getType() << ", expected "
                                     << expected->getType();
      return fail(text);
    }
    if (!close(results[i], *expected))
      return fail("output '" + output.name + "' has other values");
  }
  return outcome;
}

static void printTable(const std::map<std::string, OpTally> &results, raw_ostream &os) {
  std::map<std::string, int64_t> since;
  for (const OpEntry *op : allOps())
    since[op->type] = std::max<int64_t>(op->since, 11);
  os << "| op | opsets | forward: node tests passed (listed exceptions) | gradient |\n|---|---|---|---|\n";
  for (auto &[type, first] : since) {
    OpTally result;
    if (auto it = results.find(type); it != results.end())
      result = it->second;
    os << "| " << type << " | " << first << "–23 | " << result.passed;
    if (result.excepted)
      os << " (" << result.excepted << ")";
    os << " | " << (result.blocked ? "none" : result.differentiable ? "yes" : "") << " |\n";
  }
}

int mlir::scrimp::runNodeTests(const NodeTestOptions &options, raw_ostream &os) {
  std::map<std::string, std::string> exceptions;
  if (!options.exceptions.empty()) {
    auto buffer = llvm::MemoryBuffer::getFile(options.exceptions);
    if (!buffer) {
      os << "'" << options.exceptions << "' cannot be read\n";
      return 1;
    }
    SmallVector<StringRef> lines;
    (*buffer)->getBuffer().split(lines, '\n', -1, false);
    for (StringRef line : lines)
      if (!line.starts_with("#"))
        exceptions[line.split(':').first.str()] = line.split(':').second.trim().str();
  }
  std::vector<std::string> folders;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(options.root, code), end; !code && it != end; it.increment(code))
    folders.push_back(it->path());
  if (code || folders.empty()) {
    os << "'" << options.root << "' holds no tests\n";
    return 1;
  }
  llvm::sort(folders);
  std::map<std::string, OpTally> results;
  int64_t passed = 0, excepted = 0, wrong = 0, others = 0;
  for (const std::string &folder : folders) {
    std::string name = llvm::sys::path::filename(folder).str();
    Outcome outcome = runTest(folder);
    if (outcome.ops.empty()) {
      ++others;
      continue;
    }
    bool listed = exceptions.count(name), fine = outcome.reason.empty();
    if (outcome.ops.size() == 1) { // others test a function's body
      OpTally &tally = results[outcome.ops[0]];
      ++(fine ? tally.passed : tally.excepted);
      tally.differentiable |= fine && outcome.differentiable;
      tally.blocked |= fine && outcome.blocked;
    }
    if (fine != listed) {
      ++(fine ? passed : excepted);
      continue;
    }
    ++wrong;
    if (!options.table)
      os << name << ": " << (fine ? "passes, but is listed as an exception" : outcome.reason) << "\n";
  }
  if (options.table)
    printTable(results, os);
  else
    os << passed << " passed, " << excepted << " exceptions, " << wrong << " wrong, " << others << " of other ops\n";
  return wrong ? 1 : 0;
}
