// The families of models. Names and layouts of parameters are those of the Hugging Face files.
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks, GELU (tanh), causal attention, tied table.
Model make_gpt2(const TransformerShape& shape);

// BERT (Devlin et al., 2019; BertForMaskedLM), an encoder trained on masked tokens: learned positions, post-norm
// blocks, exact GELU, bidirectional attention, a tied table with a bias. All tokens are of type 0; there is no pooler
// and no next-sentence head. RoBERTa (Liu et al., 2019; RobertaForMaskedLM) differs in names and in where positions
// begin (shape.first_position).
Model make_bert(const TransformerShape& shape);
Model make_roberta(const TransformerShape& shape);

// Llama (Touvron et al., 2023; LlamaForCausalLM) and the families that vary it: rotary positions, pre-norm blocks with
// RMS norms, SwiGLU, grouped-query causal attention, and a table of the head's own unless it is tied. Mistral has
// layers that slide, Qwen2 biases of queries, keys and values, Qwen3 norms of queries and keys. shape.dropout is not
// used.
Model make_llama(const TransformerShape& shape);

// Gemma 2 and Gemma 3 (Gemma team, 2024 and 2025; Gemma2ForCausalLM, Gemma3ForCausalLM), text only: as Llama, but with
// RMS norms by 1 + weight before and after each branch, embeddings times sqrt(hidden), GELU (tanh) gates, caps of
// scores and logits, and layers that slide in turn with others. Gemma 3 also norms queries and keys. shape.dropout is
// not used.
Model make_gemma(const TransformerShape& shape);

// A program's own layers and loss, and nothing else (ModelOptions::blocks, inputs, targets, loss).
Model make_custom(const TransformerShape& shape);

}  // namespace l2l::models
