"""RevBiFPN in PyTorch, by the equations of Chiley et al. (2023), with the names and shapes that include/l2l/revbifpn.h gives its
parameters: a weight is [out, height x width x in]. Nothing is rebuilt."""
import dataclasses
import functools

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def batch_norm(p, x, key, epsilon):
    return F.batch_norm(x, None, None, p[f"{key}.weight"], p[f"{key}.bias"], training=True, eps=epsilon)


@dataclasses.dataclass(frozen=True)
class Block:
    """An MBConv block."""
    name: str
    inputs: int
    out: int
    kernel: int
    stride: int
    expansion: int
    squeeze: float


@dataclasses.dataclass(frozen=True)
class RevBiFPN:
    """The settings of include/l2l/revbifpn.h; by default those of S0. batch_norm(p, x, key, epsilon): of a channel each;
    in_stream(x): how a stream keeps the image, and what is added to it; memory_format: of streams and of kernels, of which the
    contiguous ones are [out, in x height x width], as PyTorch keeps them."""
    channels: tuple = (48, 64, 80, 160)
    kernels: tuple = (3, 5, 5, 5)
    widened: tuple = (0, 0, 0, 2)
    expansions: tuple = (1, 1, 2, 2)
    squeezes: tuple = (0.25, 0.25, 0.125, 0)
    residual_blocks: int = 2
    extra: int = 2
    head_channels: tuple = (48, 64, 128, 320)
    head_expansions: tuple = (1, 2, 2, 2)
    head_squeezes: tuple = (0.25, 0.25, 0.125, 0.125)
    head_kernel: int = 5
    features: int = 1280
    dropout: float = 0
    classes: int = 1000
    batch_norm: object = batch_norm
    in_stream: object = lambda x: x
    memory_format: object = torch.channels_last

    @functools.cached_property
    def layers(self):
        """(kind, scales in, scales out) of each layer between stem and head, which are layer 1 and on."""
        scales, layers = len(self.channels), []
        for before, after in [(n, n + 1) for n in range(1, scales)] + self.extra * [(scales, scales)]:
            layers += self.residual_blocks * [("residual", before, before)] + [("silo", before, after)]
        return layers

    def residual(self, scale):
        half = self.channels[scale] // 2
        return [Block(f"{name}.{scale}", half, half, self.kernels[scale], 1, self.expansions[scale], self.squeezes[scale])
                for name in "fg"]

    def down(self, start, end):
        stride = 2 ** (end - start)
        return Block(f"down.{start}.{end}", self.channels[start], self.channels[end], 2 * stride - 1 + self.widened[start], stride,
                     self.expansions[start], self.squeezes[start])

    def up(self, start, end):
        return Block(f"up.{start}.{end}", self.channels[start], self.channels[end], 3 + self.widened[start], 1,
                     self.expansions[end], self.squeezes[end])

    def neck(self, scale):
        return Block(f"neck.{scale}", self.channels[scale], self.head_channels[scale], self.head_kernel, 1,
                     self.head_expansions[scale], self.head_squeezes[scale])

    def head_down(self, scale):
        return Block(f"down.{scale}", self.head_channels[scale - 1], self.head_channels[scale], self.head_kernel, 2,
                     self.head_expansions[scale - 1], self.head_squeezes[scale - 1])

    def shapes(self):
        """Of all parameters and running statistics, by name."""
        shapes = {}

        def add_normed(key, out, inputs):
            shapes[f"{key}.weight"] = (out, inputs)
            shapes.update({f"{key}.norm.{name}": (out,) for name in ("weight", "bias", "running_mean", "running_var")})

        def add_linear(key, out, inputs):
            shapes.update({f"{key}.weight": (out, inputs), f"{key}.bias": (out,)})

        def add(layer, block):
            key, wide = f"layers.{layer}.{block.name}", block.inputs * block.expansion
            if block.expansion > 1:
                add_normed(f"{key}.expand", wide, block.inputs)
            add_normed(f"{key}.depthwise", wide, block.kernel ** 2)
            if block.squeeze > 0:
                few = max(1, int(block.inputs * block.squeeze))
                add_linear(f"{key}.squeeze.reduce", few, wide)
                add_linear(f"{key}.squeeze.expand", wide, few)
            add_normed(f"{key}.project", block.out, wide)

        for layer, (kind, _, scales) in enumerate(self.layers, 1):
            if kind == "residual":
                for block in (block for scale in range(scales) for block in self.residual(scale)):
                    add(layer, block)
            else:
                for i, j in ((i, j) for i in range(scales) for j in range(scales) if i != j):
                    add(layer, self.down(i, j) if i < j else self.up(i, j))
        head = len(self.layers) + 1
        for scale in range(len(self.channels)):
            add(head, self.neck(scale))
        for scale in range(1, len(self.channels)):
            add(head, self.head_down(scale))
        add_normed(f"layers.{head}.features", self.features, self.head_channels[-1])
        add_linear(f"layers.{head}.classes", self.classes, self.features)
        return shapes

    def convolution(self, p, x, key, kernel=1, stride=1, groups=1):
        w = p[f"{key}.weight"]
        if self.memory_format == torch.channels_last:
            w = w.reshape(w.shape[0], kernel, kernel, x.shape[1] // groups).permute(0, 3, 1, 2)
        else:
            w = w.reshape(w.shape[0], x.shape[1] // groups, kernel, kernel)
        return self.batch_norm(p, F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups), f"{key}.norm", 1e-3)

    def mbconv(self, p, x, layer, block):
        key = f"layers.{layer}.{block.name}"
        linear = lambda y, name: F.linear(y, p[f"{key}.squeeze.{name}.weight"], p[f"{key}.squeeze.{name}.bias"])
        if block.expansion > 1:
            x = F.hardswish(self.convolution(p, x, f"{key}.expand"))
        x = F.hardswish(self.convolution(p, x, f"{key}.depthwise", block.kernel, block.stride, groups=x.shape[1]))
        if block.squeeze > 0:
            few = F.hardswish(linear(x.mean((2, 3)), "reduce"))
            x = x * F.hardsigmoid(linear(few, "expand"))[:, :, None, None]
        return self.convolution(p, x, f"{key}.project")

    def stem(self, x):
        n, height, width, colors = x.shape
        channels = self.channels[0] // 16
        x = torch.cat([x] * (channels // colors) + [x[..., :channels % colors]], 3)
        x = x.reshape(n, height // 4, 4, width // 4, 4, channels).permute(0, 2, 4, 5, 1, 3)
        x = x.reshape(n, 16 * channels, height // 4, width // 4)
        return self.in_stream(x.contiguous(memory_format=self.memory_format))

    def round(self, p, layer, *pyramid):
        """Layer `layer`, from the scales before it to those after it."""
        kind, _, scales = self.layers[layer - 1]
        pyramid = list(pyramid)
        if kind == "residual":
            for scale in range(scales):
                first, second = pyramid[scale].chunk(2, 1)
                f, g = self.residual(scale)
                second = second + self.in_stream(self.mbconv(p, first, layer, f))
                first = first + self.in_stream(self.mbconv(p, second, layer, g))
                pyramid[scale] = torch.cat((first, second), 1)
            return pyramid
        finer = [sum(self.in_stream(self.mbconv(p, pyramid[start], layer, self.down(start, end)))
                     for start in range(min(end, len(pyramid)))) for end in range(scales)]
        pyramid = [new if scale >= len(pyramid) else pyramid[scale] + new for scale, new in enumerate(finer)]

        return [pyramid[end] + sum(self.larger(p, pyramid[start], layer, start, end) for start in range(end + 1, scales))
                for end in range(scales)]

    def larger(self, p, x, layer, start, end):
        y = self.mbconv(p, x, layer, self.up(start, end))
        return self.in_stream(F.interpolate(y, scale_factor=2 ** (start - end), mode="bilinear", align_corners=False))

    def head(self, p, *pyramid):
        layer = len(self.layers) + 1
        necks = [self.mbconv(p, x, layer, self.neck(scale)) for scale, x in enumerate(pyramid)]
        y = necks[0]
        for scale in range(1, len(necks)):
            y = necks[scale] + self.mbconv(p, y, layer, self.head_down(scale))
        y = F.hardswish(self.convolution(p, y, f"layers.{layer}.features")).mean((2, 3))
        return F.linear(F.dropout(y, self.dropout), p[f"layers.{layer}.classes.weight"], p[f"layers.{layer}.classes.bias"])

    def forward(self, p, x, checkpointed=False):
        """Logits of images [samples, height, width, channels]."""
        run = functools.partial(checkpoint, use_reentrant=False) if checkpointed else lambda function, *rest: function(*rest)
        pyramid = [self.stem(x)]
        for layer in range(1, len(self.layers) + 1):
            pyramid = run(self.round, p, layer, *pyramid)
        return run(self.head, p, *pyramid)


SIZES = ((224, 3, 2), (256, 4, 2), (256, 6, 2), (288, 8, 3), (320, 12, 4), (352, 16, 4), (352, 20, 5))  # image, thirds, extra


def published(scale):
    """RevBiFPN-S0 to S6, and the side of its images."""
    image, thirds, extra = SIZES[scale]
    widen = lambda channels: channels * thirds // 3 // 16 * 16
    plain = RevBiFPN()
    return dataclasses.replace(plain, channels=tuple(map(widen, plain.channels)), features=widen(plain.features), extra=extra,
                               head_channels=tuple(map(widen, plain.head_channels))), image
