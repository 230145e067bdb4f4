// The decompressors of TextStream. Defined by gzip.cpp and zstd.cpp; without their libraries by no_gzip.cpp and
// no_zstd.cpp, which refuse every file and name the package to install.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

namespace l2l::formats {

// Thread-bound.
class Decompressor {
 public:
  struct Progress {
    std::size_t taken = 0, made = 0;  // bytes of input, of output
    bool at_end = false;              // of a member or frame: the input may end here
  };

  virtual ~Decompressor() = default;
  // Takes what it can of `input` and makes what it can of `output`. A file may be several members or frames, one behind
  // the other. Throws BadInput with the reason alone when the input is not what it should be.
  virtual Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

std::unique_ptr<Decompressor> make_gzip();
std::unique_ptr<Decompressor> make_zstd();

}  // namespace l2l::formats
