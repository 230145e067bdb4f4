#include "runtime/data/token_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error_place.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "runtime/data/cache.h"

namespace l2l::runtime {

static_assert(std::endian::native == std::endian::little, "token files are used as they are stored");

namespace {

constexpr std::size_t kMostOpen = 100;  // files of a source; a process may have some thousand
constexpr std::size_t kWindow = 1 << 20;
constexpr char kSeparator = 0;

std::unique_ptr<InputFile> open(const DataFile& file) {
  auto input = std::make_unique<InputFile>(file.path);
  if (input->bytes() != file.begin + file.bytes) {
    throw CorruptFile(file.name().string(),
                      "changed while it was read: had " + std::to_string(file.begin + file.bytes) + " bytes");
  }
  return input;
}

std::int32_t token_at(const std::byte* bytes, std::uint64_t width) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, width);
  return static_cast<std::int32_t>(value);
}

}  // namespace

TokenStore::TokenStore(const DataFiles& files) : format_(files.format), flagged_(files.flagged) {
  const std::uint64_t width = token_bytes(format_);
  for (const DataFile& file : files.files) {
    const std::uint64_t begin = tokens_;
    tokens_ += file.bytes / width + (format_ == TokenFormat::text ? 1 : 0);
    parts_.push_back({file, begin, tokens_, open(file)});
    if (files.files.size() > kMostOpen) parts_.back().open.reset();
  }
}

const TokenStore::Part& TokenStore::part_at(std::uint64_t token) const {
  return *std::partition_point(parts_.begin(), parts_.end(), [&](const Part& part) { return part.end <= token; });
}

// From token number `token` of the part on.
void TokenStore::read(const Part& part, std::uint64_t token, std::span<std::byte> bytes) const {
  if (format_ == TokenFormat::text) {
    if (token == 0 && !bytes.empty()) {
      bytes[0] = std::byte{kSeparator};
      bytes = bytes.subspan(1);
    } else {
      --token;
    }
  }
  const Bytes offset = part.file.begin + token * token_bytes(format_);
  if (part.open) return part.open->read(offset, bytes);
  open(part.file)->read(offset, bytes);
}

void TokenStore::read(std::uint64_t begin, std::span<std::int32_t> tokens) const {
  const std::uint64_t width = token_bytes(format_);
  while (!tokens.empty()) {
    const Part& part = part_at(begin);
    const std::size_t count = std::min<std::uint64_t>(part.end - begin, tokens.size());
    // Into the end of where they will be, so that they can be widened in place from the beginning on.
    const std::span<std::byte> place = std::as_writable_bytes(tokens.first(count));
    const std::span<std::byte> stored = place.last(count * width);
    read(part, begin - part.begin, stored);
    if (width < sizeof(std::int32_t)) {
      for (std::size_t i = 0; i < count; ++i) tokens[i] = token_at(stored.data() + i * width, width);
    }
    begin += count;
    tokens = tokens.subspan(count);
  }
}

std::uint64_t TokenStore::scan(std::int64_t vocabulary) const {
  const std::uint64_t width = token_bytes(format_);
  const std::uint32_t mask = flagged_ ? kTokenOfFlagged : ~std::uint32_t{0};
  const bool may_exceed = static_cast<std::uint64_t>(vocabulary) < std::uint64_t{1} << (8 * width);
  std::vector<std::byte> window(kWindow);
  Hash64 hash;
  for (const Part& part : parts_) {
    for (std::uint64_t token = 0; token < part.end - part.begin;) {
      const std::uint64_t count = std::min<std::uint64_t>(kWindow / width, part.end - part.begin - token);
      const std::span<std::byte> bytes = std::span(window).first(count * width);
      read(part, token, bytes);
      hash.update(bytes);
      for (std::uint64_t i = 0; may_exceed && i < count; ++i) {
        const std::uint32_t value = static_cast<std::uint32_t>(token_at(bytes.data() + i * width, width)) & mask;
        if (value < static_cast<std::uint64_t>(vocabulary)) continue;
        const auto as_signed = static_cast<std::int32_t>(value);  // such as -100, which others ignore
        const std::string sign = as_signed < 0 ? " (" + std::to_string(as_signed) + " as a signed number)" : "";
        if (!part.file.text.empty()) {
          throw BadInput(
              part.file.text.string() + ": data.tokenizer gives it the token " + std::to_string(value) +
                  ", which is not below model.vocabulary = " + std::to_string(vocabulary) +
                  ": set that to the number of the tokenizer's tokens, or take the tokenizer that belongs to the model",
              of_file(part.file.text.string(), "data.tokenizer"));
        }
        throw BadInput(part.file.name().string() + ": token " + std::to_string(value) + sign + " at byte " +
                           std::to_string(part.file.begin + (token + i) * width) + " is not below model.vocabulary = " +
                           std::to_string(vocabulary) + " (if the file is text, set data.format and data.tokenizer)",
                       {.file = part.file.name().string(),
                        .field = "byte " + std::to_string(part.file.begin + (token + i) * width),
                        .key = "model.vocabulary"});
      }
      token += count;
    }
  }
  return hash.value();
}

std::uint64_t TokenStore::check(std::int64_t vocabulary) const {
  std::string facts = "tokens " + std::to_string(static_cast<int>(format_)) + " " + std::to_string(vocabulary);
  for (const Part& part : parts_) {
    facts += "\n" + file_facts(part.file.path) + " " + std::to_string(part.file.begin) + " " +
             std::to_string(part.file.bytes);
  }
  return remembered_hash(facts, [&] { return scan(vocabulary); });
}

}  // namespace l2l::runtime
