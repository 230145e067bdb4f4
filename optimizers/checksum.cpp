#include "optimizers/checksum.h"

#include <string_view>

#include "optimizers/kernels.h"

namespace l2l::optimizers {

ChecksumKernel portable_checksum();
#ifdef L2L_X86_KERNELS
ChecksumKernel avx2_checksum();
ChecksumKernel avx512_checksum();
#elif defined(L2L_NEON_KERNELS)
ChecksumKernel neon_checksum();
#endif

// Each step is a bijection of `all`, so a change of one lane always changes it. Multiplication carries upwards and the
// shifts downwards: changes of the topmost bits of two lanes, such as of signs, do not cancel.
std::uint64_t ChecksumLanes::value() const {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    all ^= std::uint64_t{sum_of_sums[i]} << 32 | sum[i];
    all = (all ^ all >> 29) * 0xbf58476d1ce4e5b9u;
    all = (all ^ all >> 32) * 0x94d049bb133111ebu;
  }
  return all ^ all >> 31;
}

ChecksumKernel checksum_kernel_of(const char* name) {
#ifdef L2L_X86_KERNELS
  if (std::string_view(name) == "avx2") return avx2_checksum();
  if (std::string_view(name) == "avx512") return avx512_checksum();
#elif defined(L2L_NEON_KERNELS)
  if (std::string_view(name) == "neon") return neon_checksum();
#endif
  static_cast<void>(name);
  return portable_checksum();
}

ChecksumKernel checksum_kernel() {
  static const ChecksumKernel chosen = checksum_kernel_of(kernels().name);
  return chosen;
}

}  // namespace l2l::optimizers
