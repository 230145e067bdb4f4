#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/modules.h"
#include "device/cuda_module.h"
#include "device/open.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libl2l_cuda.so";
constexpr const char* kBuildFolder = "device/cuda/module";

fs::path find_module() {
  const std::vector<fs::path> places = module_places(kFile, kBuildFolder);
  if (fs::path file = existing(places); !file.empty()) return file;
  throw NoCuda("this build has no CUDA module",
               " (" + std::string(kFile) + " is neither beside " + places.front().parent_path().string() + " nor in " +
                   places.back().parent_path().string() +
                   "): configure with -Dcuda=enabled, or set L2L_CUDA_MODULE to its file");
}

// A module without a driver could only say so, after loading hundreds of megabytes of libraries.
void check_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) throw NoCuda("there is no NVIDIA driver on this machine", " (" + module_error() + ")");
  dlclose(driver);
}

const cuda::Module& module() {
  const char* named = std::getenv("L2L_CUDA_MODULE");
  fs::path file;
  if (named != nullptr && *named != '\0') {
    file = fs::absolute(named);
  } else {
    file = find_module();
    check_driver();
  }
  return open_module<cuda::Module>("CUDA", file, RTLD_NOW | RTLD_LOCAL, cuda::kModuleSymbol, cuda::module_stamp());
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(const DeviceSettings& settings) {
  return std::unique_ptr<Device>(
      module().open({settings.index, settings.graphs, settings.pinned_memory, settings.tf32}, &log));
}

std::unique_ptr<Peers> make_cuda_peers(std::span<Device* const> devices, PeerCall call, std::string& reason) {
  return std::unique_ptr<Peers>(module().join(devices, call, reason));
}

std::shared_ptr<TensorGroup> make_cuda_tensor_group(std::span<Device* const> devices, std::string& reason) {
  return std::shared_ptr<TensorGroup>(module().split(devices, reason));
}

}  // namespace l2l::device
