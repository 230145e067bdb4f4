// What the application and libl2l_mpi.so, which is opened at run time, agree on. Both are built from this tree; the
// stamp refuses a module of another build.
#pragma once

#include <string>

#include "collectives/transport.h"

namespace l2l::collectives::mpi {

// Its first member never moves: it is read before the stamp is compared.
struct Module {
  const char* stamp;
  // Starts MPI. Throws BadInput where it does not start.
  Transport* (*open)();
};

// The one symbol that the module exports.
inline constexpr const char* kModuleSymbol = "l2l_mpi_module";

// Names the compiler and a hash of the headers that both sides share (collectives/meson.build). Application and module
// each have their own copy of this function.
std::string module_stamp();

}  // namespace l2l::collectives::mpi

extern "C" const l2l::collectives::mpi::Module* l2l_mpi_module();
