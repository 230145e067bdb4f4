#include "models/hub/gguf.h"

#include <array>
#include <optional>
#include <string_view>

#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/gguf_metadata.h"

namespace l2l::models {
namespace {

using formats::GgufTensor;
using formats::GgufType;

struct Name {
  std::string_view here, there;
};

// Of modules outside blocks.
constexpr std::array<Name, 6> kOutside = {{{"wte", "token_embd"},
                                           {"wpe", "position_embd"},
                                           {"ln_f", "output_norm"},
                                           {"model.embed_tokens", "token_embd"},
                                           {"model.norm", "output_norm"},
                                           {"lm_head", "output"}}};

// Of modules in a block.
constexpr std::array<Name, 18> kInBlocks = {{{"ln_1", "attn_norm"},
                                             {"attn.c_attn", "attn_qkv"},
                                             {"attn.c_proj", "attn_output"},
                                             {"ln_2", "ffn_norm"},
                                             {"mlp.c_fc", "ffn_up"},
                                             {"mlp.c_proj", "ffn_down"},
                                             {"input_layernorm", "attn_norm"},
                                             {"self_attn.q_proj", "attn_q"},
                                             {"self_attn.k_proj", "attn_k"},
                                             {"self_attn.v_proj", "attn_v"},
                                             {"self_attn.o_proj", "attn_output"},
                                             {"self_attn.q_norm", "attn_q_norm"},
                                             {"self_attn.k_norm", "attn_k_norm"},
                                             {"mlp.gate_proj", "ffn_gate"},
                                             {"mlp.up_proj", "ffn_up"},
                                             {"mlp.down_proj", "ffn_down"},
                                             {"pre_feedforward_layernorm", "ffn_norm"},
                                             {"post_feedforward_layernorm", "post_ffw_norm"}}};

template <typename Names>
std::optional<std::string> translate(const Names& names, std::string_view module) {
  for (const Name& name : names) {
    if (name.here == module) return std::string(name.there);
  }
  return std::nullopt;
}

// "model.layers.3.mlp.up_proj" -> "3" and "mlp.up_proj"; nothing outside blocks.
std::optional<std::pair<std::string, std::string_view>> block_of(std::string_view module) {
  for (const std::string_view prefix : {"h.", "model.layers."}) {
    if (!module.starts_with(prefix)) continue;
    const std::string_view rest = module.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    return {{std::string(rest.substr(0, dot)), rest.substr(dot + 1)}};
  }
  return std::nullopt;
}

std::string tensor_name(const std::string& parameter, bool gemma) {
  const std::size_t dot = parameter.rfind('.');
  const std::string_view module = std::string_view(parameter).substr(0, dot);
  const std::string kind = parameter.substr(dot);  // ".weight" or ".bias"
  const auto block = block_of(module);
  if (!block) {
    if (const auto name = translate(kOutside, module)) return *name + kind;
  } else {
    const auto& [number, within] = *block;
    // Llama's is before the MLP, Gemma's behind attention.
    const auto name = within == "post_attention_layernorm"
                          ? std::optional<std::string>(gemma ? "post_attention_norm" : "ffn_norm")
                          : translate(kInBlocks, within);
    if (name) return "blk." + number + "." + *name + kind;
  }
  throw Error("parameter " + parameter + " has no name in GGUF files");
}

GgufSource source_of(const ParameterSpec& parameter, const ModelOptions& model, bool gemma) {
  GgufSource source{.parameter = &parameter};
  const std::string& name = parameter.name;
  const bool matrix = parameter.shape.rank() == 2, norm = name.find("norm") != std::string::npos;
  source.transposed = model.architecture == "gpt2" && matrix && name.starts_with("h.");
  if (gemma && norm) source.added = 1;
  const bool interleaves = model.architecture == "llama" || model.architecture == "mistral";
  if (interleaves && name.find(".q_proj.") != std::string::npos) source.heads = model.heads;
  if (interleaves && name.find(".k_proj.") != std::string::npos) source.heads = model.kv_heads;
  return source;
}

GgufTensor tensor_of(const GgufSource& source, bool gemma, GgufType type) {
  GgufTensor tensor{tensor_name(source.parameter->name, gemma), source.parameter->shape, GgufType::f32};
  if (tensor.shape.rank() < 2) return tensor;
  if (source.transposed) tensor.shape = {tensor.shape[1], tensor.shape[0]};
  if (tensor.name == "position_embd.weight") return tensor;
  const bool whole_blocks = tensor.shape[1] % formats::kGgufBlock == 0;
  tensor.type = type == GgufType::q8_0 && !whole_blocks ? GgufType::f16 : type;
  return tensor;
}

}  // namespace

std::int64_t GgufSource::row_of(std::int64_t row, std::int64_t rows) const {
  if (heads == 0) return row;
  const std::int64_t head = rows / heads, within = row % head;
  return row - within + within % 2 * (head / 2) + within / 2;
}

GgufModel gguf_model(const ModelOptions& options, const ModelLayout& layout, GgufType type) {
  const ModelOptions model = with_defaults(options);
  GgufModel gguf;
  gguf.metadata = gguf_metadata(model, type, gguf.remarks);
  const bool gemma = architecture_of(model.architecture).soft_caps;
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      gguf.sources.push_back(source_of(parameter, model, gemma));
      gguf.tensors.push_back(tensor_of(gguf.sources.back(), gemma, type));
    }
  }
  gguf.frequency_divisors = gguf_frequency_divisors(model);
  if (!gguf.frequency_divisors.empty()) {
    gguf.tensors.push_back({"rope_freqs.weight", {static_cast<std::int64_t>(gguf.frequency_divisors.size())}});
  }
  return gguf;
}

}  // namespace l2l::models
