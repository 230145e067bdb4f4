#include "optimizers/kernels.h"

#include <cstdlib>
#include <string>

#include "l2l/errors.h"
#include "l2l/version.h"

namespace l2l::optimizers {

const Kernels& portable_kernels();
#ifdef L2L_X86_KERNELS
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#elif defined(L2L_NEON_KERNELS)
const Kernels& neon_kernels();
#endif

namespace {

std::string names(const std::vector<const Kernels*>& all) {
  std::string text;
  for (const Kernels* set : all) text += (text.empty() ? "" : ", ") + std::string(set->name);
  return text;
}

template <typename Kernel>
Kernel existing(Kernel kernel) {
  if (kernel != nullptr) return kernel;
  throw Error("fp16 gradients update only an fp16 wire: no kernel takes them with another one");
}

}  // namespace

Kernels::AdamWKernel Kernels::adamw_of(DType gradient, MasterFormat master, MomentFormats moments) const {
  return existing(adamw[index_of(gradient)][static_cast<std::size_t>(master)][index_of(moments)]);
}

Kernels::LambMomentsKernel Kernels::lamb_moments_of(DType gradient, MasterFormat master, MomentFormats moments) const {
  return existing(lamb_moments[index_of(gradient)][static_cast<std::size_t>(master)][index_of(moments)]);
}

Kernels::LambApplyKernel Kernels::lamb_apply_of(MasterFormat master, MomentFormats moments) const {
  return lamb_apply[static_cast<std::size_t>(master)][index_of(moments)];
}

Kernels::SgdKernel Kernels::sgd_of(DType gradient, MasterFormat master, MomentFormat moment) const {
  return existing(sgd[index_of(gradient)][static_cast<std::size_t>(master)][static_cast<std::size_t>(moment)]);
}

std::vector<const Kernels*> supported_kernels() {
  std::vector<const Kernels*> all = {&portable_kernels()};
#ifdef L2L_X86_KERNELS
  __builtin_cpu_init();
  // Every processor with AVX2 has F16C, for which clang 14 has no name here.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2) all.push_back(&avx2_kernels());
  if (avx512) all.push_back(&avx512_kernels());
#elif defined(L2L_NEON_KERNELS)
  all.push_back(&neon_kernels());
#endif
  return all;
}

const Kernels& kernels_named(std::string_view name) {
  const std::vector<const Kernels*> all = supported_kernels();
  if (name.empty()) return *all.back();
  for (const Kernels* set : all) {
    if (set->name == name) return *set;
  }
  throw BadInput(std::string(name) + " is not an instruction set that this build and processor have (" + names(all) +
                 ")");
}

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* const name = std::getenv("L2L_INSTRUCTION_SET");
    try {
      return kernels_named(name == nullptr ? "" : name);
    } catch (const BadInput& error) {
      throw BadInput(std::string("L2L_INSTRUCTION_SET = ") + error.what() + "; remove it for the best");
    }
  }();
  return chosen;
}

double sum_of_lanes(const double* lanes) {
  double sum = 0;
  for (std::size_t i = 0; i < 16; ++i) sum += lanes[i];
  return sum;
}

}  // namespace l2l::optimizers

std::string l2l::instruction_set() { return std::string(optimizers::kernels().name); }
