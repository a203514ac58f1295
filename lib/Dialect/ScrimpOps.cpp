// The generated definitions of all ops. Methods written by hand are in the files named after the .td files.
#include "CommandSyntax.h"
#include "MapOps.h"

using namespace mlir;
using namespace mlir::scrimp;

#define GET_OP_CLASSES
#include "scrimp/Dialect/ScrimpOps.cpp.inc"
