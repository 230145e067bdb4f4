#include "optimizers/vector/pack_avx2.h"
#include "tools/bench/stream_baseline_kernels.h"

namespace l2l::tools {

const StreamBaselines& avx2_baselines();
const StreamBaselines& avx2_baselines() {
  static const StreamBaselines table = BaselineMaker<optimizers::avx2::Pack>::make("avx2");
  return table;
}

}  // namespace l2l::tools
