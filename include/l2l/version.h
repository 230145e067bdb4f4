// The version of the headers that a program was compiled with, and of the library that it runs with. Before 1.0 a new
// minor version may change the binary interface, so it is part of the library's soname (libl2l.so.0.1).
#pragma once

#include <string>

#include "l2l/export.h"

#define L2L_VERSION_MAJOR 0
#define L2L_VERSION_MINOR 1
#define L2L_VERSION_PATCH 0
#define L2L_VERSION "0.1.0"

namespace l2l {

// L2L_VERSION of the library.
L2L_API const char* version();

// What the parameter server's kernels use on this processor: "portable", "avx2", "avx512" or "neon". Throws BadInput
// where the environment variable L2L_INSTRUCTION_SET names another one, or one that this processor does not have.
L2L_API std::string instruction_set();

}  // namespace l2l
