// Comparison, tensor by tensor and element by element.
#include "Commands.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace scrimp::runtime {

namespace {

/// The elements of a tensor in which two files differ.
struct Difference {
  int64_t count = 0, worst = 0; // worst: where they are farthest apart
  double distance = -1, left = 0, right = 0;

  void meet(int64_t element, double a, double b) {
    ++count;
    double apart = std::isnan(a - b) ? HUGE_VAL : std::abs(a - b);
    if (apart <= distance)
      return;
    distance = apart;
    worst = element;
    left = a;
    right = b;
  }
};

} // namespace

static Status read(TensorSet &set, const std::string &name, int64_t begin, int64_t count, char *target) {
  return set.forEachPiece(name, begin, count, [&](const TensorSet::Piece &piece) {
    int64_t each = fileTypeBytes(piece.stored.type);
    auto bytes = static_cast<uint64_t>(piece.count * each);
    char *at = target;
    target += bytes;
    return piece.file.read(piece.stored.offset + static_cast<uint64_t>(piece.first * each), at, bytes);
  });
}

/// Both have the shape. Elements of one type are compared by their bits, of two types by their values.
static Result<Difference> compare(TensorSet &a, TensorSet &b, const std::string &name) {
  FileType left = a.tensors().at(name).type, right = b.tensors().at(name).type;
  int64_t elements = a.tensors().at(name).elements(), most = 1 << 16;
  std::vector<char> leftBytes(static_cast<size_t>(most * fileTypeBytes(left)));
  std::vector<char> rightBytes(static_cast<size_t>(most * fileTypeBytes(right)));
  std::vector<double> leftValues(static_cast<size_t>(most)), rightValues(static_cast<size_t>(most));
  Difference difference;
  for (int64_t begin = 0; begin < elements; begin += most) {
    int64_t count = std::min(most, elements - begin);
    if (Status status = read(a, name, begin, count, leftBytes.data()); status.failed())
      return status;
    if (Status status = read(b, name, begin, count, rightBytes.data()); status.failed())
      return status;
    auto each = static_cast<size_t>(fileTypeBytes(left));
    if (left == right && !memcmp(leftBytes.data(), rightBytes.data(), each * static_cast<size_t>(count)))
      continue;
    convertElements(left, leftBytes.data(), DType::f64, reinterpret_cast<char *>(leftValues.data()), count);
    convertElements(right, rightBytes.data(), DType::f64, reinterpret_cast<char *>(rightValues.data()), count);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      double x = leftValues[i], y = rightValues[i];
      bool areSame = left == right ? !memcmp(leftBytes.data() + i * each, rightBytes.data() + i * each, each)
                                   : x == y || (std::isnan(x) && std::isnan(y));
      if (!areSame)
        difference.meet(begin + static_cast<int64_t>(i), x, y);
    }
  }
  return difference;
}

static std::string describe(const TensorSet::Entry &entry) {
  return format("%s %s", fileTypeName(entry.type), entry.shapeText().c_str());
}

/// Appends what differs; how many tensors do.
static Result<int64_t> diffTensors(TensorSet &a, TensorSet &b, const std::string &nameA, const std::string &nameB,
                                   std::string &text) {
  int64_t differing = 0;
  for (auto &[name, entry] : a.tensors()) {
    auto other = b.tensors().find(name);
    if (other == b.tensors().end()) {
      text += format("%s: %s, only in '%s'\n", name.c_str(), describe(entry).c_str(), nameA.c_str());
      ++differing;
      continue;
    }
    if (entry.shape != other->second.shape || fileTypeIsFloat(entry.type) != fileTypeIsFloat(other->second.type)) {
      text += format("%s: %s and %s\n", name.c_str(), describe(entry).c_str(), describe(other->second).c_str());
      ++differing;
      continue;
    }
    Result<Difference> found = compare(a, b, name);
    if (found.failed())
      return found.status();
    if (!found->count)
      continue;
    text += format("%s: %lld of %lld elements differ, most element %lld: %.9g and %.9g\n", name.c_str(),
                   (long long)found->count, (long long)entry.elements(), (long long)found->worst, found->left,
                   found->right);
    ++differing;
  }
  for (auto &[name, entry] : b.tensors())
    if (!a.tensors().count(name)) {
      text += format("%s: %s, only in '%s'\n", name.c_str(), describe(entry).c_str(), nameB.c_str());
      ++differing;
    }
  return differing;
}

Result<bool> diff(const std::string &a, const std::string &b, std::string &text) {
  Result<TensorSource> left = TensorSource::open(a), right = TensorSource::open(b);
  for (Result<TensorSource> *each : {&left, &right}) {
    if (each->failed())
      return each->status();
    if (Status status = (*each)->check(); status.failed())
      return status;
  }
  Result<int64_t> differing = diffTensors(left->model, right->model, a, b, text);
  if (differing.failed())
    return differing.status();
  bool haveStates = left->states && right->states;
  if (haveStates) {
    Result<int64_t> states = diffTensors(*left->states, *right->states, a, b, text);
    if (states.failed())
      return states.status();
    *differing += *states;
    const RunState &one = left->checkpoint->state, &other = right->checkpoint->state;
    const std::tuple<const char *, int64_t, int64_t> numbers[] = {{"step", one.step, other.step},
                                                                  {"updates", one.updates, other.updates},
                                                                  {"samples", one.position, other.position}};
    for (auto [what, x, y] : numbers)
      if (x != y) {
        text += format("%s: %lld and %lld\n", what, (long long)x, (long long)y);
        ++*differing;
      }
  }
  if (!*differing)
    text += format("%zu tensors are the same\n",
                   left->model.tensors().size() + (haveStates ? left->states->tensors().size() : 0));
  return *differing == 0;
}

} // namespace scrimp::runtime
