#include "Tokens.h"
#include <algorithm>

namespace scrimp::runtime {

namespace {

/// The data files of github.com/karpathy/llm.c: 256 numbers of 4 bytes (magic, version, tokens, zeros), then the
/// tokens.
struct LlmcFormat {
  int32_t magic;
  int tokenBytes; // 0: another of llm.c's files
  const char *what;
};

constexpr LlmcFormat llmcFormats[] = {{20240520, 2, "tokens"},
                                      {20240801, 4, "tokens"},
                                      {20240522, 0, "a multiple-choice test"},
                                      {20240326, 0, "a model"}};
constexpr uint64_t llmcHeaderBytes = 1024;

} // namespace

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Whether tokens of 2 bytes are small ones of 4: every second is 0, and the others are not.
static Result<bool> looksWider(const File &file) {
  uint16_t tokens[4096];
  uint64_t count = std::min<uint64_t>(file.bytes(), sizeof(tokens)) / 4 * 2;
  if (Status status = file.read(0, tokens, count * 2); status.failed())
    return status;
  bool low = false, high = false;
  for (uint64_t i = 0; i < count; ++i)
    (i % 2 ? high : low) |= tokens[i] != 0;
  return count >= 64 && low && !high;
}

Result<StoredTensor> openTokens(const File &file, const std::string &path, const program::Input *input, int tokenBytes,
                                const char *flag) {
  const char *name = path.c_str();
  auto tensorOf = [](int bytes, uint64_t offset, int64_t tokens) {
    return StoredTensor{bytes == 4 ? FileType::u32 : FileType::u16, {tokens}, offset};
  };
  int32_t header[3] = {};
  if (file.bytes() >= llmcHeaderBytes)
    if (Status status = file.read(0, header, sizeof(header)); status.failed())
      return status;
  for (const LlmcFormat &format : llmcFormats) {
    if (header[0] != format.magic)
      continue;
    if (!format.tokenBytes)
      return Status::error("%s: '%s' is a file of llm.c that holds %s, not tokens", flag, name, format.what);
    if (tokenBytes && tokenBytes != format.tokenBytes)
      return Status::error(
          "%s: --token-bytes is %d, but '%s' is a file of llm.c with tokens of %d bytes; leave the flag "
          "out",
          flag, tokenBytes, name, format.tokenBytes);
    uint64_t needed = llmcHeaderBytes + static_cast<uint64_t>(std::max(header[2], 0)) * format.tokenBytes;
    if (header[2] < 0 || file.bytes() != needed)
      return Status::error(
          "%s: '%s' is a file of llm.c whose header promises %d tokens, which makes %llu bytes, but it "
          "has %llu; it is damaged",
          flag, name, header[2], (unsigned long long)needed, (unsigned long long)file.bytes());
    return tensorOf(format.tokenBytes, llmcHeaderBytes, header[2]);
  }

  int bytes = endsWith(path, ".u32.bin") ? 4 : tokenBytes ? tokenBytes : 2;
  if (bytes == 2 && !tokenBytes) {
    constexpr int64_t most = 1 << 16;
    if (input->valid_end() > most)
      return Status::error(
          "%s: input '%s' takes values up to %lld, more than tokens of 2 bytes hold; say what '%s' has "
          "by --token-bytes 4 or --token-bytes 2",
          flag, input->name()->c_str(), (long long)input->valid_end() - 1, name);
    Result<bool> wider = looksWider(file);
    if (wider.failed())
      return wider.status();
    if (*wider)
      return Status::error(
          "%s: every second token of '%s' would be 0, as in a file of 4-byte tokens; say which it is by "
          "--token-bytes 4 or --token-bytes 2",
          flag, name);
  }
  if (file.bytes() % static_cast<uint64_t>(bytes))
    return Status::error("%s: '%s' has %llu bytes, which is no whole number of %d-byte tokens; see --token-bytes", flag,
                         name, (unsigned long long)file.bytes(), bytes);
  return tensorOf(bytes, 0, static_cast<int64_t>(file.bytes()) / bytes);
}

} // namespace scrimp::runtime
