// Integer ops are exact; i1 is stored as a byte.
// RUN: sed -e 's/SIZE/17/g' -e 's/TYPE/i8/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/4097/g' -e 's/TYPE/i32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/33/g' -e 's/TYPE/i64/g' %s | scrimp-kernel-test -
func.func @main() -> (tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExi1>, tensor<SIZExi1>, tensor<SIZExf32>, tensor<SIZExi1>, tensor<SIZExbf16>) {
  %x = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<SIZExTYPE>
  %n = scrimp.iota {dim = 0 : i64, start = 5.0 : f64, step = -3.0 : f64} : tensor<SIZExTYPE>
  %add = scrimp.add %x, %n : tensor<SIZExTYPE>
  %sub = scrimp.sub %x, %n : tensor<SIZExTYPE>
  %mul = scrimp.mul %x, %x : tensor<SIZExTYPE>
  %div = scrimp.div %n, %x : tensor<SIZExTYPE>
  %rem = scrimp.remainder %n, %x : tensor<SIZExTYPE>
  %max = scrimp.maximum %x, %n : tensor<SIZExTYPE>
  %min = scrimp.minimum %x, %n : tensor<SIZExTYPE>
  %neg = scrimp.neg %x : tensor<SIZExTYPE>
  %abs = scrimp.abs %n : tensor<SIZExTYPE>
  %and = scrimp.and %x, %n : tensor<SIZExTYPE>
  %xor = scrimp.xor %x, %n : tensor<SIZExTYPE>
  %lt = scrimp.compare lt, %x, %n : tensor<SIZExTYPE> -> tensor<SIZExi1>
  %odd = scrimp.cast %rem : tensor<SIZExTYPE> -> tensor<SIZExi1>
  %both = scrimp.or %lt, %odd : tensor<SIZExi1>
  %float = scrimp.cast %mul : tensor<SIZExTYPE> -> tensor<SIZExf32>
  %bfloat = scrimp.cast %mul : tensor<SIZExTYPE> -> tensor<SIZExbf16>
  return %add, %sub, %mul, %div, %rem, %max, %min, %neg, %abs, %and, %xor, %lt, %odd, %float, %both, %bfloat
      : tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExi1>, tensor<SIZExi1>, tensor<SIZExf32>, tensor<SIZExi1>, tensor<SIZExbf16>
}
