#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Softmax, {
  {"softmax", R"(func.func @main(%x: tensor<3x5xf64>) -> tensor<3x5xf64> {
    %y = scrimp.softmax %x : tensor<3x5xf64>
    return %y : tensor<3x5xf64> })"},
  {"softmax_of_one", R"(func.func @main(%x: tensor<2x3x1xf64>) -> tensor<2x3x1xf64> {
    %y = scrimp.softmax %x : tensor<2x3x1xf64>
    return %y : tensor<2x3x1xf64> })"},
  {"log_softmax", R"(func.func @main(%x: tensor<2x2x4xf64>) -> tensor<2x2x4xf64> {
    %y = scrimp.log_softmax %x : tensor<2x2x4xf64>
    return %y : tensor<2x2x4xf64> })"},
  {"log_sum_exp", R"(func.func @main(%x: tensor<2x2x4xf64>) -> tensor<2x2xf64> {
    %y = scrimp.log_sum_exp %x : tensor<2x2x4xf64> -> tensor<2x2xf64>
    return %y : tensor<2x2xf64> })"},
});

// All three results count, so mean and rstd are differentiated too.
SCRIMP_GRADIENT_CASES(Norm, {
  {"layer_norm", R"(func.func @main(%x: tensor<3x5xf64>, %w: tensor<5xf64>, %b: tensor<5xf64>)
      -> (tensor<3x5xf64>, tensor<3xf64>, tensor<3xf64>) {
    %y, %m, %r = scrimp.layer_norm %x scale(%w : tensor<5xf64>) bias(%b : tensor<5xf64>)
      {axis = 1 : i64, epsilon = 1.0e-2 : f64} : tensor<3x5xf64> -> tensor<3xf64>
    return %y, %m, %r : tensor<3x5xf64>, tensor<3xf64>, tensor<3xf64> })"},
  {"layer_norm_two_dims", R"(func.func @main(%x: tensor<2x3x4xf64>, %b: tensor<3x4xf64>) -> tensor<2x3x4xf64> {
    %y, %m, %r = scrimp.layer_norm %x bias(%b : tensor<3x4xf64>)
      {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3x4xf64> -> tensor<2xf64>
    return %y : tensor<2x3x4xf64> })"},
  {"layer_norm_everything", R"(func.func @main(%x: tensor<2x3xf64>, %w: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %y, %m, %r = scrimp.layer_norm %x scale(%w : tensor<2x3xf64>)
      {axis = 0 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xf64> -> tensor<f64>
    return %y : tensor<2x3xf64> })"},
  {"layer_norm_statistics_alone", R"(func.func @main(%x: tensor<3x5xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
    %y, %m, %r = scrimp.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-2 : f64} : tensor<3x5xf64> -> tensor<3xf64>
    return %m, %r : tensor<3xf64>, tensor<3xf64> })"},
  {"rms_norm", R"(func.func @main(%x: tensor<3x5xf64>, %w: tensor<5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>) {
    %y, %r = scrimp.rms_norm %x scale(%w : tensor<5xf64>) {axis = 1 : i64, epsilon = 1.0e-2 : f64}
      : tensor<3x5xf64> -> tensor<3xf64>
    return %y, %r : tensor<3x5xf64>, tensor<3xf64> })"},
  {"rms_norm_plain", R"(func.func @main(%x: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
    %y, %r = scrimp.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-6 : f64} : tensor<2x3x4xf64> -> tensor<2x3xf64>
    return %y : tensor<2x3x4xf64> })"},
});

SCRIMP_GRADIENT_CASES(CrossEntropy, {
  {"cross_entropy", R"(func.func @main(%x: tensor<4x5xf64>, %l: tensor<4xi64> {test.range = [0.0, 5.0]})
      -> (tensor<4xf64>, tensor<4xf64>) {
    %loss, %lse = scrimp.cross_entropy %x, %l : tensor<4x5xf64>, tensor<4xi64> -> tensor<4xf64>
    return %loss, %lse : tensor<4xf64>, tensor<4xf64> })"},
  {"cross_entropy_ignored", R"(func.func @main(%x: tensor<2x2x3xf64>) -> tensor<2x2xf64> {
    %l = scrimp.constant dense<[[0, -100], [2, 1]]> : tensor<2x2xi32>
    %loss, %lse = scrimp.cross_entropy %x, %l {ignore_index = -100 : i64}
      : tensor<2x2x3xf64>, tensor<2x2xi32> -> tensor<2x2xf64>
    return %loss : tensor<2x2xf64> })"},
});

