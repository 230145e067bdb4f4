// How long a measurement may take.
#pragma once

namespace l2l::runtime {

// `usual` seconds, times the environment's L2L_MEASURING_TIME where that is set (in (0, 1]; anything else counts as 1).
// Figures become noisier: for tests of what is done with them, and for trying things out.
double measuring_time(double usual);

}  // namespace l2l::runtime
