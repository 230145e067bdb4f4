#include "runtime/step_meter.h"

#include <algorithm>

namespace l2l::runtime {

std::optional<double> MemoryShare::of(double gb_per_second) {
  if (!most_) return std::nullopt;
  most_ = std::max(*most_, gb_per_second);
  return gb_per_second / *most_;
}

StepMeter::StepMeter(Engine& engine) : engine_(engine), begin_(Clock::now()), before_(totals()) {}

StepReport StepMeter::report(std::int64_t tokens) const {
  const Totals now = totals();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  StepReport report;
  report.tokens = tokens;
  report.tokens_per_second = static_cast<double>(tokens) / seconds;
  report.step_ms = 1e3 * seconds;
  report.h2d_bytes = now.link.h2d() - before_.link.h2d();
  report.d2h_bytes = now.link.d2h() - before_.link.d2h();
  report.gathered_bytes = now.link.weights_gathered - before_.link.weights_gathered;
  report.exchanged_bytes = now.link.gradients_exchanged - before_.link.gradients_exchanged;
  report.rows_exchanged_bytes = now.link.rows_exchanged - before_.link.rows_exchanged;
  report.weight_stall_ms = now.stalls.weights_ms - before_.stalls.weights_ms;
  report.stash_stall_ms = now.stalls.stash_ms - before_.stalls.stash_ms;
  report.update_stall_ms = now.stalls.update_ms - before_.stalls.update_ms;
  const double busy_ns = std::chrono::duration<double, std::nano>(now.eps.busy - before_.eps.busy).count();
  if (busy_ns > 0) report.eps_gb_per_second = static_cast<double>(now.eps.bytes - before_.eps.bytes) / busy_ns;
  return report;
}

}  // namespace l2l::runtime
