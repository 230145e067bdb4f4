#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/module_places.h"
#include "device/cuda_module.h"
#include "device/open.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libl2l_cuda.so";
constexpr const char* kBuildFolder = "device/cuda/module";

std::string last_error() {
  const char* error = dlerror();
  return error != nullptr ? error : "unknown error";
}

fs::path find_module() {
  const std::vector<fs::path> places = module_places(kFile, kBuildFolder);
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::exists(place, ignored)) return place;
  }
  throw NoCuda("this build has no CUDA module",
               " (" + std::string(kFile) + " is neither beside " + places.front().parent_path().string() + " nor in " +
                   places.back().parent_path().string() +
                   "): configure with -Dcuda=enabled, or set L2L_CUDA_MODULE to its file");
}

// A module without a driver could only say so, after loading hundreds of megabytes of libraries.
void check_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) throw NoCuda("there is no NVIDIA driver on this machine", " (" + last_error() + ")");
  dlclose(driver);
}

const cuda::Module& load(const fs::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw BadInput("the CUDA module does not open: " + last_error());
  const auto entry = reinterpret_cast<decltype(&l2l_cuda_module)>(dlsym(library, cuda::kModuleSymbol));
  if (entry == nullptr) throw BadInput(file.string() + " is no CUDA module of L2L: " + last_error());
  const cuda::Module& module = *entry();
  if (module.stamp != cuda::module_stamp()) {
    throw BadInput("the CUDA module " + file.string() + " is of another build (\"" + module.stamp + "\", not \"" +
                   cuda::module_stamp() + "\"): build both from one tree");
  }
  return module;
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(const DeviceSettings& settings) {
  const char* named = std::getenv("L2L_CUDA_MODULE");
  fs::path file;
  if (named != nullptr && *named != '\0') {
    file = fs::absolute(named);
  } else {
    file = find_module();
    check_driver();
  }
  return std::unique_ptr<Device>(
      load(file).open({settings.index, settings.graphs, settings.pinned_memory, settings.tf32}, &log));
}

}  // namespace l2l::device
