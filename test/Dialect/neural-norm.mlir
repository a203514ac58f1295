// Expected numbers are torch's (float64).
// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - | FileCheck %s

func.func @main() -> (tensor<2x4xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<2x4xf64>, tensor<2xf64>, tensor<2x4xf64>, tensor<4xf64>, tensor<2x2xbf16>, tensor<2xf32>) {
  %x = scrimp.constant dense<[[0.0, 2.5244129544236893, 2.7278922804770449, 0.42336002417960161], [-2.2704074859237844, -2.8767728239894153, -0.83824649459677758, 1.9709597961563672]]> : tensor<2x4xf64>
  %g = scrimp.constant dense<[[1.0, 0.54030230586813977, -0.41614683654714241, -0.98999249660044542], [-0.65364362086361194, 0.28366218546322625, 0.96017028665036597, 0.7539022543433046]]> : tensor<2x4xf64>
  %w = scrimp.constant dense<[1.0, 2.0, -1.0, 0.5]> : tensor<4xf64>
  %b = scrimp.constant dense<[0.1, 0.2, 0.3, 0.4]> : tensor<4xf64>
  // CHECK: {{\[}}[-1.0643732312{{[0-9]*}}, 2.0143574516{{[0-9]*}}, -0.77415536701{{[0-9]*}}, -0.0084804307809{{[0-9]*}}], [-0.57739513883{{[0-9]*}}, -1.8032777056{{[0-9]*}}, 0.21157102310{{[0-9]*}}, 1.1953025073{{[0-9]*}}]]
  // CHECK-NEXT: [1.4189163147{{[0-9]*}}, -1.0036167520{{[0-9]*}}]
  // CHECK-NEXT: [0.82060740239{{[0-9]*}}, 0.53473325999{{[0-9]*}}]
  %y, %mean, %rstd = scrimp.layer_norm %x scale(%w : tensor<4xf64>) bias(%b : tensor<4xf64>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x4xf64> -> tensor<2xf64>
  // CHECK-NEXT: {{\[}}[0.56935028529{{[0-9]*}}, 0.35189249810{{[0-9]*}}, -0.21622614246{{[0-9]*}}, -0.70501664093{{[0-9]*}}], [-0.22477481956{{[0-9]*}}, 0.44498738369{{[0-9]*}}, -0.42852972626{{[0-9]*}}, 0.20831716213{{[0-9]*}}]]
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %g scale(%w : tensor<4xf64>) {axis = 1 : i64} : tensor<2x4xf64>, tensor<2xf64>
  // CHECK-NEXT: [-0.72159821998{{[0-9]*}}, 0.20602369136{{[0-9]*}}, -0.36209948185{{[0-9]*}}, 2.0079458293{{[0-9]*}}]
  // CHECK-NEXT: [0.34635637913{{[0-9]*}}, 0.82396449133{{[0-9]*}}, 0.54402345010{{[0-9]*}}, -0.23609024225{{[0-9]*}}]
  %dw, %db = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<2x4xf64>, tensor<2xf64> -> tensor<4xf64>
  // CHECK-NEXT: {{\[}}[0, 2.6993574646{{[0-9]*}}, -1.4584690625{{[0-9]*}}, 0.11317483135{{[0-9]*}}], [-1.0697481151{{[0-9]*}}, -2.7108986604{{[0-9]*}}, 0.39495668208{{[0-9]*}}, 0.46432865907{{[0-9]*}}]]
  // CHECK-NEXT: [0.53465053328{{[0-9]*}}, 0.47117009690{{[0-9]*}}]
  %r, %scale = scrimp.rms_norm %x scale(%w : tensor<4xf64>) {axis = 1 : i64, epsilon = 1.0e-6 : f64} : tensor<2x4xf64> -> tensor<2xf64>
  // CHECK-NEXT: {{\[}}[0.53465053328{{[0-9]*}}, 0.22535579379{{[0-9]*}}, -0.15830117226{{[0-9]*}}, -0.32374804706{{[0-9]*}}], [-0.22486995924{{[0-9]*}}, 0.37260941137{{[0-9]*}}, -0.42171984527{{[0-9]*}}, 0.10546189454{{[0-9]*}}]]
  %dr = scrimp.rms_norm_grad %x, %scale, %g scale(%w : tensor<4xf64>) {axis = 1 : i64} : tensor<2x4xf64>, tensor<2xf64>
  // CHECK-NEXT: [0.69923403139{{[0-9]*}}, 0.34474481195{{[0-9]*}}, -0.98616295721{{[0-9]*}}, 0.47603237798{{[0-9]*}}]
  %drw = scrimp.rms_norm_parameter_grad %x, %scale, %g {axis = 1 : i64} : tensor<2x4xf64>, tensor<2xf64> -> tensor<4xf64>
  // Without scale and bias, several normalized dimensions, statistics wider than the operand: (1 + 3) / 2 = 2,
  // deviations of 1.
  %narrow = scrimp.constant dense<[[1.0, 3.0], [4.0, 6.0]]> : tensor<2x2xbf16>
  %cube = scrimp.reshape %narrow : tensor<2x2xbf16> -> tensor<2x2x1xbf16>
  // CHECK-NEXT: {{\[}}[-1, 1], [-1, 1]]
  // CHECK-NEXT: [2, 5]
  %n, %m, %s = scrimp.layer_norm %cube {axis = 1 : i64, epsilon = 0.0 : f64} : tensor<2x2x1xbf16> -> tensor<2xf32>
  %flat = scrimp.reshape %n : tensor<2x2x1xbf16> -> tensor<2x2xbf16>
  return %y, %mean, %rstd, %dx, %dw, %db, %r, %scale, %dr, %drw, %flat, %m : tensor<2x4xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<2x4xf64>, tensor<2xf64>, tensor<2x4xf64>, tensor<4xf64>, tensor<2x2xbf16>, tensor<2xf32>
}
