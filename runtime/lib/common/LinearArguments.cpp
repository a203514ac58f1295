#include "LinearArguments.h"
#include "ArgumentCheck.h"
#include <cstring>

namespace scrimp::runtime {

LinearCall linearCallOf(const LibraryArguments &arguments) {
  LinearCall call;
  memcpy(&call, arguments.ints.data(), sizeof(call));
  return call;
}

Status verifyLinear(const LibraryArguments &arguments) {
  ArgumentCheck check("linear", arguments);
  check.floatType();
  if (arguments.ints.size() != linearCallInts)
    check.counts(arguments.buffers.size(), linearCallInts, 0);
  static constexpr const char *names[] = {"m", "n", "k", "transA", "transB", "addend", "bias", "epilogue", "sums"};
  static constexpr int64_t most[] = {maxExtent,     maxExtent, maxExtent,        1,      1,
                                     addendInPlace, 1,         geluGradEpilogue, sumsOfB};
  for (size_t i = 0; i < linearCallInts; ++i)
    check.range(i, names[i], 0, most[i]);
  if (check.failed())
    return check.take();
  LinearCall s = linearCallOf(arguments);
  bool hasWorkspace = isNarrow(arguments.typeOf(0)) || arguments.forCuda;
  LinearPlaces at(s, hasWorkspace);
  check.counts(static_cast<size_t>(at.count), linearCallInts, 0);
  if (check.failed())
    return check.take();
  for (int i = 0; i < at.count - hasWorkspace; ++i)
    check.storedType(static_cast<size_t>(i));
  DType operands = arguments.typeOf(0), result = arguments.typeOf(static_cast<size_t>(at.result));
  if (operands != arguments.typeOf(1))
    check.fail("A and B differ in type");
  if (result != operands && result != arguments.dtype)
    check.fail("Y has neither the operands' type nor that of the sums");
  for (int place : {at.addend, at.bias, at.read, at.kept, at.sums})
    if (place >= 0 && arguments.typeOf(static_cast<size_t>(place)) != result)
      check.fail("what it adds, reads and keeps beside the operands has Y's type");
  if (s.sums != noSums && (s.bias || s.epilogue != noEpilogue || result != arguments.dtype))
    check.fail("sums of an operand go with neither a bias, nor an epilogue, nor a rounded Y");
  if ((at.read >= 0 || at.kept >= 0) && s.n % epilogueColumns != 0)
    check.fail("an epilogue that reads or keeps a matrix needs an n that 8 divides");
  auto buffer = [&](int place, const char *what, std::initializer_list<int64_t> extents) {
    if (place >= 0)
      check.buffer(static_cast<size_t>(place), what, extents,
                   elementBytes(arguments.typeOf(static_cast<size_t>(place))));
  };
  buffer(0, "A", {s.m, s.k});
  buffer(1, "B", {s.k, s.n});
  buffer(at.addend, "C", {s.m, s.n});
  buffer(at.bias, "bias", {s.n});
  buffer(at.read, "X", {s.m, s.n});
  buffer(at.result, "Y", {s.m, s.n});
  buffer(at.kept, "X'", {s.m, s.n});
  buffer(at.sums, "sums", {s.sums == sumsOfA ? s.m : s.n});
  if (arguments.forCuda)
    check.buffer(static_cast<size_t>(at.workspace), "workspace",
                 {productWorkspaceBytes(s.product(), elementBytes(operands), elementBytes(result))}, 1);
  else if (at.workspace >= 0)
    check.buffer(static_cast<size_t>(at.workspace), "workspace", {gemmSlotBytes(s.product()), arguments.workers}, 1);
  return check.take();
}

} // namespace scrimp::runtime
