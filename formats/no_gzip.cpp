#include "formats/decompressor.h"
#include "l2l/errors.h"

namespace l2l::formats {

std::unique_ptr<Decompressor> make_gzip() {
  throw BadInput(
      "is compressed by gzip, which this program was built without: install zlib1g-dev and build it again, or "
      "decompress the file");
}

}  // namespace l2l::formats
