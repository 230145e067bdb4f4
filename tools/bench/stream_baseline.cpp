#include "tools/bench/stream_baseline.h"

#include <string_view>

#include "l2l/errors.h"

namespace l2l::tools {

const StreamBaselines& portable_baselines();
#ifdef L2L_X86_KERNELS
const StreamBaselines& avx2_baselines();
const StreamBaselines& avx512_baselines();
#elif defined(L2L_NEON_KERNELS)
const StreamBaselines& neon_baselines();
#endif

const StreamBaselines& stream_baselines(const optimizers::Kernels& kernels) {
  const std::string_view name = kernels.name;
  if (name == "portable") return portable_baselines();
#ifdef L2L_X86_KERNELS
  if (name == "avx2") return avx2_baselines();
  if (name == "avx512") return avx512_baselines();
#elif defined(L2L_NEON_KERNELS)
  if (name == "neon") return neon_baselines();
#endif
  throw Error("no stream baseline is compiled for the instruction set " + std::string(name));
}

}  // namespace l2l::tools
