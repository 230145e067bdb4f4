// Safetensors files: refused with CorruptFile, or tensors that fill the data section without gap or overlap, and can be
// read.
#include "formats/safetensors.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  const std::filesystem::path path = fuzz::write_file("model.safetensors", data, size);
  try {
    const formats::SafetensorsFile file(path);
    Bytes end = 0;
    for (const formats::TensorEntry& tensor : file.tensors()) {
      if (tensor.begin != end || tensor.end < tensor.begin || file.find(tensor.name) != &tensor) __builtin_trap();
      end = tensor.end;
      static_cast<void>(file.hash(tensor));
    }
    if (end > size) __builtin_trap();
    static_cast<void>(file.header_hash());
  } catch (const CorruptFile&) {
  }
  return 0;
}
