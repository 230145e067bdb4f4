#include "optimizers/vector/pack_portable.h"
#include "tools/bench/stream_baseline_kernels.h"

namespace l2l::tools {

const StreamBaselines& portable_baselines();
const StreamBaselines& portable_baselines() {
  static const StreamBaselines table = BaselineMaker<optimizers::portable::Pack>::make("portable");
  return table;
}

}  // namespace l2l::tools
