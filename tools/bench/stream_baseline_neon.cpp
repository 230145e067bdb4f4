#include "optimizers/vector/pack_neon.h"
#include "tools/bench/stream_baseline_kernels.h"

namespace l2l::tools {

const StreamBaselines& neon_baselines();
const StreamBaselines& neon_baselines() {
  static const StreamBaselines table = BaselineMaker<optimizers::neon::Pack>::make("neon");
  return table;
}

}  // namespace l2l::tools
