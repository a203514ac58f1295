// Constants that lie in the file. A matrix whose every element is the one before it in both dimensions (a causal mask,
// a table of distances) is read row by row and becomes a function of positions, whatever its size.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// Smaller ones are read as they are; raising looks at their elements.
static constexpr int64_t kFewElements = 4096;

/// The elements [.., R + C - 1] by key - query + R - 1 of a stored [.., R, C], if they depend on that alone. Holds
/// these and about 1 MiB of rows. Fails after an error if the file cannot be read.
static FailureOr<std::optional<HostTensor>> readByDistance(const WeightSource &source, Type elementType, Location loc) {
  ArrayRef<int64_t> shape = source.shape;
  int64_t rank = shape.size(), count = 1;
  for (int64_t size : shape)
    count *= size;
  if (rank < 2 || source.transposed || count <= kFewElements || shape[rank - 2] < 2 || shape[rank - 1] < 2 ||
      source.getLength() % count)
    return std::optional<HostTensor>();
  int64_t rows = shape[rank - 2], columns = shape[rank - 1], distances = rows + columns - 1;
  size_t width = source.getLength() / count, rowBytes = columns * width;
  int64_t rowsAtOnce = std::max<int64_t>(1, (1 << 20) / rowBytes);
  std::vector<char> elements(count / (rows * columns) * distances * width), buffer(rowsAtOnce * rowBytes),
      previous(rowBytes);
  for (int64_t matrix = 0; matrix < count / (rows * columns); ++matrix)
    for (int64_t first = 0; first < rows; first += rowsAtOnce) {
      int64_t some = std::min(rowsAtOnce, rows - first);
      if (failed(readWeightBytes(source, (matrix * rows + first) * rowBytes,
                                 MutableArrayRef<char>(buffer.data(), some * rowBytes), loc)))
        return failure();
      for (int64_t r = 0; r < some; ++r) {
        const char *row = buffer.data() + r * rowBytes;
        bool isFirst = first + r == 0;
        if (!isFirst && std::memcmp(row + width, previous.data(), rowBytes - width) != 0)
          return std::optional<HostTensor>();
        std::memcpy(elements.data() + (matrix * distances + rows - 1 - first - r) * width, row,
                    isFirst ? rowBytes : width);
        std::memcpy(previous.data(), row, rowBytes);
      }
    }
  WeightSource diagonals;
  diagonals.bytes = StringRef(elements.data(), elements.size());
  diagonals.elementType = source.elementType;
  diagonals.shape.assign(shape.begin(), shape.end() - 2);
  diagonals.shape.push_back(distances);
  FailureOr<HostTensor> result = readTensor(diagonals, elementType, loc);
  return failed(result) ? FailureOr<std::optional<HostTensor>>(failure()) : std::optional<HostTensor>(*result);
}

FailureOr<Value> GraphState::stored(const WeightSource &source, Type elementType, Location loc) {
  FailureOr<std::optional<HostTensor>> byDistance = readByDistance(source, elementType, loc);
  if (failed(byDistance))
    return failure();
  if (!*byDistance) {
    FailureOr<HostTensor> value = readTensor(source, elementType, loc);
    return failed(value) ? FailureOr<Value>(failure()) : constant(loc, *value);
  }
  int64_t rank = source.shape.size(), rows = source.shape[rank - 2], columns = source.shape[rank - 1];
  Value table = constant(loc, **byDistance);
  if (auto splat = table.getDefiningOp<ConstantOp>(); splat && isa<SplatElementsAttr>(splat.getValue()))
    return splatConstant(builder, loc, RankedTensorType::get(source.shape, elementType), (*byDistance)->asDouble(0));
  auto type = RankedTensorType::get({rows, columns}, builder.getI64Type());
  Value row = IotaOp::create(builder, loc, type, 0, APFloat(1.0 - rows), APFloat(1.0));
  Value column = IotaOp::create(builder, loc, type, 1, APFloat(0.0), APFloat(1.0));
  Value distance = SubOp::create(builder, loc, column, row);
  Value result = GatherOp::create(builder, loc, table, distance, rank - 2);
  symbolic.insert(distance);
  symbolic.insert(result);
  return result;
}
