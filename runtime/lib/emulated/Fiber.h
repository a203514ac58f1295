// Coroutines with stacks of their own: how one thread plays the many of a block. A switch is a handful of instructions
// on x86-64, and the C library's elsewhere.
#ifndef SCRIMP_RUNTIME_LIB_EMULATED_FIBER_H
#define SCRIMP_RUNTIME_LIB_EMULATED_FIBER_H

#include <cstddef>
#include <memory>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace scrimp::runtime {

/// Runs `body` when it is first switched to. `body` ends by leave(), never by returning.
class Fiber {
public:
  static constexpr size_t stackBytes = 128 << 10;

  using Body = void (*)();
  /// Begins anew.
  void start(Body body);
  /// From the main stack of this thread to the fiber, until it leaves.
  void enter();
  /// From the fiber back.
  void leave();

private:
  std::unique_ptr<char[]> stack;
#ifdef __x86_64__
  void *mine = nullptr, *outside = nullptr; // stack pointers
#else
  ucontext_t mine, outside;
#endif
  [[maybe_unused]] void *ownShadow = nullptr; // of AddressSanitizer
};

} // namespace scrimp::runtime

#endif
