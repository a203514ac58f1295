// What collectives give, on ranks that have different values; and that the textual form says all of them.
// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - --world 3 | FileCheck %s
// RUN: scrimp-run %s --world 3 --typed | FileCheck %s
// The programs of all ranks are one: equal collectives of equal operands are one too, what nobody reads is none.
// RUN: scrimp-opt %s --cse --canonicalize | scrimp-run - --world 3 | FileCheck %s
// RUN: scrimp-opt %s --cse --canonicalize | FileCheck %s --check-prefix=MERGED

// Rank r has 100 r + (0, 1, 2, 3, 4, 5): its own rows come from the number of the rank.
// MERGED-LABEL: func.func @main
// MERGED-COUNT-1: scrimp.all_reduce sum, {{.*}} : tensor<6xf32>
// MERGED-NOT: scrimp.all_reduce sum, {{.*}} : tensor<6xf32>
func.func @main(%rank: tensor<i64> {scrimp.scalar = "rank"}) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>,
    tensor<2xf32>, tensor<3x2xf32>, tensor<6xf32>, tensor<2xf32>, tensor<i64>, tensor<i1>) {
  %positions = scrimp.iota {dim = 0 : i64} : tensor<6xf32>
  %hundred = scrimp.constant dense<100.0> : tensor<f32>
  %r = scrimp.cast %rank : tensor<i64> -> tensor<f32>
  %own = scrimp.mul %r, %hundred : tensor<f32>
  %owns = scrimp.broadcast %own : tensor<f32> -> tensor<6xf32>
  %x = scrimp.add %owns, %positions : tensor<6xf32>
  // 0 + 100 + 200 + 3 i.
  // CHECK: {{^}}[300, 303, 306, 309, 312, 315]
  %a = scrimp.all_reduce sum, %x world 3 : tensor<6xf32>
  %sum = scrimp.wait %a : tensor<6xf32>
  // CHECK-NEXT: {{^}}[300, 303, 306, 309, 312, 315]
  %b = scrimp.all_reduce sum, %x world 3 : tensor<6xf32>
  %again = scrimp.wait %b : tensor<6xf32>
  %dead = scrimp.all_reduce sum, %owns world 3 : tensor<6xf32>
  %deadToo = scrimp.wait %dead : tensor<6xf32>
  // CHECK-NEXT: {{^}}[200, 201, 202, 203, 204, 205]
  %c = scrimp.all_reduce max, %x world 3 : tensor<6xf32>
  %most = scrimp.wait %c : tensor<6xf32>
  // CHECK-NEXT: rank 0: [300, 303]
  // CHECK-NEXT: rank 1: [306, 309]
  // CHECK-NEXT: rank 2: [312, 315]
  %d = scrimp.reduce_scatter %x world 3 : tensor<6xf32> -> tensor<2xf32>
  %part = scrimp.wait %d : tensor<2xf32>
  // Parts along dimension 0, of any rank.
  // CHECK-NEXT: {{^}}[{{\[}}300, 303], [306, 309], [312, 315]]
  %row = scrimp.reshape %part : tensor<2xf32> -> tensor<1x2xf32>
  %e = scrimp.all_gather %row world 3 : tensor<1x2xf32> -> tensor<3x2xf32>
  %whole = scrimp.wait %e : tensor<3x2xf32>
  // CHECK-NEXT: {{^}}[100, 101, 102, 103, 104, 105]
  %f = scrimp.collective_broadcast %x root 1 world 3 : tensor<6xf32>
  %first = scrimp.wait %f : tensor<6xf32>
  // CHECK-NEXT: rank 0: [0, 1]
  // CHECK-NEXT: rank 1: [102, 103]
  // CHECK-NEXT: rank 2: [204, 205]
  %shard = scrimp.shard %x, %rank world 3 : tensor<6xf32> -> tensor<2xf32>
  // CHECK-NEXT: {{^}}3
  %g = scrimp.all_reduce sum, %rank world 3 : tensor<i64>
  %ranks = scrimp.wait %g : tensor<i64>
  // Whether any rank has it.
  // CHECK-NEXT: {{^}}1
  %two = scrimp.constant dense<2> : tensor<i64>
  %isLast = scrimp.compare eq, %rank, %two : tensor<i64> -> tensor<i1>
  %h = scrimp.all_reduce max, %isLast world 3 : tensor<i1>
  %any = scrimp.wait %h : tensor<i1>
  return %sum, %again, %most, %part, %whole, %first, %shard, %ranks, %any : tensor<6xf32>, tensor<6xf32>,
      tensor<6xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<6xf32>, tensor<2xf32>, tensor<i64>, tensor<i1>
}
