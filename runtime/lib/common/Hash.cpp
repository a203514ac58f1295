// XXH64, as its specification describes it.
#include "scrimp/runtime/Hash.h"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace scrimp::runtime {

static constexpr uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9,
                          prime4 = 0x85EBCA77C2B2AE63, prime5 = 0x27D4EB2F165667C5;

static uint64_t load64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, 8);
  return value;
}

static uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }

static void consume(uint64_t *lanes, const unsigned char *block) {
  for (int i = 0; i < 4; ++i)
    lanes[i] = mix(lanes[i], load64(block + 8 * i));
}

Hash64::Hash64() : lanes{prime1 + prime2, prime2, 0, 0 - prime1} {}

void Hash64::update(const void *data, uint64_t bytes) {
  if (!bytes)
    return;
  const auto *at = static_cast<const unsigned char *>(data);
  uint64_t held = total % 32;
  total += bytes;
  if (held) {
    uint64_t part = std::min(bytes, 32 - held);
    memcpy(pending + held, at, part);
    at += part;
    bytes -= part;
    if (held + part < 32)
      return;
    consume(lanes, pending);
  }
  for (; bytes >= 32; at += 32, bytes -= 32)
    consume(lanes, at);
  if (bytes)
    memcpy(pending, at, bytes);
}

uint64_t Hash64::digest() const {
  uint64_t hash = prime5;
  if (total >= 32) {
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = (hash ^ mix(0, lane)) * prime1 + prime4;
  }
  hash += total;
  const unsigned char *at = pending;
  uint64_t left = total % 32;
  for (; left >= 8; at += 8, left -= 8)
    hash = std::rotl(hash ^ mix(0, load64(at)), 27) * prime1 + prime4;
  if (left >= 4) {
    uint32_t word;
    memcpy(&word, at, 4);
    hash = std::rotl(hash ^ word * prime1, 23) * prime2 + prime3;
    at += 4, left -= 4;
  }
  for (; left > 0; ++at, --left)
    hash = std::rotl(hash ^ *at * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

std::string hashText(uint64_t hash) {
  char text[17];
  snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
  return text;
}

} // namespace scrimp::runtime
