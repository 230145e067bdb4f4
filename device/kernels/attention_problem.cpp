#include "device/kernels/attention_problem.h"

#include <cmath>
#include <string>

#include "core/log.h"
#include "device/kernels/common/dropout.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {

AttentionProblem::AttentionProblem(const compiler::Value& qkv, const compiler::Attributes& attributes)
    : sequence(attributes.sequence),
      heads(attributes.heads),
      kv_heads(compiler::kv_heads(attributes)),
      causal(attributes.causal),
      rng_op(attributes.rng_op) {
  const std::int64_t all_heads = heads + 2 * static_cast<std::int64_t>(kv_heads);
  if (sequence < 1 || heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || qkv.shape[0] % sequence != 0 ||
      qkv.shape[1] % all_heads != 0) {
    throw BadInput("attention: qkv " + qkv.shape.to_string() + " does not hold sequences of " +
                   std::to_string(sequence) + " rows of " + std::to_string(heads) + " heads of queries and 2 x " +
                   std::to_string(kv_heads) + " of keys and values");
  }
  sequences = qkv.shape[0] / sequence;
  head_dim = static_cast<int>(qkv.shape[1] / all_heads);
  vector = head_dim * size_of(qkv.dtype) % 16 == 0;
  window = attributes.window > 0 && attributes.window < sequence ? attributes.window : sequence;
  scale = attributes.scale > 0 ? attributes.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  cap = attributes.softcap / scale;
  probability = attributes.probability;
  first_head = attributes.shard.index * heads;
  other_heads = (attributes.shard.count - 1) * heads;
  if (probability == 0) return;
  kernels::require_random_elements(Shape{attributes.shard.count * tasks(), sequence, sequence}.elements(), "attention");
}

void tell_kernels(const AttentionProblem& problem, DType dtype, const std::string& pass, const std::string& kernels) {
  log_once(LogLevel::info, "attention in " + std::string(name_of(dtype)) + ", " + std::to_string(problem.heads) +
                               " heads of " + std::to_string(problem.head_dim) + ", " +
                               std::to_string(problem.sequence) + " tokens: " + pass + " pass by " + kernels);
}

}  // namespace l2l::device::cuda
