// RevBiFPN, a feature pyramid whose layers can all be undone (Chiley et al., "RevBiFPN: The Fully Reversible
// Bidirectional Feature Pyramid Network", MLSys 2023), with its head for classification, as a custom model:
//
//   options.model = l2l::revbifpn(l2l::revbifpn_settings(0), "float");
//   options.data.train_source = ...;  // one image each, [height, width, 3], and one class
//
// Scale i has channels[i] channels and 1 / (4 * 2^i) of the image's height and width. Between layers each scale is two
// streams, the halves of its channels. The stem moves blocks of 4 x 4 pixels into channels. Then the pyramid grows
// scale by scale: residual blocks, which couple the two halves of each scale, and a RevSilo, which adds to each scale
// what MBConv blocks make of the finer ones, then of the coarser ones, and begins the next scale. `extra` more rounds
// of both follow with all scales.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "l2l/export.h"
#include "l2l/options.h"

namespace l2l {

// All lists have an entry for each scale, the finest first.
struct RevbifpnSettings {
  std::array<std::int64_t, 2> image = {224, 224};          // height and width: multiples of 4 * 2^(scales - 1)
  std::int64_t image_channels = 3;                         // repeated to fill channels[0] / 16
  std::vector<std::int64_t> channels = {48, 64, 80, 160};  // even; the first a multiple of 16
  std::vector<int> kernels = {3, 5, 5, 5};                 // of residual blocks, odd
  std::vector<int> widened = {0, 0, 0, 2};                 // added to the kernels of blocks that change the scale; even
  std::vector<int> expansions = {1, 1, 2, 2};              // channels inside of a block, per channel that comes in
  // Of squeeze-and-excitation, per channel that comes in; 0: none.
  std::vector<double> squeezes = {0.25, 0.25, 0.125, 0};
  int residual_blocks = 2;  // of each scale before each RevSilo
  int extra = 2;

  // The neck brings scales to these channels; the head then adds them up from the finest to the coarsest.
  std::vector<std::int64_t> head_channels = {48, 64, 128, 320};
  std::vector<int> head_expansions = {1, 2, 2, 2};
  std::vector<double> head_squeezes = {0.25, 0.25, 0.125, 0.125};
  int head_kernel = 5;
  std::int64_t features = 1280;  // before the last matrix
  double dropout = 0.25;         // of these
  std::int64_t classes = 1000;
};

// RevBiFPN-S0 to S6, with the sizes that were published. Throws BadInput for another `scale`.
L2L_API RevbifpnSettings revbifpn_settings(int scale);

// `reversible`: ModelOptions::reversible. Samples bring "image", [height, width, image_channels], and "class". Throws
// BadInput where the settings do not fit together.
L2L_API ModelOptions revbifpn(const RevbifpnSettings& settings, const std::string& reversible = "float");

}  // namespace l2l
