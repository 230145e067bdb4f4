#include "l2l/revbifpn.h"

#include <algorithm>
#include <cmath>

#include "l2l/errors.h"

namespace l2l {
namespace {

using Values = std::vector<Value>;
using ValueSpan = std::span<const Value>;

constexpr std::int64_t kStem = 4;  // pixels along each side that become channels
constexpr double kEpsilon = 1e-3;  // of batch norms

// Builds the ops of one layer. Names are those of its parameters.
class Blocks {
 public:
  explicit Blocks(LayerBuilder& graph) : graph_(graph) {}

  struct MBConv {
    std::int64_t out;
    int kernel, stride = 1, expansion = 1;
    double squeeze = 0;
  };

  // Sandler et al., "MobileNetV2", 2018, with squeeze-and-excitation (Howard et al., "Searching for MobileNetV3",
  // 2019).
  Value mbconv(Value x, const MBConv& block, const std::string& name) {
    const std::int64_t in = graph_.columns(x), wide = in * block.expansion;
    if (block.expansion > 1) x = graph_.hard_swish(convolution(x, wide, 1, 1, false, name + ".expand"));
    x = graph_.hard_swish(convolution(x, wide, block.kernel, block.stride, true, name + ".depthwise"));
    if (block.squeeze > 0) {
      const auto few = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(in) * block.squeeze));
      x = excited(x, few, name + ".squeeze");
    }
    return convolution(x, block.out, 1, 1, false, name + ".project");
  }

  // With a batch norm in place of a bias.
  Value convolution(Value x, std::int64_t out, int kernel, int stride, bool depthwise, const std::string& name) {
    const std::int64_t area = std::int64_t{kernel} * kernel, in = depthwise ? 1 : graph_.columns(x);
    const Window window{.size = {kernel, kernel}, .stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}};
    const Value w = graph_.matrix(name + ".weight", out, area * in, normal(out * area));
    return normed(graph_.convolution(x, w, {}, window, depthwise ? static_cast<int>(out) : 1), name + ".norm");
  }

  // A matrix applied to each pixel, with a bias.
  Value dense(Value x, std::int64_t out, const std::string& name) {
    const Value w = graph_.matrix(name + ".weight", out, graph_.columns(x), normal(out));
    return graph_.linear_transposed(x, w, graph_.vector(name + ".bias", out, Distribution::zeros()));
  }

  Value whole(Value first, Value second) { return graph_.concatenate({first, second}, 3); }
  Values halves(Value x) {
    const std::int64_t half = graph_.columns(x) / 2;
    return {graph_.slice(x, 3, 0, half), graph_.slice(x, 3, half, half)};
  }

 private:
  // He et al., "Delving Deep into Rectifiers", 2015, by what goes out.
  static Distribution normal(std::int64_t fan_out) {
    return Distribution::normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
  }

  Value normed(Value x, const std::string& name) {
    const std::int64_t channels = graph_.columns(x);
    return graph_.batch_norm(x, graph_.vector(name + ".weight", channels, Distribution::ones()),
                             graph_.vector(name + ".bias", channels, Distribution::zeros()),
                             graph_.statistic(name + ".running_mean", channels, Distribution::zeros()),
                             graph_.statistic(name + ".running_var", channels, Distribution::ones()), kEpsilon);
  }

  Value excited(Value x, std::int64_t few, const std::string& name) {
    const std::int64_t channels = graph_.columns(x);
    const Value hidden = graph_.hard_swish(dense(graph_.mean(x, {1, 2}), few, name + ".reduce"));
    return graph_.multiply(x, graph_.hard_sigmoid(dense(hidden, channels, name + ".expand")));
  }

  LayerBuilder& graph_;
};

std::string at(const char* name, std::size_t from, std::size_t to) {
  return std::string(name) + "." + std::to_string(from) + "." + std::to_string(to);
}

// Blocks of 4 x 4 pixels become channels; a pixel's are the image's, repeated.
Values stem(LayerBuilder& graph, ValueSpan x, const RevbifpnSettings& settings) {
  const std::int64_t channels = settings.channels[0] / (kStem * kStem);
  Values repeated(static_cast<std::size_t>(channels / settings.image_channels), x[0]);
  if (const std::int64_t rest = channels % settings.image_channels; rest > 0) {
    repeated.push_back(graph.slice(x[0], 3, 0, rest));
  }
  const Value image = graph.concatenate(repeated, 3);
  const std::int64_t height = settings.image[0] / kStem, width = settings.image[1] / kStem;
  const Value blocks = graph.permute(graph.reshape(image, {height, kStem, width, kStem, channels}), {0, 1, 3, 2, 4, 5});
  return graph.streams(Blocks(graph).halves(graph.reshape(blocks, {height, width, kStem * kStem * channels})));
}

