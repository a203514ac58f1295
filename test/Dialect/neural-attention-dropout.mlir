// Attention that drops probabilities draws what scrimp.dropout draws for a tensor of them, to the bit: with the unit
// matrix for values, its result is the dropped probabilities.
// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - | FileCheck %s

// CHECK: [0, 0, 0, 0, 0]
func.func @main() -> tensor<5xi64> {
  %seed = scrimp.constant dense<42> : tensor<i64>
  %step = scrimp.constant dense<7> : tensor<i64>
  %base = scrimp.constant dense<64> : tensor<i64>
  %next = scrimp.constant dense<65> : tensor<i64>
  %q = scrimp.constant dense<0.5> : tensor<2x3x4x2xf64>
  %k = scrimp.constant dense<0.25> : tensor<2x3x4x2xf64>
  %unit = scrimp.constant dense<[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]> : tensor<4x4xf64>
  %v = scrimp.broadcast %unit : tensor<4x4xf64> -> tensor<2x3x4x4xf64>
  %y, %lse = scrimp.attention %q, %k, %v dropout(%seed, %step, %base) {scale = 1.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 2 : i64}
    : tensor<2x3x4x2xf64>, tensor<2x3x4x2xf64>, tensor<2x3x4x4xf64> -> tensor<2x3x4x4xf64>, tensor<2x3x4xf64>

  %quarter = scrimp.constant dense<0.25> : tensor<2x3x4x4xf64>
  %expected = scrimp.dropout %quarter, %seed, %step, %base {key = 3 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.4 : f64} : tensor<2x3x4x4xf64>
  %ne = scrimp.compare ne, %y, %expected : tensor<2x3x4x4xf64> -> tensor<2x3x4x4xi1>
  %ne64 = scrimp.cast %ne : tensor<2x3x4x4xi1> -> tensor<2x3x4x4xi64>
  %differ = scrimp.reduce sum, %ne64 [0, 1, 2, 3] : tensor<2x3x4x4xi64> -> tensor<i64>

  // The heads in the batch: a sample is three of its members.
  %qb = scrimp.reshape %q : tensor<2x3x4x2xf64> -> tensor<6x1x4x2xf64>
  %vb = scrimp.broadcast %unit : tensor<4x4xf64> -> tensor<6x1x4x4xf64>
  %yb, %lseb = scrimp.attention %qb, %qb, %vb dropout(%seed, %step, %base) {scale = 0.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 2 : i64}
    : tensor<6x1x4x2xf64>, tensor<6x1x4x2xf64>, tensor<6x1x4x4xf64> -> tensor<6x1x4x4xf64>, tensor<6x1x4xf64>
  %b = scrimp.reshape %yb : tensor<6x1x4x4xf64> -> tensor<2x3x4x4xf64>
  %neb = scrimp.compare ne, %b, %expected : tensor<2x3x4x4xf64> -> tensor<2x3x4x4xi1>
  %neb64 = scrimp.cast %neb : tensor<2x3x4x4xi1> -> tensor<2x3x4x4xi64>
  %differb = scrimp.reduce sum, %neb64 [0, 1, 2, 3] : tensor<2x3x4x4xi64> -> tensor<i64>

  // The second sample by itself, and of it the last two heads, the last query and the keys from the second on: as a
  // piece of attention, and of dropout.
  %q1 = scrimp.slice %q [0, 0, 0, 0] [1, 1, 1, 1] : tensor<2x3x4x2xf64> -> tensor<1x2x1x2xf64>
  %k1 = scrimp.slice %k [0, 0, 0, 0] [1, 1, 1, 1] : tensor<2x3x4x2xf64> -> tensor<1x2x3x2xf64>
  %v1 = scrimp.slice %v [0, 0, 1, 1] [1, 1, 1, 1] : tensor<2x3x4x4xf64> -> tensor<1x2x3x3xf64>
  %origin = scrimp.constant dense<[1, 3, 1]> : tensor<3xi64>
  %y1, %lse1 = scrimp.attention %q1, %k1, %v1 dropout(%seed, %step, %next) origin(%origin : tensor<3xi64>)
    {scale = 1.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 1 : i64, whole = array<i64: 3, 4, 4>}
    : tensor<1x2x1x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x3xf64> -> tensor<1x2x1x3xf64>, tensor<1x2x1xf64>
  %there = scrimp.slice %expected [1, 1, 3, 1] [1, 1, 1, 1] : tensor<2x3x4x4xf64> -> tensor<1x2x1x3xf64>
  %zero = scrimp.constant dense<0.0> : tensor<1x2x1x3xf64>
  %kept = scrimp.compare ne, %there, %zero : tensor<1x2x1x3xf64> -> tensor<1x2x1x3xi1>
  %kept1 = scrimp.compare ne, %y1, %zero : tensor<1x2x1x3xf64> -> tensor<1x2x1x3xi1>
  %ne1 = scrimp.xor %kept, %kept1 : tensor<1x2x1x3xi1>
  %ne164 = scrimp.cast %ne1 : tensor<1x2x1x3xi1> -> tensor<1x2x1x3xi64>
  %differ1 = scrimp.reduce sum, %ne164 [0, 1, 2, 3] : tensor<1x2x1x3xi64> -> tensor<i64>
  %third = scrimp.constant dense<0.25> : tensor<1x2x1x3xf64>
  %from = scrimp.constant dense<[0, 1, 3, 1]> : tensor<4xi64>
  %y2 = scrimp.dropout %third, %seed, %step, %next origin(%from : tensor<4xi64>) {key = 3 : i64, batch_dim = 0 : i64, samples = 1 : i64, p = 0.4 : f64, whole = array<i64: 1, 3, 4, 4>} : tensor<1x2x1x3xf64>
  %ne2 = scrimp.compare ne, %y2, %there : tensor<1x2x1x3xf64> -> tensor<1x2x1x3xi1>
  %ne264 = scrimp.cast %ne2 : tensor<1x2x1x3xi1> -> tensor<1x2x1x3xi64>
  %differ2 = scrimp.reduce sum, %ne264 [0, 1, 2, 3] : tensor<1x2x1x3xi64> -> tensor<i64>

  // Of no sample: sample_base does not count.
  %y3, %lse3 = scrimp.attention %q, %k, %v dropout(%seed, %step, %base) {scale = 0.0 : f64, p = 0.4 : f64, key = 3 : i64}
    : tensor<2x3x4x2xf64>, tensor<2x3x4x2xf64>, tensor<2x3x4x4xf64> -> tensor<2x3x4x4xf64>, tensor<2x3x4xf64>
  %e3 = scrimp.dropout %quarter, %seed, %step, %next {key = 3 : i64, batch_dim = -1 : i64, samples = 1 : i64, p = 0.4 : f64} : tensor<2x3x4x4xf64>
  %ne3 = scrimp.compare ne, %y3, %e3 : tensor<2x3x4x4xf64> -> tensor<2x3x4x4xi1>
  %ne364 = scrimp.cast %ne3 : tensor<2x3x4x4xi1> -> tensor<2x3x4x4xi64>
  %differ3 = scrimp.reduce sum, %ne364 [0, 1, 2, 3] : tensor<2x3x4x4xi64> -> tensor<i64>

  %d0 = scrimp.reshape %differ : tensor<i64> -> tensor<1xi64>
  %d1 = scrimp.reshape %differb : tensor<i64> -> tensor<1xi64>
  %d2 = scrimp.reshape %differ1 : tensor<i64> -> tensor<1xi64>
  %d3 = scrimp.reshape %differ2 : tensor<i64> -> tensor<1xi64>
  %d4 = scrimp.reshape %differ3 : tensor<i64> -> tensor<1xi64>
  %all = scrimp.concat %d0, %d1, %d2, %d3, %d4 {dim = 0 : i64} : tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64> -> tensor<5xi64>
  return %all : tensor<5xi64>
}
