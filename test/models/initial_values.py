#!/usr/bin/env python3
"""The initial values Scrimp gives to parameters that no file defines, in numpy: the oracle of the compiler's own.

Philox4x32-10, key = seed xor fnv1a64(name) as (low, high) words, counter = (block low, block high, 0, 1) with
block = element index / 4. Kind by name and shape:
  rank <= 1   zeros if the last component of the name contains "bias" or is "running_mean" or "num_batches_tracked",
              else ones
  rank 2      normal, mean 0, deviation 0.02
  rank >= 3   uniform in [-s, s), s = 1 / sqrt(product of shape[1:])
Computed in double, rounded once to float32. Run as a program it tests itself against Random123's known answers.
"""
import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """Ten rounds. counter: four uint32 arrays (or numbers) of one shape; key: two numbers. Returns four uint32 arrays."""
    c = [np.asarray(w, dtype=np.uint64) for w in counter]
    k0, k1 = (int(w) for w in key)
    for _ in range(10):
        product0, product1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(product1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), product1 & MASK,
             (product0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), product0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [w.astype(np.uint32) for w in c]


def fnv1a64(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def _words(name, count, seed):
    """uint32 [blocks, 4], enough blocks for `count` elements."""
    key = seed ^ fnv1a64(name)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(block)
    return np.stack(philox4x32((block & MASK, block >> np.uint64(32), zero, zero + np.uint64(1)),
                               (key & 0xFFFFFFFF, key >> 32)), axis=1)


def uniform(name, shape, low, high, seed=0):
    count = int(np.prod(shape))
    u = (_words(name, count, seed) >> np.uint32(8)).astype(np.float64) * 2.0**-24
    return (low + (high - low) * u).reshape(-1)[:count].reshape(shape).astype(np.float32)


def normal(name, shape, deviation, seed=0):
    """Box-Muller over the word pairs (0, 1) and (2, 3) of each block."""
    count = int(np.prod(shape))
    words = (_words(name, count, seed) >> np.uint32(8)).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((words[:, 0::2] + 1.0) * 2.0**-24))
    angle = 2.0 * np.pi * (words[:, 1::2] * 2.0**-24)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)  # [blocks, pair, cos or sin]
    return (deviation * pairs).reshape(-1)[:count].reshape(shape).astype(np.float32)


def initial_value(name, shape, seed=0):
    """The default initial value of the parameter or buffer `name`, float32."""
    shape = tuple(int(d) for d in shape)
    if len(shape) <= 1:
        last = name.rsplit(".", 1)[-1]
        zero = "bias" in last or last in ("running_mean", "num_batches_tracked")
        return np.zeros(shape, np.float32) if zero else np.ones(shape, np.float32)
    if len(shape) == 2:
        return normal(name, shape, 0.02, seed)
    bound = 1.0 / np.sqrt(float(np.prod(shape[1:])))
    return uniform(name, shape, -bound, bound, seed)


def self_test():
    # Random123's kat_vectors, "philox4x32 10".
    for counter, key, expected in (
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        found = " ".join(f"{int(w):08x}" for w in philox4x32(counter, key))
        assert found == expected, (found, expected)
    assert fnv1a64("") == 0xCBF29CE484222325 and fnv1a64("foobar") == 0x85944171F73967E8
    values = normal("w", (500, 400), 0.02)
    assert abs(values.mean()) < 2e-4 and abs(values.std() / 0.02 - 1) < 0.01
    assert np.array_equal(values.reshape(-1)[:7], normal("w", (7,), 0.02))  # a value depends on its index alone
    values = initial_value("conv.weight", (64, 3, 7, 7))
    assert abs(values).max() <= 1 / np.sqrt(147) and abs(values.mean()) < 2e-3
    assert initial_value("bn.running_var", (3,)).sum() == 3 and initial_value("bn.num_batches_tracked", ()) == 0
    print("initial_values: passed")


if __name__ == "__main__":
    self_test()
