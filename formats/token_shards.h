// Token ids as other projects write them: llm.c (Karpathy, 2024), Megatron-LM's indexed datasets (Shoeybi et al.,
// 2019), NumPy's .npy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/bytes.h"

namespace l2l::formats {

enum class ShardKind : std::uint8_t { llm_c, megatron, npy };

// Ids as raw little-endian integers within a file.
struct TokenShard {
  std::filesystem::path file;
  Bytes begin = 0;  // of the first id
  int width = 2;    // bytes of an id: 2 or 4, without a sign
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> document_ends;  // in tokens; empty: documents are not told apart
};

// By the first bytes of the file, or, of Megatron's, of the .idx beside a .bin. Nothing: it is none of these.
std::optional<ShardKind> shard_kind(const std::filesystem::path& file);

// Reads headers and indices alone. Throws CorruptFile naming file and field when they do not fit each other, the file's
// size or this program.
TokenShard read_shard(ShardKind kind, const std::filesystem::path& file);

}  // namespace l2l::formats
