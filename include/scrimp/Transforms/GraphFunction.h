// Graph functions as the passes see them: arguments by name and role, results that come and go. The attributes are
// those of the dialect's description.
#ifndef SCRIMP_TRANSFORMS_GRAPHFUNCTION_H
#define SCRIMP_TRANSFORMS_GRAPHFUNCTION_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// The graph function @name of the module. Null, after an error that says what wants it, if there is none or it has
/// not exactly one block.
func::FuncOp lookupGraph(ModuleOp module, StringRef name, StringRef wantedBy);

/// The model's name of an argument; `#3` where it has none.
std::string argumentName(func::FuncOp function, unsigned index);

/// Whether the argument is a parameter of this kind ("trainable" or "frozen").
bool isParameter(func::FuncOp function, unsigned index, StringRef kind);

/// The index of the result with scrimp.output = name, or -1.
int findOutput(func::FuncOp function, StringRef name);

/// Adds an argument after the others.
BlockArgument appendArgument(func::FuncOp function, Type type, DictionaryAttr attributes, Location loc);

/// The argument with scrimp.scalar = name; null if there is none.
BlockArgument findScalarArgument(func::FuncOp function, StringRef name);
/// The same, appended with element type `type` if it is not there yet.
BlockArgument getScalarArgument(func::FuncOp function, StringRef name, Type type);

/// Adds a result with one attribute, after the others.
void appendResult(func::FuncOp function, Value value, StringRef attribute, Attribute attributeValue);

/// Drops results and what the function returns there.
void eraseResults(func::FuncOp function, const llvm::BitVector &erased);

} // namespace mlir::scrimp

#endif
