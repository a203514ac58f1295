// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

// expected-error@+1 {{stands outside of a scrimp.cmd.program}}
scrimp.cmd.copy [0 : 64] to [64 : 64]

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  // expected-error@+1 {{range 0, #scrimp.range<64 : 128>, leaves the arena of 128 bytes}}
  scrimp.cmd.input "x" : tensor<32xf32> at 64 batch 0
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 3 : i64} {
  // Three ranks have 3 * 4 = 12 elements of the bucket; the tensor is its last six.
  scrimp.cmd.tensor "w" : tensor<2x3xf32> at 112 "parameter" init "zeros" {aliases = [], reason = "", part_elements = 4 : i64, bucket_offset = 6 : i64}
  // expected-error@+1 {{'v' ends at element 13 of a bucket of which 3 ranks have 4 each}}
  scrimp.cmd.tensor "v" : tensor<2x3xf32> at 112 "parameter" init "zeros" {aliases = [], reason = "", part_elements = 4 : i64, bucket_offset = 7 : i64}
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 3 : i64} {
  // expected-error@+1 {{range 0, #scrimp.range<116 : 16>, leaves the arena of 128 bytes}}
  scrimp.cmd.tensor "w" : tensor<1xf32> at 116 "parameter" init "zeros" {aliases = [], reason = "", part_elements = 4 : i64, bucket_offset = 6 : i64}
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  // expected-error@+1 {{'w' begins at element 1 of a bucket of which ranks have 0}}
  scrimp.cmd.tensor "w" : tensor<1xf32> at 0 "parameter" init "zeros" {aliases = [], reason = "", bucket_offset = 1 : i64}
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.kernel @k 1
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 3 index [0 : 8] {
      // The last of three: 2 * 32 + 64 = 128.
      scrimp.cmd.launch @k units 1 grain 1 [0 : 64 step [32]]
    }
    scrimp.cmd.repeat 4 index [0 : 8] {
      // expected-error@+1 {{range 0, #scrimp.range<0 : 64 step [32]>, leaves the arena of 128 bytes}}
      scrimp.cmd.launch @k units 1 grain 1 [0 : 64 step [32]]
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.kernel @k 1
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 2 index [0 : 8] {
      // expected-error@+1 {{range 0 has 2 strides inside 1 repeats}}
      scrimp.cmd.launch @k units 1 grain 1 [0 : 8 step [8, 8]]
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.kernel @k 2
  scrimp.cmd.graph @train {
    // expected-error@+1 {{kernel @k takes 2 buffers, found 1}}
    scrimp.cmd.launch @k units 1 grain 1 [0 : 8]
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @eval {
    // expected-error@+1 {{there is no kernel @j}}
    scrimp.cmd.launch @j units 1 grain 1 [0 : 8]
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{the number of the iteration takes 8 bytes, found 4}}
    scrimp.cmd.repeat 2 index [0 : 4] {
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 2 index [0 : 8] {
      // expected-error@+1 {{cannot be repeated}}
      scrimp.cmd.output "loss" : f32 at 0
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{the ranges have 8 and 16 bytes}}
    scrimp.cmd.copy [0 : 8] to [64 : 16]
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    scrimp.cmd.conditional [0 : 1] {
      // expected-error@+1 {{cannot depend on a condition; only launches can}}
      scrimp.cmd.copy [0 : 8] to [64 : 8]
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{checks 'weather'; there are 'loss' and 'gradient'}}
    scrimp.cmd.check_finite "weather" "w" : f32 at 0
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{unknown memory space 'cloud'; there are device, host and pinned}}
    scrimp.cmd.copy [0 : 8 in cloud] to [64 : 8]
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 3 : i64} {
  scrimp.cmd.graph @train {
    // The part of rank 2: 2 * 64 + 64 = 192.
    scrimp.cmd.copy [0 : 64 rank 64] to [192 : 64]
    // expected-error@+1 {{range 0, #scrimp.range<128 : 64 rank 64>, leaves the arena of 256 bytes}}
    scrimp.cmd.copy [128 : 64 rank 64] to [0 : 64]
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 2 : i64} {
  scrimp.cmd.graph @train {
    scrimp.cmd.collective "all_gather" : f32 [0 : 64] to [64 : 128] event 0
    scrimp.cmd.wait event 0
    // expected-error@+1 {{reduce_scatter of 128 bytes on 2 ranks does not give 128 bytes}}
    scrimp.cmd.collective "reduce_scatter" : f32 wire bf16 [0 : 128] to [128 : 128] event 0
    scrimp.cmd.wait event 0
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 2 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{the root is rank 2 of 2}}
    scrimp.cmd.collective "broadcast" : f32 root 2 [0 : 64] to [0 : 64] event 0
    scrimp.cmd.wait event 0
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 2 : i64} {
  scrimp.cmd.graph @train {
    scrimp.cmd.collective "all_reduce_sum" : f32 [0 : 64] to [0 : 64] event 0
    scrimp.cmd.collective "all_reduce_max" : f32 [64 : 64] to [64 : 64] event 1
    scrimp.cmd.wait event 0
    // expected-error@+1 {{event 1 has been started and not been waited for}}
    scrimp.cmd.collective "all_reduce_sum" : f32 [0 : 64] to [0 : 64] event 1
    scrimp.cmd.wait event 1
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 2 : i64} {
  scrimp.cmd.graph @train {
    // expected-error@+1 {{nothing waits for event 0}}
    scrimp.cmd.collective "all_reduce_sum" : f32 [0 : 64] to [0 : 64] event 0
    scrimp.cmd.repeat 2 index [64 : 8] {
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 1 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64, world = 2 : i64} {
  scrimp.cmd.graph @train {
    scrimp.cmd.collective "all_reduce_sum" : f32 [0 : 64] to [0 : 64] event 0
    scrimp.cmd.repeat 2 index [64 : 8] {
      // expected-error@+1 {{event 0 has not been started in this list}}
      scrimp.cmd.wait event 0
    }
    scrimp.cmd.wait event 0
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 4 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.input "x" : tensor<4x2xf32> at 64 batch 0
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 2 index [0 : 8] {
      // expected-error@+1 {{there is no streamed input 'x'}}
      scrimp.cmd.fill "x" from 0 samples 2 [64 : 16]
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 4 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.input "x" : tensor<4x2xf32> at 0 batch 0 {streamed}
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 2 index [0 : 8] {
      // expected-error@+1 {{reads 2 times 2 samples from 1 on, of 4}}
      scrimp.cmd.fill "x" from 1 samples 2 [64 : 16]
    }
  }
}

// -----

scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 128 : i64, batch = 4 : i64, eval_drops_partial = false, fingerprint = 0 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 0 : i64, workers = 1 : i64} {
  scrimp.cmd.input "x" : tensor<4x2xf32> at 0 batch 0 {streamed}
  scrimp.cmd.graph @train {
    scrimp.cmd.repeat 2 index [0 : 8] {
      // expected-error@+1 {{2 samples take 16 bytes, found 32}}
      scrimp.cmd.fill "x" from 0 samples 2 [64 : 32]
    }
  }
}
