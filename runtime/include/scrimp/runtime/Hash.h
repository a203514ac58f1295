// XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): the checksum of checkpoint files.
#ifndef SCRIMP_RUNTIME_HASH_H
#define SCRIMP_RUNTIME_HASH_H

#include <cstdint>
#include <string>
#include <string_view>

namespace scrimp::runtime {

/// XXH64 with seed 0, fed piece by piece.
class Hash64 {
public:
  Hash64();
  void update(const void *data, uint64_t bytes);
  uint64_t digest() const;

private:
  uint64_t lanes[4];
  unsigned char pending[32];
  uint64_t total = 0;
};

/// Sixteen hexadecimal digits.
std::string hashText(uint64_t hash);

} // namespace scrimp::runtime

#endif
