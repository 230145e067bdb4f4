#include "core/module_places.h"

#include <dlfcn.h>

namespace l2l {
namespace {

namespace fs = std::filesystem;

constexpr int kBuildDepth = 3;  // of libraries and tests below the root of a build tree

// The folder of the file that this code is in.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&module_places), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  const fs::path file = fs::canonical(info.dli_fname, ignored);
  return file.empty() ? fs::path() : file.parent_path();
}

}  // namespace

std::vector<fs::path> module_places(const std::string& file, const std::string& build_folder) {
  std::vector<fs::path> places;
  fs::path folder = own_folder();
  if (!folder.empty()) places.push_back(folder / file);
  if (!folder.empty()) places.push_back(folder / L2L_LIBRARY_FOLDER_FROM_TOOLS / file);
  for (int i = 0; i < kBuildDepth && folder.has_relative_path(); ++i) {
    folder = folder.parent_path();
    places.push_back(folder / build_folder / file);
  }
  places.push_back(fs::path(L2L_LIBRARY_FOLDER) / file);
  return places;
}

}  // namespace l2l
