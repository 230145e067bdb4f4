"""The models of shapes.py in PyTorch, as one would write them there."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def make_model(shape, recompute):
    """`recompute`: every block is recomputed in the backward pass. forward(tokens, targets) is the sum of the losses."""
    hidden, head = shape.hidden, shape.hidden // shape.heads
    llama, bert = shape.architecture == "llama", shape.architecture == "bert"

    def norm():
        return nn.RMSNorm(hidden, eps=1e-5) if llama else nn.LayerNorm(hidden)

    def turned(x, cosine, sine):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.widths = [n * head for n in (shape.heads, shape.kv_heads, shape.kv_heads)]
            self.norm_1, self.norm_2 = norm(), norm()
            self.qkv = nn.Linear(hidden, sum(self.widths), bias=not llama)
            self.projection = nn.Linear(hidden, hidden, bias=not llama)
            self.wide = nn.Linear(hidden, shape.intermediate * (2 if llama else 1), bias=not llama)
            self.narrow = nn.Linear(shape.intermediate, hidden, bias=not llama)

        def attention(self, x, cosine, sine):
            q, k, v = (part.unflatten(-1, (-1, head)).transpose(1, 2) for part in self.qkv(x).split(self.widths, -1))
            if llama:
                q, k = turned(q, cosine, sine), turned(k, cosine, sine)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=not bert,
                                                        enable_gqa=shape.kv_heads != shape.heads)
            return self.projection(y.transpose(1, 2).flatten(-2))

        def mlp(self, x):
            x = self.wide(x)
            if llama:
                gate, up = x.chunk(2, -1)
                return self.narrow(functional.silu(gate) * up)
            return self.narrow(functional.gelu(x, approximate="none" if bert else "tanh"))

        def forward(self, x, cosine, sine):
            if bert:
                x = self.norm_1(x + self.attention(x, cosine, sine))
                return self.norm_2(x + self.mlp(x))
            x = x + self.attention(self.norm_1(x), cosine, sine)
            return x + self.mlp(self.norm_2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(shape.vocabulary, hidden)
            self.places = None if llama else nn.Embedding(shape.sequence, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.norm = norm()
            self.head = nn.Linear(hidden, shape.vocabulary, bias=False)
            if not llama:
                self.head.weight = self.table.weight

        def angles(self, x):
            place = torch.arange(shape.sequence, device=x.device, dtype=torch.float32)
            speed = 10000.0 ** (-torch.arange(0, head, 2, device=x.device, dtype=torch.float32) / head)
            angle = torch.outer(place, speed)
            return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        def forward(self, tokens, targets):
            x = self.table(tokens)
            if self.places is not None:
                x = x + self.places.weight
            cosine, sine = self.angles(x) if llama else (None, None)
            for block in self.blocks:
                x = checkpoint(block, x, cosine, sine, use_reentrant=False) if recompute else block(x, cosine, sine)
            return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten(), reduction="sum")

    return Model()
