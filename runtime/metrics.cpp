// A --metrics line.
#include "base/json.h"
#include "l2l/trainer.h"

namespace l2l {

// The library prints the shortest digits that read back to the same double (17 where needed); a NaN or an infinity,
// which JSON does not have, becomes null.
std::string to_json(const StepReport& report) {
  nlohmann::ordered_json line = {{"step", report.step},
                                 {"loss", report.loss},
                                 {"learning_rate", report.learning_rate},
                                 {"gradient_norm", report.gradient_norm},
                                 {"tokens", report.tokens},
                                 {"tokens_per_second", report.tokens_per_second},
                                 {"step_ms", report.step_ms},
                                 {"device_peak_bytes", report.device_peak_bytes},
                                 {"host_bytes", report.host_bytes},
                                 {"h2d_bytes", report.h2d_bytes},
                                 {"d2h_bytes", report.d2h_bytes},
                                 {"weight_stall_ms", report.weight_stall_ms},
                                 {"stash_stall_ms", report.stash_stall_ms},
                                 {"update_stall_ms", report.update_stall_ms},
                                 {"loss_scale", report.loss_scale},
                                 {"skipped", report.skipped},
                                 {"predicted_ms", or_null(report.predicted_ms)},
                                 {"eps_gb_per_second", report.eps_gb_per_second},
                                 {"eps_fraction", or_null(report.eps_fraction)}};
  if (report.gathered_bytes > 0) line["gathered_bytes"] = report.gathered_bytes;
  if (report.exchanged_bytes > 0) line["exchanged_bytes"] = report.exchanged_bytes;
  if (report.rows_exchanged_bytes > 0) line["rows_exchanged_bytes"] = report.rows_exchanged_bytes;
  if (report.stream_drift) line["stream_drift"] = *report.stream_drift;
  return json_text(line);
}

}  // namespace l2l
