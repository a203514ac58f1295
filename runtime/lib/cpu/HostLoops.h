// Loops that run at the host's vector width: compiled for several instruction sets, chosen when the program starts. The
// runtime itself runs on any processor of its architecture.
//
// No bit depends on the choice: there is no contraction (runtime/CMakeLists.txt), and every sum names its own lanes.
#ifndef SCRIMP_RUNTIME_LIB_CPU_HOSTLOOPS_H
#define SCRIMP_RUNTIME_LIB_CPU_HOSTLOOPS_H

#include <cstdint>

/// Before a function with external linkage that is no template; what it calls must be inlined.
#if defined(__x86_64__) && __has_attribute(target_clones)
#define SCRIMP_HOST_WIDTH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SCRIMP_HOST_WIDTH
#endif

namespace scrimp::runtime {

/// Softmax in place; returns the log-sum-exp. A row whose scores are all -inf becomes zeros with lse 0, from which the
/// gradient recomputes zeros. NaN stays NaN.
float softmaxRow(float *row, int64_t count);
double softmaxRow(double *row, int64_t count);

/// row[j] = exp(row[j] - logSum).
void probabilityRow(float *row, int64_t count, float logSum);
void probabilityRow(double *row, int64_t count, double logSum);

/// gradient[j] = p[j] (gradient[j] - delta): from the gradient of probabilities to that of scores.
void softmaxGradientRow(const float *p, float *gradient, int64_t count, float delta);
void softmaxGradientRow(const double *p, double *gradient, int64_t count, double delta);

/// to[j * stride] += from[j].
void addRow(const float *from, float *to, int64_t count, int64_t stride);
void addRow(const double *from, double *to, int64_t count, int64_t stride);

} // namespace scrimp::runtime

#endif
