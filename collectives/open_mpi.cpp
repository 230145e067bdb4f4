#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "collectives/mpi/module.h"
#include "collectives/transport.h"
#include "core/modules.h"
#include "l2l/errors.h"

namespace l2l::collectives {
namespace {

namespace fs = std::filesystem;

fs::path find_module() {
  if (const char* const named = std::getenv("L2L_MPI_MODULE"); named != nullptr && *named != '\0') {
    return fs::absolute(named);
  }
  const std::vector<fs::path> places = module_places("libl2l_mpi.so", "collectives/mpi");
  if (fs::path file = existing(places); !file.empty()) return file;
  throw BadInput("this build has no MPI module (libl2l_mpi.so is neither in " + places.front().parent_path().string() +
                 " nor in " + places.back().parent_path().string() +
                 "): install libopenmpi-dev and configure with -Dmpi=enabled, or set L2L_MPI_MODULE to its file");
}

}  // namespace

std::unique_ptr<Transport> open_mpi() {
  // Open MPI's own modules look for its symbols among the global ones.
  const auto& module =
      open_module<mpi::Module>("MPI", find_module(), RTLD_NOW | RTLD_GLOBAL, mpi::kModuleSymbol, mpi::module_stamp());
  return std::unique_ptr<Transport>(module.open());
}

}  // namespace l2l::collectives
