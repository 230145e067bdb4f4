// Headers of shards: the first byte says of which kind, and how long the first file is where there are two. They are
// refused with BadInput, or describe tokens and documents that lie in the file.
#include "formats/token_shards.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  if (size == 0) return 0;
  fuzz::files_in_memory().clear();  // an index of the input before
  const auto kind = static_cast<formats::ShardKind>(data[0] % 3);
  std::size_t ids = size - 1;
  if (kind == formats::ShardKind::megatron) {
    ids = std::min<std::size_t>(data[0] / 3, ids);
    fuzz::write_file("shard.idx", data + 1 + ids, size - 1 - ids);
  }
  const std::filesystem::path file = fuzz::write_file("shard.bin", data + 1, ids);
  try {
    static_cast<void>(formats::shard_kind(file));
    const formats::TokenShard shard = formats::read_shard(kind, file);
    if (shard.begin + shard.tokens * static_cast<std::uint64_t>(shard.width) != ids) __builtin_trap();
    std::uint64_t before = 0;
    for (const std::uint64_t end : shard.document_ends) {
      if (end < before || end > shard.tokens) __builtin_trap();
      before = end;
    }
  } catch (const BadInput&) {
  }
  return 0;
}
