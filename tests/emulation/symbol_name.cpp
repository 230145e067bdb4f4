#include "tests/emulation/symbol_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace l2l::emulation {
namespace {

std::string demangle(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : mangled;
  for (const char* const noise : {"void ", "l2l::device::cuda::", "(anonymous namespace)::"}) {
    for (std::size_t at = name.find(noise); at != std::string::npos; at = name.find(noise)) {
      name.erase(at, std::strlen(noise));
    }
  }
  return name.substr(0, name.find('('));
}

template <typename T>
const T* at(const std::vector<char>& file, std::uint64_t offset, std::uint64_t count = 1) {
  const bool inside = offset <= file.size() && count <= (file.size() - offset) / sizeof(T);
  return inside ? reinterpret_cast<const T*>(file.data() + offset) : nullptr;
}

std::string find(const std::vector<char>& file, std::uint64_t address) {
  const auto* const header = at<Elf64_Ehdr>(file, 0);
  const auto* const sections = header ? at<Elf64_Shdr>(file, header->e_shoff, header->e_shnum) : nullptr;
  for (int i = 0; sections && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    const std::uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* const symbols = at<Elf64_Sym>(file, sections[i].sh_offset, count);
    const std::uint64_t names = sections[sections[i].sh_link].sh_offset;
    for (std::uint64_t k = 0; symbols && k < count; ++k) {
      if (symbols[k].st_value == address && ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC) {
        return demangle(file.data() + names + symbols[k].st_name);
      }
    }
  }
  return "(unnamed)";
}

}  // namespace

std::string symbol_name(const void* address) {
  Dl_info info{};
  if (!address || !dladdr(address, &info)) return "(unnamed)";
  std::ifstream stream(info.dli_fname, std::ios::binary | std::ios::ate);
  std::vector<char> file(stream ? static_cast<std::size_t>(stream.tellg()) : 0);
  stream.seekg(0).read(file.data(), static_cast<std::streamsize>(file.size()));
  const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  return find(file, reinterpret_cast<std::uintptr_t>(address) - base);
}

}  // namespace l2l::emulation