SCRIMP_GRADIENT_CASES(Attention, {
  {"attention", R"(func.func @main(%q: tensor<2x2x3x4xf64>, %k: tensor<2x2x5x4xf64>, %v: tensor<2x2x5x2xf64>)
      -> tensor<2x2x3x2xf64> {
    %y, %l = scrimp.attention %q, %k, %v {scale = 0.5 : f64}
      : tensor<2x2x3x4xf64>, tensor<2x2x5x4xf64>, tensor<2x2x5x2xf64> -> tensor<2x2x3x2xf64>, tensor<2x2x3xf64>
    return %y : tensor<2x2x3x2xf64> })"},
  {"attention_causal_grouped", R"(func.func @main(%q: tensor<1x4x3x2xf64>, %k: tensor<1x2x4x2xf64>,
      %v: tensor<1x2x4x3xf64>) -> tensor<1x4x3x3xf64> {
    %y, %l = scrimp.attention %q, %k, %v {causal, scale = 0.7 : f64}
      : tensor<1x4x3x2xf64>, tensor<1x2x4x2xf64>, tensor<1x2x4x3xf64> -> tensor<1x4x3x3xf64>, tensor<1x4x3xf64>
    return %y : tensor<1x4x3x3xf64> })"},
  // A padding mask that hides the first query's only key, and segments.
  {"attention_masked", R"(func.func @main(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x2xf64>)
      -> tensor<1x2x3x2xf64> {
    %mask = scrimp.constant dense<[[[[false, true, true]]]]> : tensor<1x1x1x3xi1>
    %segments = scrimp.constant dense<[[0, 0, 1]]> : tensor<1x3xi64>
    %y, %l = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x1x3xi1>) segments(%segments : tensor<1x3xi64>)
      {causal, scale = 1.0 : f64}
      : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
    return %y : tensor<1x2x3x2xf64> })"},
  // With a gradient of the mask and through lse.
  {"attention_explicit", R"(func.func @main(%q: tensor<2x4x3x2xf64>, %k: tensor<2x2x3x2xf64>, %v: tensor<2x2x3x2xf64>,
      %mask: tensor<2x1x3x3xf64>, %segments: tensor<2x3xi64>) -> (tensor<2x4x3x2xf64>, tensor<2x4x3xf64>) {
    %y, %l = scrimp.attention %q, %k, %v mask(%mask : tensor<2x1x3x3xf64>) segments(%segments : tensor<2x3xi64>)
      {causal, scale = 0.3 : f64}
      : tensor<2x4x3x2xf64>, tensor<2x2x3x2xf64>, tensor<2x2x3x2xf64> -> tensor<2x4x3x2xf64>, tensor<2x4x3xf64>
    return %y, %l : tensor<2x4x3x2xf64>, tensor<2x4x3xf64> })"},
  // Dropout, of heads in the batch; with a gradient of the mask and through lse; of a piece of larger scores.
  {"attention_dropout", R"(func.func @main(%q: tensor<4x2x3x2xf64>, %k: tensor<4x1x3x2xf64>, %v: tensor<4x1x3x2xf64>)
      -> tensor<4x2x3x2xf64> {
    %s = scrimp.constant dense<42> : tensor<i64>
    %y, %l = scrimp.attention %q, %k, %v dropout(%s, %s, %s)
      {causal, scale = 1.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 2 : i64}
      : tensor<4x2x3x2xf64>, tensor<4x1x3x2xf64>, tensor<4x1x3x2xf64> -> tensor<4x2x3x2xf64>, tensor<4x2x3xf64>
    return %y : tensor<4x2x3x2xf64> })"},
  {"attention_dropout_heads", R"(func.func @main(%q: tensor<2x2x2x2xf64>, %k: tensor<2x2x3x2xf64>, %o: tensor<3xi64>)
      -> tensor<2x2x2x2xf64> {
    %s = scrimp.constant dense<42> : tensor<i64>
    %y, %l = scrimp.attention %q, %k, %k dropout(%s, %s, %s) origin(%o : tensor<3xi64>)
      {causal, scale = 1.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 2 : i64, whole = array<i64: 9, 9, 9>}
      : tensor<2x2x2x2xf64>, tensor<2x2x3x2xf64>, tensor<2x2x3x2xf64> -> tensor<2x2x2x2xf64>, tensor<2x2x2xf64>
    return %y : tensor<2x2x2x2xf64> })"},
  {"attention_window", R"(func.func @main(%q: tensor<1x2x5x2xf64>, %k: tensor<1x1x6x2xf64>, %v: tensor<1x1x6x2xf64>)
      -> tensor<1x2x5x2xf64> {
    %y, %l = scrimp.attention %q, %k, %v {scale = 0.7 : f64, window = array<i64: 2, 1>}
      : tensor<1x2x5x2xf64>, tensor<1x1x6x2xf64>, tensor<1x1x6x2xf64> -> tensor<1x2x5x2xf64>, tensor<1x2x5xf64>
    return %y : tensor<1x2x5x2xf64> })"},
        {"attention_masks", R"(func.func @main(%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: tensor<2x2x4x2xf64>,
      %a: tensor<2x6xf64>, %b: tensor<2x1x1x4xf64>, %c: tensor<1x6xf64>) -> tensor<2x2x3x2xf64> {
    %y, %l = scrimp.attention %q, %k, %v mask(%a, %b, %c : tensor<2x6xf64>, tensor<2x1x1x4xf64>, tensor<1x6xf64>)
      {causal, scale = 0.7 : f64}
      : tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x2xf64> -> tensor<2x2x3x2xf64>, tensor<2x2x3xf64>
    return %y : tensor<2x2x3x2xf64> })"},
        {"attention_masks_lse", R"(func.func @main(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x4x2xf64>, %a: tensor<2x6xf64>)
      -> (tensor<1x2x3x2xf64>, tensor<1x2x3xf64>) {
    %y, %l = scrimp.attention %q, %k, %k mask(%a : tensor<2x6xf64>) {scale = 0.7 : f64, window = array<i64: 2, 0>}
      : tensor<1x2x3x2xf64>, tensor<1x2x4x2xf64>, tensor<1x2x4x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
    return %y, %l : tensor<1x2x3x2xf64>, tensor<1x2x3xf64> })"},
        {"attention_dropout_explicit", R"(func.func @main(%q: tensor<4x2x3x2xf64>, %k: tensor<4x1x4x2xf64>,
      %v: tensor<4x1x4x2xf64>, %mask: tensor<1x2x3x4xf64>) -> (tensor<4x2x3x2xf64>, tensor<4x2x3xf64>) {
    %s = scrimp.constant dense<42> : tensor<i64>
    %o = scrimp.constant dense<[1, 5, 3]> : tensor<3xi64>
    %y, %l = scrimp.attention %q, %k, %v mask(%mask : tensor<1x2x3x4xf64>) dropout(%s, %s, %s)
      origin(%o : tensor<3xi64>)
      {causal, scale = 1.0 : f64, p = 0.4 : f64, key = 3 : i64, samples = 2 : i64, whole = array<i64: 4, 9, 9>}
      : tensor<4x2x3x2xf64>, tensor<4x1x4x2xf64>, tensor<4x1x4x2xf64> -> tensor<4x2x3x2xf64>, tensor<4x2x3xf64>
    return %y, %l : tensor<4x2x3x2xf64>, tensor<4x2x3xf64> })"},
  {"attention_lse", R"(func.func @main(%q: tensor<1x1x2x3xf64>, %k: tensor<1x1x4x3xf64>)
      -> tensor<1x1x2xf64> {
    %mask = scrimp.constant dense<[[[[true, true, false, true]]]]> : tensor<1x1x1x4xi1>
    %y, %l = scrimp.attention %q, %k, %k mask(%mask : tensor<1x1x1x4xi1>) {scale = 0.5 : f64}
      : tensor<1x1x2x3xf64>, tensor<1x1x4x3xf64>, tensor<1x1x4x3xf64> -> tensor<1x1x2x3xf64>, tensor<1x1x2xf64>
    return %l : tensor<1x1x2xf64> })"},
});

SCRIMP_GRADIENT_CASES(Random, {
  {"dropout", R"(func.func @main(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
    %seed = scrimp.constant dense<42> : tensor<i64>
    %step = scrimp.constant dense<7> : tensor<i64>
    %base = scrimp.constant dense<64> : tensor<i64>
    %y = scrimp.dropout %x, %seed, %step, %base
      {key = 3 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.5 : f64} : tensor<4x8xf64>
    return %y : tensor<4x8xf64> })"},
});
