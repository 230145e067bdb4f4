// What emulated kernels call when they do what a GPU does not forgive: g++ checks alignment and the bounds of arrays in
// them
// (-fsanitize=alignment,bounds), and calls these functions instead of those of its own library.
#include <cstdint>
#include <cstdio>

#include "tests/emulation/engine.h"

namespace l2l::emulation {
namespace {

// As g++ lays them out.
struct Place {
  const char* file;
  std::uint32_t line, column;
};
struct Type {
  std::uint16_t kind, information;
  char name[1];
};
struct Mismatch {
  Place place;
  const Type* type;
  unsigned char log_alignment, access;
};
struct OutOfBounds {
  Place place;
  const Type* array;
  const Type* index;
};

std::string show(const Place& place) { return std::string(place.file) + ":" + std::to_string(place.line) + ": "; }

}  // namespace
}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

[[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const Mismatch* data, std::uintptr_t address) {
  char text[32];
  std::snprintf(text, sizeof text, "%#zx", static_cast<std::size_t>(address));
  abandon(show(data->place) + "access to " + data->type->name + " at " + text + ", which is not aligned to " +
          std::to_string(1u << data->log_alignment) + " bytes");
}

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const OutOfBounds* data, std::uintptr_t index) {
  abandon(show(data->place) + "index " + std::to_string(static_cast<std::int64_t>(index)) + " of " + data->array->name);
}

}  // extern "C"
