// Every elementwise float op, at sizes around the vector width, against the interpreter; in any ranges, in place, with
// and without fusion.
// RUN: sed -e 's/SIZE/0/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/1/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/15/g' -e 's/TYPE/f64/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/16/g' -e 's/TYPE/f16/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/17/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/4097/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/SIZE/4097/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --march baseline -
func.func @main() -> (tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
    tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExi1>) {
  // x = 6 sin(i), z = 3 cos(i), p = 0.25 + |x|: of both signs, aperiodic, and positive.
  %i = scrimp.iota {dim = 0 : i64} : tensor<SIZExf32>
  %six = scrimp.constant dense<6.0> : tensor<SIZExf32>
  %three = scrimp.constant dense<3.0> : tensor<SIZExf32>
  %quarter = scrimp.constant dense<0.25> : tensor<SIZExf32>
  %s = scrimp.sin %i : tensor<SIZExf32>
  %c = scrimp.cos %i : tensor<SIZExf32>
  %sx = scrimp.mul %s, %six : tensor<SIZExf32>
  %cz = scrimp.mul %c, %three : tensor<SIZExf32>
  %m = scrimp.abs %sx : tensor<SIZExf32>
  %mp = scrimp.add %m, %quarter : tensor<SIZExf32>
  %x = scrimp.cast %sx : tensor<SIZExf32> -> tensor<SIZExTYPE>
  %z = scrimp.cast %cz : tensor<SIZExf32> -> tensor<SIZExTYPE>
  %p = scrimp.cast %mp : tensor<SIZExf32> -> tensor<SIZExTYPE>

  %add = scrimp.add %x, %z : tensor<SIZExTYPE>
  %sub = scrimp.sub %x, %z : tensor<SIZExTYPE>
  %mul = scrimp.mul %x, %z : tensor<SIZExTYPE>
  %div = scrimp.div %x, %p : tensor<SIZExTYPE>
  %max = scrimp.maximum %x, %z : tensor<SIZExTYPE>
  %min = scrimp.minimum %x, %z : tensor<SIZExTYPE>
  %rem = scrimp.remainder %x, %p : tensor<SIZExTYPE>
  %pow = scrimp.pow %p, %z : tensor<SIZExTYPE>
  %neg = scrimp.neg %x : tensor<SIZExTYPE>
  %abs = scrimp.abs %x : tensor<SIZExTYPE>
  %sign = scrimp.sign %x : tensor<SIZExTYPE>
  %exp = scrimp.exp %x : tensor<SIZExTYPE>
  %log = scrimp.log %p : tensor<SIZExTYPE>
  %expm1 = scrimp.expm1 %x : tensor<SIZExTYPE>
  %log1p = scrimp.log1p %p : tensor<SIZExTYPE>
  %sqrt = scrimp.sqrt %p : tensor<SIZExTYPE>
  %rsqrt = scrimp.rsqrt %p : tensor<SIZExTYPE>
  %sin = scrimp.sin %x : tensor<SIZExTYPE>
  %cos = scrimp.cos %x : tensor<SIZExTYPE>
  %erf = scrimp.erf %x : tensor<SIZExTYPE>
  %floor = scrimp.floor %x : tensor<SIZExTYPE>
  %ceil = scrimp.ceil %x : tensor<SIZExTYPE>
  %round = scrimp.round %x : tensor<SIZExTYPE>
  %tanh = scrimp.tanh %x : tensor<SIZExTYPE>
  %sigmoid = scrimp.sigmoid %x : tensor<SIZExTYPE>
  %relu = scrimp.relu %x : tensor<SIZExTYPE>
  %silu = scrimp.silu %x : tensor<SIZExTYPE>
  %gelu = scrimp.gelu %x : tensor<SIZExTYPE>
  %gelu_tanh = scrimp.gelu_tanh %x : tensor<SIZExTYPE>
  %gelu_grad = scrimp.gelu_tanh_grad %z, %x : tensor<SIZExTYPE>
  %softplus = scrimp.softplus %x : tensor<SIZExTYPE>
  %clip = scrimp.clip %x {low = -1.0 : f64, high = 2.0 : f64} : tensor<SIZExTYPE>
  %leaky = scrimp.leaky_relu %x {alpha = 0.1 : f64} : tensor<SIZExTYPE>
  %elu = scrimp.elu %x {alpha = 1.5 : f64} : tensor<SIZExTYPE>
  %lt = scrimp.compare lt, %x, %z : tensor<SIZExTYPE> -> tensor<SIZExi1>
  %select = scrimp.select %lt, %x, %z : tensor<SIZExTYPE>
  return %add, %sub, %mul, %div, %max, %min, %rem, %pow, %neg, %abs, %sign, %exp, %log, %expm1, %log1p, %sqrt, %rsqrt,
      %sin, %cos, %erf, %floor, %ceil, %round, %tanh, %sigmoid, %relu, %silu, %gelu, %gelu_tanh, %softplus, %clip, %leaky,
      %elu, %gelu_grad, %select, %x, %z, %p, %lt : tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>,
      tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExTYPE>, tensor<SIZExi1>
}
