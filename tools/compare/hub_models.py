"""Small Hugging Face models of every family and of odd shapes, with random weights. Needs PyTorch and transformers."""
import torch
import transformers as t


def rope(kind, **more):
    return dict(rope_type=kind, rope_theta=10000.0, **more)


LLAMA = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
             pad_token_id=None)
GEMMA = dict(LLAMA, head_dim=16, sliding_window=7, num_hidden_layers=4, query_pre_attn_scalar=24)
BERT = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6,
            max_position_embeddings=64)

# Name: class of the config, its arguments, class of the model.
MODELS = {
    "gpt2": (t.GPT2Config, dict(vocab_size=131, n_embd=48, n_layer=2, n_head=6, n_positions=64), t.GPT2LMHeadModel),
    "gpt2-untied": (t.GPT2Config, dict(vocab_size=131, n_embd=48, n_layer=2, n_head=6, n_positions=64, n_inner=100,
                                       activation_function="gelu", tie_word_embeddings=False), t.GPT2LMHeadModel),
    "bert": (t.BertConfig, dict(BERT), t.BertForMaskedLM),
    "bert-types": (t.BertConfig, dict(BERT, type_vocab_size=3, hidden_act="gelu_new"), t.BertForMaskedLM),
    "roberta": (t.RobertaConfig, dict(BERT, type_vocab_size=1, pad_token_id=1), t.RobertaForMaskedLM),
    "llama": (t.LlamaConfig, dict(LLAMA), t.LlamaForCausalLM),
    "llama-tied": (t.LlamaConfig, dict(LLAMA, tie_word_embeddings=True, num_key_value_heads=6), t.LlamaForCausalLM),
    "llama-biases": (t.LlamaConfig, dict(LLAMA, attention_bias=True, mlp_bias=True, head_dim=12), t.LlamaForCausalLM),
    "llama-linear": (t.LlamaConfig, dict(LLAMA, rope_parameters=rope("linear", factor=4.0)), t.LlamaForCausalLM),
    "llama-dynamic": (t.LlamaConfig, dict(LLAMA, max_position_embeddings=16,
                                          rope_parameters=rope("dynamic", factor=4.0)), t.LlamaForCausalLM),
    "llama-llama3": (t.LlamaConfig, dict(LLAMA, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
        t.LlamaForCausalLM),
    "llama-yarn": (t.LlamaConfig, dict(LLAMA, head_dim=32, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=32)), t.LlamaForCausalLM),
    "llama-yarn-scaled": (t.LlamaConfig, dict(LLAMA, head_dim=32, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.5, beta_fast=16,
        truncate=False)), t.LlamaForCausalLM),
    "mistral": (t.MistralConfig, dict(LLAMA, sliding_window=7), t.MistralForCausalLM),
    "mistral-full": (t.MistralConfig, dict(LLAMA, sliding_window=None, head_dim=20), t.MistralForCausalLM),
    "qwen2": (t.Qwen2Config, dict(LLAMA), t.Qwen2ForCausalLM),
    "qwen2-window": (t.Qwen2Config, dict(LLAMA, use_sliding_window=True, sliding_window=9, max_window_layers=1,
                                         tie_word_embeddings=True), t.Qwen2ForCausalLM),
    "qwen3": (t.Qwen3Config, dict(LLAMA, head_dim=20), t.Qwen3ForCausalLM),
    "qwen3-biases": (t.Qwen3Config, dict(LLAMA, head_dim=16, attention_bias=True), t.Qwen3ForCausalLM),
    "gemma2": (t.Gemma2Config, dict(GEMMA), t.Gemma2ForCausalLM),
    "gemma2-plain": (t.Gemma2Config, dict(GEMMA, attn_logit_softcapping=None, final_logit_softcapping=None,
                                          sliding_window=64), t.Gemma2ForCausalLM),
    "gemma3": (t.Gemma3TextConfig, dict(GEMMA, num_hidden_layers=7), t.Gemma3ForCausalLM),
    "gemma3-linear": (t.Gemma3TextConfig, dict(
        GEMMA, num_hidden_layers=3, final_logit_softcapping=10.0,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": rope("linear", factor=8.0),
                         "sliding_attention": dict(rope_type="default", rope_theta=500.0)}), t.Gemma3ForCausalLM),
}

SIZES = dict(vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
             max_position_embeddings=66, num_labels=3, pad_token_id=0)
DECODER = dict(SIZES, num_key_value_heads=2, head_dim=8)
# Of each family one config without dropout, for models with a head of any kind.
FAMILIES = {
    "gpt2": t.GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64, num_labels=3, pad_token_id=0,
                         resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, summary_first_dropout=0),
    "bert": t.BertConfig(**SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0),
    "roberta": t.RobertaConfig(**dict(SIZES, pad_token_id=1), type_vocab_size=1, hidden_dropout_prob=0,
                               attention_probs_dropout_prob=0),
    "llama": t.LlamaConfig(**DECODER),
    "mistral": t.MistralConfig(**DECODER, sliding_window=7),
    "qwen2": t.Qwen2Config(**SIZES, num_key_value_heads=2),
    "qwen3": t.Qwen3Config(**DECODER),
    "gemma2": t.Gemma2Config(**DECODER, query_pre_attn_scalar=8, sliding_window=7),
    "gemma3": t.Gemma3TextConfig(**DECODER, query_pre_attn_scalar=8, sliding_window=7),
}


def make(name, dtype=torch.float32, **more):
    """A model in evaluation mode, with weights large enough that every feature shows in its logits."""
    config_class, arguments, model_class = MODELS[name]
    torch.manual_seed(7)
    model = model_class(config_class(**dict(arguments, attn_implementation="eager", **more)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(dtype).eval()
