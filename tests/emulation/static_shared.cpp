#include "tests/emulation/static_shared.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>

// Of the dynamic linker: the calling thread's copy of a library's thread-local memory, made if need be.
struct TlsIndex {
  unsigned long module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

namespace l2l::emulation {
namespace {

struct Search {
  std::uintptr_t address;
  std::size_t module = 0, bytes = 0;
};

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  std::size_t bytes = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.address >= begin && search.address < begin + header.p_memsz) inside = true;
    if (header.p_type == PT_TLS) bytes = header.p_memsz;
  }
  if (!inside) return 0;
  search.module = info->dlpi_tls_modid;
  search.bytes = bytes;
  return 1;
}

bool has_marker(const void* kernel) {
  Dl_info info;
  if (!dladdr(kernel, &info)) return false;
  void* const library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return false;  // the executable
  Dl_info home{};
  const void* const marker = dlsym(library, StaticShared::kMarker);
  dlclose(library);
  return marker && dladdr(marker, &home) && home.dli_fbase == info.dli_fbase;
}

}  // namespace

StaticShared::StaticShared(const void* kernel) {
  if (!kernel || !has_marker(kernel)) return;
  Search search{reinterpret_cast<std::uintptr_t>(kernel)};
  dl_iterate_phdr(visit, &search);
  module_ = search.module;
  bytes_ = search.module ? search.bytes : 0;
}

void StaticShared::apply(unsigned char poison) const {
  if (bytes_ == 0) return;
  TlsIndex index{module_, 0};
  std::memset(__tls_get_addr(&index), poison, bytes_);
}

}  // namespace l2l::emulation
