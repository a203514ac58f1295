// RUN: scrimp-opt --scrimp-derive-eval -verify-diagnostics -split-input-file %s

// expected-error @below {{no function @main, which scrimp-derive-eval starts from}}
module {
  func.func @other() { return }
}

// -----

func.func @main() { return }
// expected-error @below {{@eval exists already; it is derived from @main by scrimp-derive-eval}}
func.func @eval() { return }
