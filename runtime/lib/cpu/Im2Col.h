// Columns of a convolution: the copy between an image and the matrix whose product with the filters is the
// convolution. Rows of the matrix are (channel, kh, kw), columns are output positions.
#ifndef SCRIMP_RUNTIME_LIB_CPU_IM2COL_H
#define SCRIMP_RUNTIME_LIB_CPU_IM2COL_H

#include "HostLoops.h"
#include "scrimp/runtime/workspace.h"
#include <cstring>

namespace scrimp::runtime {

/// The outputs [begin, end) of one row that a tap sees inside the image: ow with 0 <= ow * stride + offset < width.
struct TapRange {
  int64_t begin, end;
  TapRange(int64_t outputs, int64_t stride, int64_t offset, int64_t width) {
    begin = offset >= 0 ? 0 : smallerOf(divideUp(-offset, stride), outputs);
    end = offset >= width ? begin : largerOf(begin, smallerOf(divideUp(width - offset, stride), outputs));
  }
};

/// Calls row(tapRow, columnBegin, outputRow, owBegin, owEnd, ih, kw offset) for each run of positions of one output row
/// within [begin, begin + count) of a sample, for each tap of `channels` channels. Used by both copies below.
template <typename Visit>
void forEachRun(const Conv2dShape &s, int64_t channels, int64_t begin, int64_t count, Visit visit) {
  int64_t outW = s.outW();
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kh = 0; kh < s.KH; ++kh)
      for (int64_t kw = 0; kw < s.KW; ++kw) {
        int64_t tap = (c * s.KH + kh) * s.KW + kw;
        for (int64_t p = begin; p < begin + count;) {
          int64_t oh = p / outW, ow = p % outW, end = smallerOf(outW, ow + begin + count - p);
          int64_t ih = oh * s.strideH - s.padTop + kh * s.dilH;
          visit(c, tap, p - begin, ow, end, ih, kw * s.dilW - s.padLeft);
          p += end - ow;
        }
      }
}

/// columns[(c, kh, kw), 0 .. count) for positions [begin, begin + count) of one sample. `x` is the first of `channels`
/// planes of H x W; rows of `columns` are `stride` elements apart.
template <typename T>
void imageToColumns(const Conv2dShape &s, const T *x, int64_t channels, int64_t begin, int64_t count, T *columns,
                    int64_t stride) {
  if (s.isPointwise()) {
    for (int64_t c = 0; c < channels; ++c)
      memcpy(columns + c * stride, x + c * s.H * s.W + begin, count * sizeof(T));
    return;
  }
  forEachRun(s, channels, begin, count,
             [&](int64_t c, int64_t tap, int64_t column, int64_t ow, int64_t end, int64_t ih, int64_t offset) {
               T *out = columns + tap * stride + column - ow;
               if (ih < 0 || ih >= s.H) {
                 memset(out + ow, 0, (end - ow) * sizeof(T));
                 return;
               }
               const T *row = x + (c * s.H + ih) * s.W;
               TapRange inside(s.outW(), s.strideW, offset, s.W);
               int64_t first = largerOf(ow, smallerOf(inside.begin, end)),
                       last = largerOf(first, smallerOf(inside.end, end));
               for (int64_t j = ow; j < first; ++j)
                 out[j] = T(0);
               if (s.strideW == 1)
                 memcpy(out + first, row + first + offset, (last - first) * sizeof(T));
               else
                 for (int64_t j = first; j < last; ++j)
                   out[j] = row[j * s.strideW + offset];
               for (int64_t j = last; j < end; ++j)
                 out[j] = T(0);
             });
}

/// The adjoint: adds columns into dx, taps in order.
template <typename T>
void addColumnsToImage(const Conv2dShape &s, T *dx, int64_t channels, int64_t begin, int64_t count, const T *columns,
                       int64_t stride) {
  forEachRun(s, channels, begin, count,
             [&](int64_t c, int64_t tap, int64_t column, int64_t ow, int64_t end, int64_t ih, int64_t offset) {
               if (ih < 0 || ih >= s.H)
                 return;
               const T *in = columns + tap * stride + column - ow;
               T *row = dx + (c * s.H + ih) * s.W;
               TapRange inside(s.outW(), s.strideW, offset, s.W);
               int64_t first = largerOf(ow, inside.begin), last = smallerOf(inside.end, end);
               if (first < last)
                 addRow(in + first, row + first * s.strideW + offset, last - first, s.strideW);
             });
}

} // namespace scrimp::runtime

#endif
