// Training and validation data: one stream of tokens, held in host memory as the file has it.
//
// Text files are bytes, one token each; every file (a document) is preceded by a separator, token 0. Token files are
// raw little-endian uint16 without a header; nothing is put between them. Files follow each other in the order of the
// patterns, sorted by name within one pattern, each file once.
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

enum class TokenFormat : std::uint8_t { text, tokens };

// "text" or "tokens". Throws BadInput.
TokenFormat parse_token_format(std::string_view name);

struct DataFile {
  std::filesystem::path path;
  Bytes bytes = 0;
};

// The files of a stream, found and measured but not read.
struct DataFiles {
  std::string key;  // of the config, for messages: "data.train"
  TokenFormat format = TokenFormat::text;
  std::vector<DataFile> files;

  std::uint64_t tokens() const;  // separators included
  Bytes bytes() const;           // that a Dataset of them holds in memory; exact
};

// Expands globs. Throws BadInput naming a pattern that matches nothing, what is not a readable regular file, a token
// file of an odd number of bytes, and an empty set of files.
DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key);

struct DatasetSettings {
  std::int64_t sequence = 0;
  std::int64_t vocabulary = 0;
  std::uint64_t seed = 0;
  Masking masking{};
};

// Immutable. Sampling keeps no state: a sample is a pure function of seed and position (law 5), and allocates nothing.
class Dataset {
 public:
  // Throws BadInput when the stream has fewer than two tokens or a token is not below the vocabulary, naming file and
  // offset.
  Dataset(const DataFiles& files, const DatasetSettings& settings);

  std::uint64_t tokens() const { return tokens_; }
  Bytes bytes() const;  // held in memory: DataFiles::bytes()
  // XXH64 of the stream, which tells whether it is the same as another time; reads all of it.
  std::uint64_t hash() const;

  // Throws BadInput (files, have, need) unless the stream holds at least one window of sequence + 1 tokens.
  void require_training_data() const;

  // Windows of one epoch. An epoch cuts the stream, from a phase in [0, sequence) of its own, into windows of
  // sequence + 1 tokens whose first tokens lie `sequence` apart, and visits each once, in an order of its own. The
  // number does not depend on the phase: up to one window less than the stream holds.
  std::uint64_t samples_per_epoch() const { return per_epoch_; }
  // Sample number `position` of the endless training stream; both spans have length `sequence`. With masking, tokens
  // are masked anew in every epoch.
  void sample(std::uint64_t position, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;

  // Validation: windows that together predict every token but the first exactly once.
  std::uint64_t windows() const { return (predicted() + settings_.sequence - 1) / settings_.sequence; }
  std::uint64_t predicted() const { return tokens_ - 1; }
  // Beyond the end of the stream tokens are 0 and targets -1. With masking the windows hold these tokens and predict
  // the masked ones, which are the same every time; the last window begins early enough to be full.
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
  std::uint64_t window_of(std::uint64_t epoch, std::uint64_t index) const;
  // Copies as many of `count` tokens from `begin` as the stream has; returns that number.
  std::size_t copy(std::uint64_t begin, std::span<std::int32_t> destination) const;

  Settings settings_;
  TokenFormat format_;
  std::string description_;  // of the files, for messages
  std::uint64_t tokens_;
  std::uint64_t per_epoch_;
  std::unique_ptr<std::byte[]> storage_;
};

}  // namespace l2l::runtime
