// How the runtime reports errors: a Status is either success or one line for the user (lower case, no final period:
// what was found, what was expected, what to do). No exception crosses a function of the runtime.
#ifndef SCRIMP_RUNTIME_STATUS_H
#define SCRIMP_RUNTIME_STATUS_H

#include <string>
#include <utility>
#include <variant>

namespace scrimp::runtime {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char *fmt, ...);

class [[nodiscard]] Status {
public:
  static Status ok() { return {}; }
  /// printf-style construction of a failure.
  [[gnu::format(printf, 1, 2)]] static Status error(const char *fmt, ...);
  static Status errorText(std::string text);

  bool failed() const { return hasFailed; }
  const std::string &message() const { return text; }

private:
  bool hasFailed = false;
  std::string text;
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status failure) : content(std::move(failure)) {}

  bool failed() const { return std::holds_alternative<Status>(content); }
  const Status &status() const { return std::get<Status>(content); }
  T &operator*() { return std::get<T>(content); }
  const T &operator*() const { return std::get<T>(content); }
  T *operator->() { return &std::get<T>(content); }
  const T *operator->() const { return &std::get<T>(content); }

private:
  std::variant<T, Status> content;
};

} // namespace scrimp::runtime

#endif
