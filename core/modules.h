// Shared objects of this tree that are opened at run time, so that programs run where what they need is not installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace l2l {

// Where `file` may lie, the likeliest place first: beside the program or library that runs, in the library folder
// beside a program's, in `build_folder` of the build tree, in the prefix of the configuration. At least one place.
std::vector<std::filesystem::path> module_places(const std::string& file, const std::string& build_folder);

// The first of them that exists; empty: none does.
std::filesystem::path existing(const std::vector<std::filesystem::path>& places);

// What dlopen() or dlsym() last had to say.
std::string module_error();

// `symbol` of `file`, which is opened with dlopen()'s `flags` and stays open. Throws BadInput, naming the kind of
// module
// ("CUDA"), where it does not open or has no such symbol.
void* module_symbol(const std::string& kind, const std::filesystem::path& file, int flags, const char* symbol);
[[noreturn]] void refuse_module(const std::string& kind, const std::filesystem::path& file, const std::string& stamp,
                                const std::string& expected);

// The module that the function `symbol` of `file` returns. Throws BadInput as module_symbol() does, and where its
// stamp, Module::stamp, is not `expected`: it is of another build.
template <class Module>
const Module& open_module(const std::string& kind, const std::filesystem::path& file, int flags, const char* symbol,
                          const std::string& expected) {
  const auto entry = reinterpret_cast<const Module* (*)()>(module_symbol(kind, file, flags, symbol));
  const Module& module = *entry();
  if (module.stamp != expected) refuse_module(kind, file, module.stamp, expected);
  return module;
}

}  // namespace l2l
