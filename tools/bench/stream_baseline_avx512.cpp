#include "optimizers/vector/pack_avx512.h"
#include "tools/bench/stream_baseline_kernels.h"

namespace l2l::tools {

const StreamBaselines& avx512_baselines();
const StreamBaselines& avx512_baselines() {
  static const StreamBaselines table = BaselineMaker<optimizers::avx512::Pack>::make("avx512");
  return table;
}

}  // namespace l2l::tools
