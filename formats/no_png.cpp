#include "formats/png_file.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

[[noreturn]] void refuse_png(const std::filesystem::path& file) {
  throw BadInput(file.string() +
                     ": this build reads no PNG: install libpng-dev, configure again with -Dpng=enabled and build, or "
                     "save the images as arrays of NumPy (data.format = \"npy\")",
                 {.file = file.string(), .field = {}, .key = {}});
}

}  // namespace

ImageShape png_shape(const std::filesystem::path& file) { refuse_png(file); }

ImageShape read_png(const std::filesystem::path& file, std::vector<std::uint8_t>&) { refuse_png(file); }

}  // namespace l2l::formats
