// RUN: scrimp-opt --split-input-file --verify-diagnostics %s

// expected-error @below {{argument 0 has the attribute "scrimp.nmae", which nothing reads}}
func.func @key(%x: tensor<f32> {scrimp.nmae = "x"}) { return }

// -----

// expected-error @below {{argument 0 has scrimp.param = 1 : i64, which is no value that it can have}}
func.func @role(%x: tensor<f32> {scrimp.param = 1}) { return }

// -----

// expected-error @below {{argument 0 has scrimp.valid = [3, 1], which is no value that it can have}}
func.func @interval(%x: tensor<i64> {scrimp.valid = [3, 1]}) { return }

// -----

// expected-error @below {{result 0 has the attribute "scrimp.name", which nothing reads}}
func.func @result(%x: tensor<f32>) -> (tensor<f32> {scrimp.name = "x"}) { return %x : tensor<f32> }

// -----

func.func @op(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{has scrimp.offsets = 3 : i64, which is no value that it can have}}
  %0 = scrimp.neg %x {scrimp.offsets = 3 : i64} : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @below {{argument 0 is a bucket of 8 elements, of which 'tensor<3xf32>' is no part}}
func.func @part(%x: tensor<3xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, members = []>}) { return }

// -----

// expected-error @below {{member "b" begins at element 3 of its bucket, inside the one before, which ends at 4}}
func.func @overlap(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, members = [
  #scrimp.member<name = "a", offset = 0, shape = [2, 2]>, #scrimp.member<name = "b", offset = 3, shape = [1]>]>}) { return }

// -----

// expected-error @below {{a bucket of 8 elements has members up to element 9}}
func.func @end(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, members = [
  #scrimp.member<name = "a", offset = 0, shape = [9]>]>}) { return }

// -----

func.func @negative(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, members = [
  // expected-error @below {{member "a" begins at element -1 with the shape array<i64: 9>, expected no negative number}}
  // expected-error @below {{failed to parse Scrimp_BucketAttr parameter 'members'}}
  #scrimp.member<name = "a", offset = -1, shape = [9]>]>}) { return }

// -----

// Parts of 4 elements.
// expected-error @below {{member "a" lies at elements 2 to 5, in more than one of the parts of 4 elements that owners have}}
func.func @owners(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, owners = 2, members = [
  #scrimp.member<name = "a", offset = 2, shape = [3]>]>}) { return }

// -----

// expected-error @below {{a bucket of 8 elements has no 3 equal parts}}
func.func @parts(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, owners = 3, members = []>}) { return }

// -----

// expected-error @below {{a bucket holds "a", expected #scrimp.member}}
func.func @entry(%x: tensor<8xf32> {scrimp.bucket = #scrimp.bucket<elements = 8, members = ["a"]>}) { return }

// -----

// Rank 1 of 2 has the second half.
func.func @fine(%x: tensor<4xf32> {scrimp.bucket = #scrimp.bucket<block = "h", group = "decay", elements = 8, members = [
  #scrimp.member<name = "a", offset = 0, shape = [9, 0], aliases = ["b"], init = {kind = "zeros"}, reason = "c">]>}) { return }