// y2 = x2 + F(x1), y1 = x1 + G(y2), of the halves of each scale.
Values residual(LayerBuilder& graph, ValueSpan x, const RevbifpnSettings& settings) {
  Blocks blocks(graph);
  Values streams(x.begin(), x.end());
  for (std::size_t scale = 0; 2 * scale < x.size(); ++scale) {
    Value &first = streams[2 * scale], &second = streams[2 * scale + 1];
    const Blocks::MBConv block{settings.channels[scale] / 2, settings.kernels[scale], 1, settings.expansions[scale],
                               settings.squeezes[scale]};
    second = graph.couple(second, blocks.mbconv(first, block, "f." + std::to_string(scale)));
    first = graph.couple(first, blocks.mbconv(second, block, "g." + std::to_string(scale)));
  }
  return streams;
}

// RevSilo. First each scale gets what comes from finer ones, the coarsest first, so that these are as they came; and
// the new one, with which `scales` are one more than come in, begins. Then, the finest first, what comes from coarser.
Values silo(LayerBuilder& graph, ValueSpan x, std::size_t scales, const RevbifpnSettings& settings) {
  Blocks blocks(graph);
  Values streams(x.begin(), x.end());
  streams.resize(2 * scales);
  const auto read = [&](std::size_t scale) { return blocks.whole(streams[2 * scale], streams[2 * scale + 1]); };
  const auto add = [&](std::size_t scale, Value branch, bool begins) {
    const Values parts = blocks.halves(branch);
    const Values sums =
        begins ? graph.streams(parts) : graph.couple({streams[2 * scale], streams[2 * scale + 1]}, parts);
    streams[2 * scale] = sums[0];
    streams[2 * scale + 1] = sums[1];
  };
  for (std::size_t to = scales - 1; to > 0; --to) {
    for (std::size_t from = 0; from < to; ++from) {
      const int stride = 1 << (to - from);
      const Value down = blocks.mbconv(read(from),
                                       {settings.channels[to], 2 * stride - 1 + settings.widened[from], stride,
                                        settings.expansions[from], settings.squeezes[from]},
                                       at("down", from, to));
      add(to, down, /*begins=*/from == 0 && 2 * to >= x.size());
    }
  }
  for (std::size_t to = 0; to + 1 < scales; ++to) {
    for (std::size_t from = scales - 1; from > to; --from) {
      const int factor = 1 << (from - to);
      const Value made = blocks.mbconv(
          read(from),
          {settings.channels[to], 3 + settings.widened[from], 1, settings.expansions[to], settings.squeezes[to]},
          at("up", from, to));
      add(to, graph.upsample(made, {factor, factor}), /*begins=*/false);
    }
  }
  return streams;
}

// Neck and head: logits.
Values head(LayerBuilder& graph, ValueSpan x, const RevbifpnSettings& settings) {
  Blocks blocks(graph);
  const auto block = [&](std::size_t in, std::int64_t out, int stride) {
    return Blocks::MBConv{out, settings.head_kernel, stride, settings.head_expansions[in], settings.head_squeezes[in]};
  };
  Value sum;
  for (std::size_t scale = 0; scale < settings.channels.size(); ++scale) {
    const std::int64_t out = settings.head_channels[scale];
    const Value own = blocks.mbconv(blocks.whole(x[2 * scale], x[2 * scale + 1]), block(scale, out, 1),
                                    "neck." + std::to_string(scale));
    if (scale == 0) {
      sum = own;
      continue;
    }
    sum = graph.add(own, blocks.mbconv(sum, block(scale - 1, out, 2), "down." + std::to_string(scale)));
  }
  sum = graph.hard_swish(blocks.convolution(sum, settings.features, 1, 1, false, "features"));
  const Value features = graph.dropout(graph.reshape(graph.mean(sum, {1, 2}), {settings.features}), settings.dropout);
  const double bound = 1 / std::sqrt(static_cast<double>(settings.features));
  const Value w = graph.matrix("classes.weight", settings.classes, settings.features, Distribution::uniform(bound));
  return {graph.linear_transposed(features, w,
                                  graph.vector("classes.bias", settings.classes, Distribution::uniform(bound)))};
}

