// Attributes of the dialect: the textual form of ranges, by themselves and inside scrimp.cmd ops.
#include "CommandSyntax.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::scrimp;

#define GET_ATTRDEF_CLASSES
#include "scrimp/Dialect/ScrimpAttributes.cpp.inc"

void ScrimpDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scrimp/Dialect/ScrimpAttributes.cpp.inc"
      >();
}

LogicalResult RangeAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t offset, int64_t bytes,
                                ArrayRef<int64_t>, int64_t, MemorySpace) {
  if (offset < 0 || bytes < 0)
    return emitError() << "a range begins at 0 or later and has no negative length, found " << offset << " : " << bytes;
  return success();
}

static void printFields(AsmPrinter &printer, RangeAttr range) {
  printer << range.getOffset() << " : " << range.getBytes();
  if (!range.getStrides().empty()) {
    printer << " step [";
    llvm::interleaveComma(range.getStrides(), printer);
    printer << "]";
  }
  if (range.getRankStride())
    printer << " rank " << range.getRankStride();
  if (range.getSpace() != MemorySpace::device)
    printer << " in " << stringifyMemorySpace(range.getSpace());
}

static ParseResult parseFields(AsmParser &parser, RangeAttr &range) {
  int64_t offset, bytes, rankStride = 0;
  SmallVector<int64_t> strides;
  MemorySpace space = MemorySpace::device;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(offset) || parser.parseColon() || parser.parseInteger(bytes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("step")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parser.parseInteger(strides.emplace_back()); }))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("rank")) && parser.parseInteger(rankStride))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("in"))) {
    StringRef name;
    SMLoc spaceLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<MemorySpace> known = symbolizeMemorySpace(name);
    if (!known)
      return parser.emitError(spaceLoc) << "unknown memory space '" << name << "'; there are device, host and pinned";
    space = *known;
  }
  range = RangeAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), offset, bytes, strides,
                                rankStride, space);
  return success(bool(range));
}

void RangeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printFields(printer, *this);
  printer << ">";
}

Attribute RangeAttr::parse(AsmParser &parser, Type) {
  RangeAttr range;
  if (parser.parseLess() || parseFields(parser, range) || parser.parseGreater())
    return {};
  return range;
}

ParseResult mlir::scrimp::parseRange(OpAsmParser &parser, RangeAttr &range) {
  return failure(parser.parseLSquare() || parseFields(parser, range) || parser.parseRSquare());
}

void mlir::scrimp::printRange(OpAsmPrinter &printer, Operation *, RangeAttr range) {
  printer << "[";
  printFields(printer, range);
  printer << "]";
}

ParseResult mlir::scrimp::parseRanges(OpAsmParser &parser, ArrayAttr &ranges) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    RangeAttr range;
    if (parseFields(parser, range))
      return failure();
    list.push_back(range);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  ranges = parser.getBuilder().getArrayAttr(list);
  return success();
}

void mlir::scrimp::printRanges(OpAsmPrinter &printer, Operation *, ArrayAttr ranges) {
  printer << "[";
  llvm::interleaveComma(ranges.getAsRange<RangeAttr>(), printer, [&](RangeAttr range) { printFields(printer, range); });
  printer << "]";
}
