// exp over rows. The float version is a polynomial that the compiler vectorises with the same bits at any vector
// width (no contraction, no calls); the double version is libm's.
#ifndef SCRIMP_RUNTIME_LIB_CPU_EXP_H
#define SCRIMP_RUNTIME_LIB_CPU_EXP_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace scrimp::runtime {

/// exp(x), within 2 ulp; 0 below -87.3 (the result would be subnormal), NaN for NaN and for +inf.
/// Range reduction by Cody and Waite, polynomial of Cephes' expf.
inline float exponential(float x) {
  constexpr float magic = 0x1.8p23f; // adding it rounds to an integer in the low bits
  float shifted = x * 1.44269504088896341f + magic;
  float n = shifted - magic;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  float scale = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u);
  return x < -87.3f ? 0.0f : p * scale;
}

inline double exponential(double x) { return std::exp(x); }

} // namespace scrimp::runtime

#endif