void check(const RevbifpnSettings& settings) {
  const std::size_t scales = settings.channels.size();
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw BadInput("revbifpn: " + what);
  };
  require(scales >= 2 && scales <= 8, "2 to 8 scales");
  for (const std::size_t size :
       {settings.kernels.size(), settings.widened.size(), settings.expansions.size(), settings.squeezes.size(),
        settings.head_channels.size(), settings.head_expansions.size(), settings.head_squeezes.size()}) {
    require(size == scales, "all lists have an entry for each of the " + std::to_string(scales) + " scales");
  }
  for (const std::int64_t side : settings.image) {
    require(side > 0 && side % (kStem << (scales - 1)) == 0,
            "an image of " + std::to_string(side) + " pixels: the sides of one with " + std::to_string(scales) +
                " scales are multiples of " + std::to_string(kStem << (scales - 1)));
  }
  require(settings.channels[0] % (kStem * kStem) == 0 && settings.image_channels >= 1 &&
              settings.channels[0] / (kStem * kStem) >= settings.image_channels,
          std::to_string(settings.channels[0]) +
              " channels of the finest scale: a multiple of 16, and 16 for each of " + "the image's " +
              std::to_string(settings.image_channels));
  const auto positive = [](std::int64_t number) { return number >= 1; };
  require(std::ranges::all_of(settings.channels, [](std::int64_t each) { return each >= 2 && each % 2 == 0; }),
          "channels are even");
  require(std::ranges::all_of(settings.kernels, [](int each) { return each >= 1 && each % 2 == 1; }) &&
              settings.head_kernel >= 1 && settings.head_kernel % 2 == 1,
          "kernels are odd");
  require(std::ranges::all_of(settings.widened, [](int each) { return each >= 0 && each % 2 == 0; }),
          "what kernels are widened by is even");
  require(std::ranges::all_of(settings.expansions, positive) &&
              std::ranges::all_of(settings.head_expansions, positive) &&
              std::ranges::all_of(settings.head_channels, positive) && positive(settings.features) &&
              positive(settings.classes) && settings.residual_blocks >= 0 && settings.extra >= 0,
          "counts are positive");
}

}  // namespace

RevbifpnSettings revbifpn_settings(int scale) {
  struct Size {
    std::int64_t image;
    int thirds, extra;  // width in thirds of that of S0
    double dropout;
  };
  static constexpr Size kSizes[] = {{224, 3, 2, 0.25}, {256, 4, 2, 0.25}, {256, 6, 2, 0.3}, {288, 8, 3, 0.3},
                                    {320, 12, 4, 0.4}, {352, 16, 4, 0.4}, {352, 20, 5, 0.6}};
  if (scale < 0 || static_cast<std::size_t>(scale) >= std::size(kSizes)) {
    throw BadInput("revbifpn: there is no RevBiFPN-S" + std::to_string(scale) + "; S0 to S6 were published");
  }
  const Size& size = kSizes[scale];
  RevbifpnSettings settings;
  const auto widen = [&](std::int64_t& channels) { channels = channels * size.thirds / 3 / 16 * 16; };
  std::ranges::for_each(settings.channels, widen);
  std::ranges::for_each(settings.head_channels, widen);
  widen(settings.features);
  settings.image = {size.image, size.image};
  settings.extra = size.extra;
  settings.dropout = size.dropout;
  return settings;
}

ModelOptions revbifpn(const RevbifpnSettings& settings, const std::string& reversible) {
  check(settings);
  ModelOptions model{.architecture = "custom", .reversible = reversible};
  model.inputs = {{.name = "image", .shape = {settings.image[0], settings.image[1], settings.image_channels}}};
  model.targets = {{.name = "class", .element = TensorSpec::Element::i32, .below = settings.classes}};
  model.loss = [](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    return graph.cross_entropy(outputs[0], targets[0]);
  };
  const auto add = [&](const std::string& type, Layer::Build build) {
    model.blocks.push_back(
        {.id = static_cast<std::uint32_t>(model.blocks.size()), .type = type, .build = std::move(build)});
  };
  const auto add_round = [&](std::size_t before, std::size_t after) {
    for (int i = 0; i < settings.residual_blocks; ++i) {
      add("residual." + std::to_string(before),
          [settings](LayerBuilder& graph, ValueSpan x) { return residual(graph, x, settings); });
    }
    add(at("silo", before, after),
        [settings, after](LayerBuilder& graph, ValueSpan x) { return silo(graph, x, after, settings); });
  };
  add("stem", [settings](LayerBuilder& graph, ValueSpan x) { return stem(graph, x, settings); });
  const std::size_t scales = settings.channels.size();
  for (std::size_t scale = 1; scale < scales; ++scale) add_round(scale, scale + 1);
  for (int i = 0; i < settings.extra; ++i) add_round(scales, scales);
  add("head", [settings](LayerBuilder& graph, ValueSpan x) { return head(graph, x, settings); });
  return model;
}

}  // namespace l2l
