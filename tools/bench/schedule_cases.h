// The runs on which overlap and inner looping are judged: on a paced device (its figures do not depend on the machine,
// and tests hold them) and on the device of the options.
#pragma once

#include <vector>

#include "tools/bench/measured_run.h"

namespace l2l::tools {

// 12 blocks, 4 microbatches, stash on the host; a paced device on which a block's backward, with its recomputation,
// takes three times its forward.
MeasuredSettings paced_overlap_case();
// 8 blocks on a paced device; `microbatches` of constant size.
MeasuredSettings paced_inner_loop_case(int microbatches);

// Measures all of `settings` in turn, a few times over, so that a busy moment of the machine does not meet one side
// alone; of each the measurement with the median step.
std::vector<Measurement> measure_in_turn(const std::vector<MeasuredSettings>& settings);

// Compute per step by a run on a link that takes no time, in ms.
double compute_ms(const Measurement& free_link);

// The same run with a link on which all bytes of a step, both ways added up, take `share` of its compute. `free_link`:
// a measurement of `settings` without a limit.
MeasuredSettings with_link_share(MeasuredSettings settings, const Measurement& free_link, double share);
// The same run with a link that carries a block's wire in `ms`.
MeasuredSettings with_wire_time(MeasuredSettings settings, const ModelSizes& sizes, double ms);

// The cost model of the L2L paper (Pudipeddi et al., 2020, Eq. 6) with this relay's terms: what a step takes when
// nothing overlaps. N blocks, u microbatches:
//
//   T(u) = (2N - 1) X + N G + E + u (N (F + B + 2S) + e)
//
// F: a block's forward of one microbatch, B: its recomputation and backward, X: its wire h2d (twice, but block N stays
// while the head runs), G: its gradients d2h, S: a layer input, out and back; E: wires and gradients of embedding and
// head; e: their compute on one microbatch. Token ids, losses and updates are not counted.
struct CostModel {
  int blocks = 0;
  double forward = 0, backward = 0, ends = 0;                          // F, B, e; ms
  double wire = 0, gradients = 0, end_transfers = 0, layer_input = 0;  // X, G, E, S; ms
  double step_ms(int microbatches) const;
  // Without any transfer.
  double compute_ms(int microbatches) const;
};

// F, B and e from the report of `measured`; transfers from sizes and bandwidth (bytes per second each way).
CostModel cost_model(const Measurement& measured, double bandwidth);
// Bandwidth of the link of `settings`, bytes per second each way.
double bandwidth_of(const MeasuredSettings& settings);

}  // namespace l2l::tools
