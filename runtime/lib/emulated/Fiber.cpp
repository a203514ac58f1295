#include "Fiber.h"
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define SCRIMP_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SCRIMP_ASAN 1
#endif
#endif
#ifdef SCRIMP_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// Saves what a callee must keep, exchanges the stack, and restores what the other side has saved.
asm(R"(
.text
.globl scrimp_switch_stack
.hidden scrimp_switch_stack
.type scrimp_switch_stack, @function
scrimp_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size scrimp_switch_stack, .-scrimp_switch_stack
)");
extern "C" void scrimp_switch_stack(void **save, void *load);
#endif

namespace scrimp::runtime {

#ifdef SCRIMP_ASAN
// Where the main stack of this thread lies.
static thread_local const void *mainStack = nullptr;
static thread_local size_t mainBytes = 0;
static thread_local Fiber::Body startedBody = nullptr;
[[noreturn]] static void begin() {
  __sanitizer_finish_switch_fiber(nullptr, &mainStack, &mainBytes);
  startedBody();
  __builtin_unreachable();
}
#endif

void Fiber::start(Body body) {
  if (!stack)
    stack = std::make_unique<char[]>(stackBytes);
#ifdef SCRIMP_ASAN
  startedBody = body;
  body = begin;
#endif
#ifdef __x86_64__
  // As if the body's caller had called it: the stack is aligned to 16 bytes before the return address.
  auto top = (reinterpret_cast<uintptr_t>(stack.get()) + stackBytes) & ~uintptr_t{15};
  auto *place = reinterpret_cast<void **>(top) - 1;
  *--place = reinterpret_cast<void *>(body);
  place -= 6;
  memset(place, 0, 6 * sizeof(void *));
  mine = place;
#else
  getcontext(&mine);
  mine.uc_stack.ss_sp = stack.get();
  mine.uc_stack.ss_size = stackBytes;
  mine.uc_link = nullptr;
  makecontext(&mine, body, 0);
#endif
}

void Fiber::enter() {
#ifdef SCRIMP_ASAN
  void *shadow = nullptr;
  __sanitizer_start_switch_fiber(&shadow, stack.get(), stackBytes);
#endif
#ifdef __x86_64__
  scrimp_switch_stack(&outside, mine);
#else
  swapcontext(&outside, &mine);
#endif
#ifdef SCRIMP_ASAN
  __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#ifdef SCRIMP_ASAN
  __sanitizer_start_switch_fiber(&ownShadow, mainStack, mainBytes);
#endif
#ifdef __x86_64__
  scrimp_switch_stack(&mine, outside);
#else
  swapcontext(&mine, &outside);
#endif
#ifdef SCRIMP_ASAN
  __sanitizer_finish_switch_fiber(ownShadow, &mainStack, &mainBytes);
#endif
}

} // namespace scrimp::runtime
