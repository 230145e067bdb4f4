// Training and validation data: one stream of tokens, held in host memory as it is stored in the files.
//
// In text files each byte is a token, and a separator (token 0) precedes every file. Token files are raw little-endian
// uint16 or uint32 without a header, and nothing separates them. Files come in the order of the patterns, those of one
// pattern sorted by name, and no file twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "runtime/data/masking.h"

namespace l2l::runtime {

enum class TokenFormat : std::uint8_t { text, tokens, tokens32 };

std::uint64_t token_bytes(TokenFormat format);

// "text", "tokens" or "tokens32". Throws BadInput.
TokenFormat parse_token_format(std::string_view name);

struct DataFile {
  std::filesystem::path path;
  Bytes bytes = 0;
  std::filesystem::path text = {};  // the file that these tokens were made from; empty: they are the user's own

  const std::filesystem::path& name() const { return text.empty() ? path : text; }  // for messages
};

// The files of a stream, with their sizes; nothing is read yet.
struct DataFiles {
  std::string key;  // key of the config, for messages: "data.train"
  TokenFormat format = TokenFormat::text;
  std::vector<DataFile> files;

  std::uint64_t tokens() const;  // separators included
  Bytes bytes() const;           // memory that a Dataset of these files allocates
};

// Expands globs. Throws BadInput, naming key and file, when a pattern matches nothing, a file is not regular or not
// readable, a token file has no whole number of tokens, or there is no file at all.
DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key);

struct DatasetSettings {
  std::int64_t sequence = 0;    // tokens of a sample
  std::int64_t vocabulary = 0;  // tokens lie below it
  std::uint64_t seed = 0;       // of the order of samples, and of masks
  Masking masking{};
};

// Immutable. A sample is a pure function of seed and position (law 5). Sampling allocates nothing.
class Dataset {
 public:
  // Reads all files. Throws BadInput when the stream has fewer than two tokens, or, naming file and offset, when a
  // token is not below the vocabulary.
  Dataset(const DataFiles& files, const DatasetSettings& settings);

  std::uint64_t tokens() const { return tokens_; }
  Bytes bytes() const;  // of the stream in memory
  // XXH64 of the whole stream, to tell whether the data have changed since a checkpoint was written.
  std::uint64_t hash() const;

  // Throws BadInput, naming the files, what they have and what is needed, when the stream is shorter than one window of
  // sequence + 1 tokens.
  void require_training_data() const;

  // Windows per epoch. Each epoch draws a phase in [0, sequence), cuts the stream from there into windows of
  // sequence + 1 tokens that begin `sequence` tokens apart, and visits each window once in random order. The number is
  // the same for every phase, so an epoch may leave out up to one window.
  std::uint64_t samples_per_epoch() const { return per_epoch_; }
  // Sample number `position` of the endless training stream. Both spans are [sequence]; targets of -1 are not
  // predicted. With masking, each epoch draws new masks.
  void sample(std::uint64_t position, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;

  // Windows of the validation data, which together predict every token but the first exactly once.
  std::uint64_t windows() const { return (predicted() + settings_.sequence - 1) / settings_.sequence; }
  std::uint64_t predicted() const { return tokens_ - 1; }
  // Both spans are [sequence]. Beyond the end of the stream tokens are 0 and targets -1. With masking, a window
  // predicts its masked tokens, the same ones in every call, and the last window begins early enough to be full.
  void validation_window(std::uint64_t window, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;

 private:
  struct Settings {
    std::uint64_t sequence, vocabulary, seed;
    Masking masking;
  };

  void read(const DataFiles& files);
  void check_tokens(const DataFile& file, std::uint64_t begin, std::uint64_t end) const;
  std::int32_t token(std::uint64_t index) const;
  void masked_window(std::uint64_t window, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;
  std::uint64_t phase(std::uint64_t epoch) const;
  // Copies tokens from `begin` on, up to the end of the stream; returns how many.
  std::size_t copy(std::uint64_t begin, std::span<std::int32_t> destination) const;

  Settings settings_;
  TokenFormat format_;
  std::string description_;  // names the files in messages
  std::uint64_t tokens_;
  std::uint64_t per_epoch_;
  std::unique_ptr<std::byte[]> storage_;
};

}  // namespace l2l::runtime
