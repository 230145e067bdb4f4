// Manifests of checkpoints: refused with CorruptFile, or written again as they were.
#include <string>
#include <string_view>

#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  const std::filesystem::path file = fuzz::write_file(eps::kManifestName, data, size);
  try {
    const eps::Manifest manifest = eps::read_manifest(file.parent_path());
    if (eps::to_text(manifest) != std::string_view(reinterpret_cast<const char*>(data), size)) __builtin_trap();
  } catch (const CorruptFile&) {
  }
  return 0;
}
