#include <zstd.h>

#include <string>

#include "formats/decompressor.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

class Zstd final : public Decompressor {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw OutOfMemory("zstd: no memory for a decompressor");
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }

  Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const std::size_t left = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(left) != 0) throw BadInput(std::string("is damaged zstd: ") + ZSTD_getErrorName(left));
    if (in.pos > 0 || out.pos > 0) at_end_ = left == 0;
    return {in.pos, out.pos, at_end_};
  }

 private:
  ZSTD_DStream* stream_;
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd() { return std::make_unique<Zstd>(); }

}  // namespace l2l::formats
