// Formatting of one-line messages.
#include "scrimp/runtime/Status.h"
#include <cstdarg>
#include <cstdio>

namespace scrimp::runtime {

static std::string formatList(const char *fmt, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int length = vsnprintf(nullptr, 0, fmt, copy);
  va_end(copy);
  std::string text(length > 0 ? length : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, fmt, list);
  return text;
}

std::string format(const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  std::string text = formatList(fmt, list);
  va_end(list);
  return text;
}

Status Status::error(const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  std::string text = formatList(fmt, list);
  va_end(list);
  return errorText(std::move(text));
}

Status Status::errorText(std::string text) {
  Status status;
  status.hasFailed = true;
  // Names from files may carry control characters; a message is one line.
  for (char c : text)
    if (c == '\n')
      status.text += "\\n";
    else if (c == '\t')
      status.text += "\\t";
    else if (c == '\r')
      status.text += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      status.text += format("\\x%02X", static_cast<unsigned char>(c));
    else
      status.text += c;
  return status;
}

} // namespace scrimp::runtime
