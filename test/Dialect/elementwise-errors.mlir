// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

// Nothing broadcasts implicitly.
func.func @shapes(%x: tensor<2xf32>, %y: tensor<1xf32>) {
  // expected-note@-1 {{prior use here}}
  // expected-error@+1 {{use of value '%y' expects different type than prior uses: 'tensor<2xf32>' vs 'tensor<1xf32>'}}
  %z = scrimp.add %x, %y : tensor<2xf32>
  return
}

// -----

func.func @shapes_generic(%x: tensor<2xf32>, %y: tensor<1xf32>) {
  // expected-error@+1 {{requires the same type for all operands and results}}
  %z = "scrimp.add"(%x, %y) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @float_function_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 16-bit float or bfloat16 type or 32-bit float or 64-bit float values, but got 'tensor<2xi32>'}}
  %z = scrimp.exp %x : tensor<2xi32>
  return
}

// -----

func.func @logic_of_floats(%x: tensor<2xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 1-bit signless integer or 8-bit signless integer or 32-bit signless integer or 64-bit signless integer values, but got 'tensor<2xf32>'}}
  %z = scrimp.and %x, %x : tensor<2xf32>
  return
}

// -----

func.func @arithmetic_of_booleans(%x: tensor<2xi1>) {
  // expected-error@+1 {{but got 'tensor<2xi1>'}}
  %z = scrimp.add %x, %x : tensor<2xi1>
  return
}

// -----

func.func @compare_types(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error@+1 {{requires all operands to have the same type}}
  %z = "scrimp.compare"(%x, %y) {predicate = 0 : i64} : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xi1>
  return
}

// -----

func.func @compare_result(%x: tensor<2xf32>) {
  // expected-error@+1 {{result #0 must be statically shaped tensor of 1-bit signless integer values, but got 'tensor<2xf32>'}}
  %z = scrimp.compare eq, %x, %x : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

func.func @compare_shape(%x: tensor<2xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %z = scrimp.compare eq, %x, %x : tensor<2xf32> -> tensor<3xi1>
  return
}

// -----

func.func @select_condition(%c: tensor<1xi1>, %x: tensor<2xf32>) {
  // expected-error@+1 {{failed to verify that the condition has the shape of the result}}
  %z = "scrimp.select"(%c, %x, %x) : (tensor<1xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @cast_shape(%x: tensor<2xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %z = scrimp.cast %x : tensor<2xf32> -> tensor<3xf64>
  return
}

// -----

func.func @unknown_predicate(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected string or keyword containing one of the following enum values for attribute 'predicate' [eq, ne, lt, le, gt, ge]}}
  %z = scrimp.compare near, %x, %x : tensor<2xf32> -> tensor<2xi1>
  return
}
