// RUN: scrimp-opt --scrimp-optimizer -verify-diagnostics -split-input-file %s
// RUN: not scrimp-opt --scrimp-optimizer=kind=lion %s -split-input-file 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not scrimp-opt "--scrimp-optimizer=kind=adam momentum=true" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not scrimp-opt "--scrimp-optimizer=kind=sgd nesterov=true" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not scrimp-opt "--scrimp-optimizer=kind=sgd no-decay=*.bias" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not scrimp-opt "--scrimp-optimizer=kind=sgd no-decay=[" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=BAD

// KIND: error: unknown optimizer 'lion'; there are sgd, adam and adamw
// MOMENTUM: error: momentum and nesterov belong to sgd, not to adam
// NESTEROV: error: nesterov needs momentum
// PATTERN: error: no-decay pattern '*.bias' matches no trained parameter
// BAD: error: no-decay pattern '[': {{.*}}
// expected-error @below {{no function @train, which scrimp-optimizer starts from}}
module {}

// -----

// expected-error @below {{no result of @train has scrimp.gradient; run scrimp-autodiff first}}
func.func @train(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  return %w : tensor<f32>
}

// -----

func.func @train(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<f32> {scrimp.gradient = "w"}) {
  %one = scrimp.constant dense<1.0> : tensor<f32>
  return %w, %one : tensor<f32>, tensor<f32>
}
