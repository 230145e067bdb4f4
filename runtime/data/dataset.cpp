#include "runtime/data/dataset.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/checked.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "runtime/data/permutation.h"

namespace l2l::runtime {

static_assert(std::endian::native == std::endian::little, "token files are used as they are stored");

namespace {

constexpr char kSeparator = 0;

void read_file(const DataFile& file, std::span<std::byte> destination) {
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream) throw BadInput(file.path.string() + ": cannot be opened: " + std::strerror(errno));
  stream.read(reinterpret_cast<char*>(destination.data()), static_cast<std::streamsize>(destination.size()));
  if (stream.gcount() != static_cast<std::streamsize>(destination.size()) || stream.peek() != EOF) {
    throw BadInput(file.path.string() + ": changed while it was read: had " + std::to_string(file.bytes) + " bytes");
  }
}

std::string describe(const DataFiles& data) {
  std::string names = data.files.front().name().string();
  if (data.files.size() > 1) names += " and " + std::to_string(data.files.size() - 1) + " more";
  return data.key + " (" + names + ")";
}

}  // namespace

TokenFormat parse_token_format(std::string_view name) {
  if (name == "text") return TokenFormat::text;
  if (name == "tokens") return TokenFormat::tokens;
  if (name == "tokens32") return TokenFormat::tokens32;
  throw BadInput("data.format: \"" + std::string(name) +
                 "\" is not supported; accepted: \"text\", \"tokens\", \"tokens32\"");
}

std::uint64_t token_bytes(TokenFormat format) {
  return format == TokenFormat::text ? 1 : format == TokenFormat::tokens ? 2 : 4;
}

std::uint64_t DataFiles::tokens() const {
  std::uint64_t tokens = 0;
  for (const DataFile& file : files) {
    const std::uint64_t own =
        format == TokenFormat::text ? checked_add(file.bytes, 1, key) : file.bytes / token_bytes(format);
    tokens = checked_add(tokens, own, key);
  }
  return tokens;
}

Bytes DataFiles::bytes() const { return checked_multiply(tokens(), token_bytes(format), key); }

Dataset::Dataset(const DataFiles& files, const DatasetSettings& settings)
    : settings_{static_cast<std::uint64_t>(settings.sequence), static_cast<std::uint64_t>(settings.vocabulary),
                settings.seed, settings.masking},
      format_(files.format),
      description_(describe(files)),
      tokens_(files.tokens()) {
  if (settings.sequence < 1) throw BadInput("model.sequence = " + std::to_string(settings.sequence) + ": at least 1");
  if (tokens_ < 2) throw BadInput(description_ + ": " + std::to_string(tokens_) + " tokens; at least 2 are needed");
  const std::uint64_t sequence = settings_.sequence;
  per_epoch_ = tokens_ >= 2 * sequence ? (tokens_ - sequence) / sequence : 1;
  storage_ = std::make_unique_for_overwrite<std::byte[]>(files.bytes());
  read(files);
}

Bytes Dataset::bytes() const { return tokens_ * token_bytes(format_); }

std::uint64_t Dataset::hash() const {
  Hash64 hash;
  hash.update({storage_.get(), bytes()});
  return hash.value();
}

void Dataset::read(const DataFiles& files) {
  std::uint64_t next = 0;  // token
  for (const DataFile& file : files.files) {
    if (format_ == TokenFormat::text) storage_[next++] = std::byte{kSeparator};
    read_file(file, {storage_.get() + next * token_bytes(format_), file.bytes});
    const std::uint64_t end = next + file.bytes / token_bytes(format_);
    check_tokens(file, next, end);
    next = end;
  }
}

void Dataset::check_tokens(const DataFile& file, std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t possible = std::uint64_t{1} << (8 * token_bytes(format_));
  if (settings_.vocabulary >= possible) return;
  for (std::uint64_t i = begin; i < end; ++i) {
    const auto value = static_cast<std::uint64_t>(static_cast<std::uint32_t>(token(i)));
    if (value < settings_.vocabulary) continue;
    throw BadInput(file.name().string() + ": token " + std::to_string(value) + " at byte " +
                   std::to_string((i - begin) * token_bytes(format_)) +
                   " is not below model.vocabulary = " + std::to_string(settings_.vocabulary));
  }
}

std::int32_t Dataset::token(std::uint64_t index) const {
  if (format_ == TokenFormat::text) return std::to_integer<std::int32_t>(storage_[index]);
  std::uint32_t value = 0;
  const std::uint64_t bytes = token_bytes(format_);
  std::memcpy(&value, storage_.get() + bytes * index, bytes);
  return static_cast<std::int32_t>(value);
}

void Dataset::require_training_data() const {
  const std::uint64_t need = settings_.sequence + 1;
  if (tokens_ >= need) return;
  throw BadInput(description_ + ": " + std::to_string(tokens_) +
                 " tokens, but model.sequence = " + std::to_string(settings_.sequence) + " needs at least " +
                 std::to_string(need) + "; give more data or lower model.sequence");
}

std::uint64_t Dataset::phase(std::uint64_t epoch) const {
  // Less than a sequence where the stream is short: the last window must end within it.
  const std::uint64_t room = std::min(settings_.sequence, tokens_ - per_epoch_ * settings_.sequence);
  const PhiloxBlock block = philox(data_key(settings_.seed, epoch, DataDraw::phase), 0);
  const std::uint64_t word = (static_cast<std::uint64_t>(block[1]) << 32) | block[0];
  return word % room;
}

std::size_t Dataset::copy(std::uint64_t begin, std::span<std::int32_t> destination) const {
  const std::uint64_t left = begin < tokens_ ? tokens_ - begin : 0;
  const std::size_t count = std::min<std::uint64_t>(left, destination.size());
  for (std::size_t i = 0; i < count; ++i) destination[i] = token(begin + i);
  return count;
}

void Dataset::sample(std::uint64_t position, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const {
  const std::uint64_t epoch = position / per_epoch_;
  const std::uint64_t window = permute(position % per_epoch_, per_epoch_, settings_.seed, epoch);
  const std::uint64_t begin = phase(epoch) + window * settings_.sequence;
  copy(begin, tokens);
  if (settings_.masking.share > 0) {
    mask_tokens(settings_.masking, data_key(settings_.seed, position, DataDraw::mask), tokens, targets);
  } else {
    copy(begin + 1, targets);
  }
}

void Dataset::validation_window(std::uint64_t window, std::span<std::int32_t> tokens,
                                std::span<std::int32_t> targets) const {
  if (settings_.masking.share > 0) return masked_window(window, tokens, targets);
  const std::uint64_t begin = window * settings_.sequence;
  const std::size_t predicted = copy(begin + 1, targets);
  std::fill(targets.begin() + predicted, targets.end(), -1);
  copy(begin, tokens.first(predicted));
  std::fill(tokens.begin() + predicted, tokens.end(), 0);
}

void Dataset::masked_window(std::uint64_t window, std::span<std::int32_t> tokens,
                            std::span<std::int32_t> targets) const {
  const std::uint64_t last = tokens_ > settings_.sequence ? tokens_ - settings_.sequence : 0;
  const std::uint64_t begin = window < windows() ? std::min(window * settings_.sequence, last) : tokens_;
  const std::size_t count = copy(begin, tokens);
  std::fill(tokens.begin() + count, tokens.end(), 0);
  std::fill(targets.begin() + count, targets.end(), -1);
  if (count == 0) return;
  mask_tokens(settings_.masking, data_key(settings_.seed, window, DataDraw::validation_mask), tokens.first(count),
              targets.first(count));
}

}  // namespace l2l::runtime
