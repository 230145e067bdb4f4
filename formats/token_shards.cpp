#include "formats/token_shards.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/checked.h"
#include "core/files.h"
#include "formats/npy_header.h"
#include "l2l/errors.h"

namespace l2l::formats {

static_assert(std::endian::native == std::endian::little, "numbers are read as they are stored");

namespace {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9), kNpyMagic("\x93NUMPY", 6), kParquetMagic("PAR1", 4);
constexpr std::int32_t kLlmCMagic16 = 20240520, kLlmCMagic32 = 20240801;

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& reason) {
  throw CorruptFile(file.string(), reason);
}

template <typename Number>
Number number_at(const InputFile& file, Bytes offset) {
  Number number{};
  file.read(offset, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

template <typename Number>
std::vector<Number> numbers_at(const InputFile& file, Bytes offset, std::uint64_t count) {
  std::vector<Number> numbers(count);
  file.read(offset, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

std::string first_bytes(const InputFile& file, std::size_t count) {
  std::string bytes(std::min<Bytes>(count, file.bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::filesystem::path index_of(std::filesystem::path file) { return file.replace_extension(".idx"); }

// A header of 256 int32: magic, version, tokens. Ids are uint16 (magic 20240520, version 1) or uint32 (20240801, 7).
TokenShard read_llm_c(const std::filesystem::path& path) {
  constexpr Bytes kHeader = 1024;
  const InputFile file(path);
  if (file.bytes() < kHeader) damaged(path, "llm.c: the header of 1024 bytes is cut short");
  const auto magic = number_at<std::int32_t>(file, 0), version = number_at<std::int32_t>(file, 4);
  const auto tokens = number_at<std::int32_t>(file, 8);
  const bool wide = magic == kLlmCMagic32;
  if (version != (wide ? 7 : 1)) {
    damaged(path,
            "llm.c: version " + std::to_string(version) + " is not known; " + std::to_string(wide ? 7 : 1) + " is");
  }
  if (tokens < 0) damaged(path, "llm.c: the header counts " + std::to_string(tokens) + " tokens");
  TokenShard shard{path, kHeader, wide ? 4 : 2, static_cast<std::uint64_t>(tokens), {}};
  const Bytes expected = kHeader + shard.tokens * static_cast<Bytes>(shard.width);
  if (file.bytes() != expected) {
    damaged(path, "llm.c: the header counts " + std::to_string(tokens) + " tokens, which make " +
                      std::to_string(expected) + " bytes; the file has " + std::to_string(file.bytes()));
  }
  return shard;
}

int megatron_width(const std::filesystem::path& path, std::uint8_t code) {
  if (code == 8) return 2;  // uint16
  if (code == 4) return 4;  // int32
  damaged(path, "Megatron: elements of type " + std::to_string(code) + "; token ids are uint16 (8) or int32 (4)");
}

// Index: magic, u64 version, u8 type, u64 sequences, u64 document boundaries; i32 lengths and i64 offsets (bytes) of
// sequences, i64 document boundaries (sequences, beginning with 0).
TokenShard read_megatron(const std::filesystem::path& path) {
  const InputFile ids(path);
  const std::filesystem::path index_path = index_of(path);
  const InputFile index(index_path);
  constexpr Bytes kHeader = 34;
  if (index.bytes() < kHeader) damaged(index_path, "Megatron: the header of 34 bytes is cut short");
  if (const auto version = number_at<std::uint64_t>(index, 9); version != 1) {
    damaged(index_path, "Megatron: version " + std::to_string(version) + " is not known; 1 is");
  }
  TokenShard shard{path, 0, megatron_width(index_path, number_at<std::uint8_t>(index, 17)), 0, {}};
  const auto sequences = number_at<std::uint64_t>(index, 18), boundaries = number_at<std::uint64_t>(index, 26);
  const Bytes expected =
      checked_add(checked_add(kHeader, checked_multiply(sequences, 12, index_path.string()), index_path.string()),
                  checked_multiply(boundaries, 8, index_path.string()), index_path.string());
  if (index.bytes() != expected) {
    damaged(index_path, "Megatron: the header counts " + std::to_string(sequences) + " sequences and " +
                            std::to_string(boundaries) + " document boundaries, which make " +
                            std::to_string(expected) + " bytes; the file has " + std::to_string(index.bytes()));
  }
  const auto lengths = numbers_at<std::int32_t>(index, kHeader, sequences);
  const auto offsets = numbers_at<std::int64_t>(index, kHeader + 4 * sequences, sequences);
  std::vector<std::uint64_t> ends{0};  // of sequences, in tokens
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const std::string where = "Megatron: sequence " + std::to_string(i);
    if (lengths[i] < 0) damaged(index_path, where + " has " + std::to_string(lengths[i]) + " tokens");
    if (static_cast<std::uint64_t>(offsets[i]) != ends.back() * static_cast<std::uint64_t>(shard.width)) {
      damaged(index_path, where + " begins at byte " + std::to_string(offsets[i]) + ", but the one before it ends at " +
                              std::to_string(ends.back() * static_cast<std::uint64_t>(shard.width)));
    }
    ends.push_back(ends.back() + static_cast<std::uint64_t>(lengths[i]));
  }
  shard.tokens = ends.back();
  if (ids.bytes() != shard.tokens * static_cast<Bytes>(shard.width)) {
    damaged(path, "Megatron: its index counts " + std::to_string(shard.tokens) + " tokens, which make " +
                      std::to_string(shard.tokens * static_cast<Bytes>(shard.width)) + " bytes; the file has " +
                      std::to_string(ids.bytes()));
  }
  std::int64_t before = 0;
  for (const std::int64_t boundary : numbers_at<std::int64_t>(index, kHeader + 12 * sequences, boundaries)) {
    if (boundary < before || static_cast<std::uint64_t>(boundary) > sequences) {
      damaged(index_path, "Megatron: document boundary " + std::to_string(boundary) + " does not lie between " +
                              std::to_string(before) + " and the " + std::to_string(sequences) + " sequences");
    }
    if (boundary > before) shard.document_ends.push_back(ends[static_cast<std::size_t>(boundary)]);
    before = boundary;
  }
  if (shard.document_ends.empty() || shard.document_ends.back() != shard.tokens) {
    damaged(index_path, "Megatron: the last document does not end with the last sequence");
  }
  return shard;
}

// One dimension: a stream of ids; two: a document in each row.
TokenShard read_npy(const std::filesystem::path& path) {
  const NpyHeader header = read_npy_header(InputFile(path));
  const std::string& type = header.type;
  if (type != "<u2" && type != "<u4" && type != "<i4") {
    damaged(path, "npy: elements of type " + type + "; token ids are uint16 (<u2), uint32 (<u4) or int32 (<i4)");
  }
  if (header.fortran_order) damaged(path, "npy: is in Fortran's order; write it in C's");
  const std::vector<std::uint64_t>& shape = header.shape;
  if (shape.empty() || shape.size() > 2)
    damaged(path, "npy: has " + std::to_string(shape.size()) + " dimensions, not 1 or 2");
  TokenShard shard{path, header.begin, type == "<u2" ? 2 : 4, 1, {}};
  for (const std::uint64_t size : shape) shard.tokens *= size;
  for (std::uint64_t row = 1; shape.size() == 2 && shape[1] > 0 && row <= shape[0]; ++row) {
    shard.document_ends.push_back(row * shape[1]);
  }
  return shard;
}

}  // namespace

std::optional<ShardKind> shard_kind(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::string first = first_bytes(file, 12);
  if (first.starts_with(kNpyMagic)) return ShardKind::npy;
  if (first.starts_with(kParquetMagic)) {
    throw BadInput(path.string() +
                   ": is Parquet, which is not read: convert it, for example by python3 -c \"import "
                   "pandas; pandas.read_parquet('" +
                   path.filename().string() + "').to_json('data.jsonl', orient='records', lines=True)\"");
  }
  if (first.size() >= 4) {
    std::int32_t magic = 0;
    std::memcpy(&magic, first.data(), sizeof magic);
    if (magic == kLlmCMagic16 || magic == kLlmCMagic32) return ShardKind::llm_c;
  }
  const std::filesystem::path index = index_of(path);
  if (path.extension() != ".bin" || !is_there(index)) return std::nullopt;
  if (first_bytes(InputFile(index), kMegatronMagic.size()) != kMegatronMagic) return std::nullopt;
  return ShardKind::megatron;
}

TokenShard read_shard(ShardKind kind, const std::filesystem::path& file) {
  if (kind == ShardKind::llm_c) return read_llm_c(file);
  return kind == ShardKind::megatron ? read_megatron(file) : read_npy(file);
}

}  // namespace l2l::formats
