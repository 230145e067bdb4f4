#include "formats/decompressor.h"
#include "l2l/errors.h"

namespace l2l::formats {

std::unique_ptr<Decompressor> make_zstd() {
  throw BadInput(
      "is compressed by zstd, which this program was built without: install libzstd-dev and build it again, or "
      "decompress the file");
}

}  // namespace l2l::formats
