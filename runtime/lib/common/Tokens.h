// Files of raw tokens: how wide a token is and where the first one lies.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_TOKENS_H
#define SCRIMP_RUNTIME_LIB_COMMON_TOKENS_H

#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/TensorFile.h"

namespace scrimp::runtime {

/// What `file`, called `path` by the user, holds for `input`: a tensor of rank 1. Either nothing but little-endian
/// tokens of `tokenBytes` bytes (2 or 4; 0: what the name, or else --token-bytes, says is 2), or llm.c's format, whose
/// header says. Refuses what would train on halves of tokens. Messages begin with `flag`.
Result<StoredTensor> openTokens(const File &file, const std::string &path, const program::Input *input, int tokenBytes,
                                const char *flag);

} // namespace scrimp::runtime

#endif
