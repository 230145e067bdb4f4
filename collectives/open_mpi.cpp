#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "collectives/mpi/module.h"
#include "collectives/transport.h"
#include "core/module_places.h"
#include "l2l/errors.h"

namespace l2l::collectives {
namespace {

namespace fs = std::filesystem;

std::string last_error() {
  const char* const error = dlerror();
  return error != nullptr ? error : "unknown error";
}

fs::path find_module() {
  if (const char* const named = std::getenv("L2L_MPI_MODULE"); named != nullptr && *named != '\0') {
    return fs::absolute(named);
  }
  const std::vector<fs::path> places = module_places("libl2l_mpi.so", "collectives/mpi");
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::exists(place, ignored)) return place;
  }
  throw BadInput("this build has no MPI module (libl2l_mpi.so is neither in " + places.front().parent_path().string() +
                 " nor in " + places.back().parent_path().string() +
                 "): install libopenmpi-dev and configure with -Dmpi=enabled, or set L2L_MPI_MODULE to its file");
}

}  // namespace

std::unique_ptr<Transport> open_mpi() {
  const fs::path file = find_module();
  // Open MPI's own modules look for its symbols among the global ones.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) throw BadInput("the MPI module does not open: " + last_error());
  const auto entry = reinterpret_cast<decltype(&l2l_mpi_module)>(dlsym(library, mpi::kModuleSymbol));
  if (entry == nullptr) throw BadInput(file.string() + " is no MPI module of L2L: " + last_error());
  const mpi::Module& module = *entry();
  if (module.stamp != mpi::module_stamp()) {
    throw BadInput("the MPI module " + file.string() + " is of another build (\"" + module.stamp + "\", not \"" +
                   mpi::module_stamp() + "\"): build both from one tree");
  }
  return std::unique_ptr<Transport>(module.open());
}

}  // namespace l2l::collectives
