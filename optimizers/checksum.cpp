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

// Odd factors: a change of one lane always changes the sum.
std::uint64_t ChecksumLanes::value() const {
  std::uint32_t upper = 0, lower = 0;
  for (std::uint32_t i = 0; i < 16; ++i) {
    upper += sum[i] * (0x9e3779b1u * (2 * i + 1));
    lower += sum_of_sums[i] * (0x85ebca77u * (2 * i + 1));
  }
  return std::uint64_t{upper} << 32 | lower;
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
