#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>

#include "formats/decompressor.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

class Gzip final : public Decompressor {
 public:
  Gzip() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw OutOfMemory("gzip: no memory for a decompressor");
  }
  ~Gzip() override { inflateEnd(&stream_); }

  Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
    if (at_end_) {  // padding of zeros, which tapes and some servers add; then perhaps another member
      const auto member = std::ranges::find_if(input, [](std::byte byte) { return byte != std::byte{0}; });
      if (member == input.end() || member != input.begin()) {
        return {static_cast<std::size_t>(member - input.begin()), 0, /*at_end=*/true};
      }
      if (inflateReset(&stream_) != Z_OK) throw Error("gzip: the decompressor cannot be used again");
      at_end_ = false;
    }
    const std::size_t most = std::numeric_limits<uInt>::max();
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
    stream_.avail_in = static_cast<uInt>(std::min(most, input.size()));
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(std::min(most, output.size()));
    const uInt in = stream_.avail_in, out = stream_.avail_out;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      throw BadInput(std::string("is damaged gzip: ") + (stream_.msg != nullptr ? stream_.msg : "unexpected data"));
    }
    at_end_ = status == Z_STREAM_END;
    return {in - stream_.avail_in, out - stream_.avail_out, at_end_};
  }

 private:
  static constexpr int kGzipWindow = 15 + 16;  // the largest window; with gzip's header and checksum

  z_stream stream_{};
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip() { return std::make_unique<Gzip>(); }

}  // namespace l2l::formats
