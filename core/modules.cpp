#include "core/modules.h"

#include <dlfcn.h>

#include <string_view>

#include "l2l/errors.h"

namespace l2l {
namespace {

namespace fs = std::filesystem;

constexpr int kBuildDepth = 3;  // of libraries and tests below the root of a build tree

// The folder of the file that this code is in. Of a program, the linker knows what it was called: a name without a
// slash was found by PATH.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&module_places), &info) == 0 || info.dli_fname == nullptr) return {};
  const bool is_path = std::string_view(info.dli_fname).find('/') != std::string_view::npos;
  std::error_code ignored;
  const fs::path file = fs::canonical(is_path ? info.dli_fname : "/proc/self/exe", ignored);
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

fs::path existing(const std::vector<fs::path>& places) {
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::exists(place, ignored)) return place;
  }
  return {};
}

std::string module_error() {
  const char* const error = dlerror();
  return error != nullptr ? error : "unknown error";
}

void* module_symbol(const std::string& kind, const fs::path& file, int flags, const char* symbol) {
  void* const library = dlopen(file.c_str(), flags | RTLD_NODELETE);
  if (library == nullptr) throw BadInput("the " + kind + " module does not open: " + module_error());
  void* const found = dlsym(library, symbol);
  if (found == nullptr) throw BadInput(file.string() + " is no " + kind + " module of L2L: " + module_error());
  return found;
}

void refuse_module(const std::string& kind, const fs::path& file, const std::string& stamp,
                   const std::string& expected) {
  throw BadInput("the " + kind + " module " + file.string() + " is of another build (\"" + stamp + "\", not \"" +
                 expected + "\"): build both from one tree");
}

}  // namespace l2l
