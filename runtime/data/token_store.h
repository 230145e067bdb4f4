// The tokens of files that lie one behind the other, read by position from where they are. Nothing is mapped: a file
// that becomes shorter is an error and no signal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/files.h"
#include "runtime/data/data_files.h"

namespace l2l::runtime {

// Immutable and thread-safe.
class TokenStore {
 public:
  // Throws CorruptFile when a file cannot be opened or has another size than it had.
  explicit TokenStore(const DataFiles& files);

  std::uint64_t tokens() const { return tokens_; }
  // The tokens from `begin` on, flags included, which must be there. Throws CorruptFile naming the file. Allocates
  // nothing, but for a set of files larger than the number that stay open.
  void read(std::uint64_t begin, std::span<std::int32_t> tokens) const;

  // Reads all tokens once, or what is remembered of files of the same names, sizes and times. Throws BadInput, naming
  // file and offset, when one is not below `vocabulary`. Returns XXH64 of the stream as it is stored.
  std::uint64_t check(std::int64_t vocabulary) const;

 private:
  struct Part {
    DataFile file;
    std::uint64_t begin, end;  // of its tokens in the stream, a separator included
    std::unique_ptr<InputFile> open;
  };

  const Part& part_at(std::uint64_t token) const;
  void read(const Part& part, std::uint64_t token, std::span<std::byte> bytes) const;
  std::uint64_t scan(std::int64_t vocabulary) const;

  TokenFormat format_;
  bool flagged_;
  std::uint64_t tokens_ = 0;
  std::vector<Part> parts_;
};

}  // namespace l2l::runtime
