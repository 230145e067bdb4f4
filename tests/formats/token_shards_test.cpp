// Shards written by the letter of the formats' sources: llm.c's dev/data/data_common.py, Megatron-LM's
// indexed_dataset.py, NumPy's format description.
#include "formats/token_shards.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "l2l/errors.h"
#include "tests/support/temporary_folder.h"

namespace l2l::formats {
namespace {

class Stored {
 public:
  template <typename Number>
  Stored& add(Number number) {
    const auto* begin = reinterpret_cast<const char*>(&number);
    bytes_.append(begin, sizeof number);
    return *this;
  }
  Stored& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Stored& zeros(std::size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  const std::string& get() const { return bytes_; }

 private:
  std::string bytes_;
};

class TokenShards : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const Stored& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes.get();
    return folder_ / name;
  }
  static std::string refusal(ShardKind kind, const std::filesystem::path& file) {
    try {
      read_shard(kind, file);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(none)";
  }
  static Stored llm_c(std::int32_t magic, std::int32_t version, std::int32_t tokens, std::size_t bytes) {
    return Stored().add(magic).add(version).add(tokens).zeros(1024 - 12).zeros(bytes);
  }
  // Sequences of 3, 2 and 4 tokens; documents of the first two and of the last.
  struct Megatron {
    std::uint64_t version = 1, sequences = 3, boundaries = 3;
    std::uint8_t type = 8;
    std::vector<std::int32_t> lengths = {3, 2, 4};
    std::vector<std::int64_t> offsets = {0, 6, 10}, documents = {0, 2, 3};
    std::size_t id_bytes = 18;
  };
  std::filesystem::path write(const Megatron& m) const {
    Stored index;
    index.text(std::string_view("MMIDIDX\0\0", 9)).add(m.version).add(m.type).add(m.sequences).add(m.boundaries);
    for (const std::int32_t length : m.lengths) index.add(length);
    for (const std::int64_t offset : m.offsets) index.add(offset);
    for (const std::int64_t document : m.documents) index.add(document);
    write("data.idx", index);
    return write("data.bin", Stored().zeros(m.id_bytes));
  }
  static Stored npy(const std::string& header, std::size_t bytes) {
    return Stored()
        .text(std::string_view("\x93NUMPY\x01\x00", 8))
        .add(static_cast<std::uint16_t>(header.size()))
        .text(header)
        .zeros(bytes);
  }

  ::l2l::testing::TemporaryFolder folder_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(TokenShards, LlmC) {
  const auto narrow = write("a.bin", llm_c(20240520, 1, 5, 10)), wide = write("b.bin", llm_c(20240801, 7, 5, 20));
  EXPECT_EQ(shard_kind(narrow), ShardKind::llm_c);
  const TokenShard shard = read_shard(ShardKind::llm_c, wide);
  EXPECT_EQ(std::tuple(shard.begin, shard.width, shard.tokens), std::tuple(1024u, 4, 5u));
  EXPECT_EQ(read_shard(ShardKind::llm_c, narrow).width, 2);
  EXPECT_SAYS(refusal(ShardKind::llm_c, write("c.bin", llm_c(20240520, 2, 5, 10))), "version 2 is not known");
  EXPECT_SAYS(refusal(ShardKind::llm_c, write("d.bin", llm_c(20240520, 1, 6, 10))), "counts 6 tokens, which make 1036");
  EXPECT_SAYS(refusal(ShardKind::llm_c, write("e.bin", llm_c(20240520, 1, -1, 10))), "counts -1 tokens");
  EXPECT_SAYS(refusal(ShardKind::llm_c, write("f.bin", Stored().add(20240520).zeros(100))), "cut short");
}

TEST_F(TokenShards, Megatron) {
  const auto file = write(Megatron{});
  EXPECT_EQ(shard_kind(file), ShardKind::megatron);
  const TokenShard shard = read_shard(ShardKind::megatron, file);
  EXPECT_EQ(std::tuple(shard.begin, shard.width, shard.tokens), std::tuple(0u, 2, 9u));
  EXPECT_EQ(shard.document_ends, (std::vector<std::uint64_t>{5, 9}));
  const auto says = [&](const Megatron& wrong, const char* part) {
    EXPECT_SAYS(refusal(ShardKind::megatron, write(wrong)), part);
  };
  says({.version = 2}, "version 2 is not known");
  says({.type = 7}, "elements of type 7");
  says({.sequences = std::uint64_t{1} << 62}, "does not fit in 64 bits");
  says({.sequences = 4}, "the header counts 4 sequences");
  says({.lengths = {3, -2, 4}}, "sequence 1 has -2 tokens");
  says({.offsets = {0, 4, 10}}, "sequence 1 begins at byte 4");
  says({.id_bytes = 16}, "counts 9 tokens, which make 18 bytes; the file has 16");
  says({.documents = {0, 4, 3}}, "document boundary 4");
  says({.documents = {0, 1, 2}}, "the last document does not end");
}

TEST_F(TokenShards, Npy) {
  const auto file = write("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }\n", 12));
  EXPECT_EQ(shard_kind(file), ShardKind::npy);
  EXPECT_EQ(read_shard(ShardKind::npy, file).tokens, 6u);
  const TokenShard rows = read_shard(
      ShardKind::npy, write("b.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24)));
  EXPECT_EQ(rows.width, 4);
  EXPECT_EQ(rows.document_ends, (std::vector<std::uint64_t>{3, 6}));
  const auto says = [&](const std::string& header, const char* part) {
    EXPECT_SAYS(refusal(ShardKind::npy, write("x.npy", npy(header, 12))), part);
  };
  says("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "elements of type <f4");
  says("{'descr': '<u2', 'fortran_order': True, 'shape': (6,), }", "Fortran's order");
  says("{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }", "stands for 14 bytes; the file has 12");
  says("{'descr': '<u2', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "does not fit in 64 bits");
  says("{'descr': '<u2', 'fortran_order': False, 'shape': (x,), }", "not a tuple of sizes");
  says("{'fortran_order': False, 'shape': (6,), }", "has no 'descr'");
}

TEST_F(TokenShards, OthersAreNone) {
  EXPECT_EQ(shard_kind(write("t.txt", Stored().text("hello"))), std::nullopt);
  EXPECT_EQ(shard_kind(write("u.bin", Stored().zeros(8))), std::nullopt);
  const auto parquet = write("p.parquet", Stored().text("PAR1...."));
  EXPECT_THROW(shard_kind(parquet), BadInput);
}

}  // namespace
}  // namespace l2l::formats
