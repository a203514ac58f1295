// The textual form of ranges inside scrimp.cmd ops: `[offset : bytes]`, and lists of such.
#ifndef SCRIMP_LIB_DIALECT_COMMANDSYNTAX_H
#define SCRIMP_LIB_DIALECT_COMMANDSYNTAX_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

ParseResult parseRange(OpAsmParser &parser, RangeAttr &range);
void printRange(OpAsmPrinter &printer, Operation *, RangeAttr range);
ParseResult parseRanges(OpAsmParser &parser, ArrayAttr &ranges);
void printRanges(OpAsmPrinter &printer, Operation *, ArrayAttr ranges);

} // namespace mlir::scrimp

#endif
