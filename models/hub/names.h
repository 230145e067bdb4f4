// The names of parameters in Hugging Face files. Layouts (core/model_layout.h) have those of the class with the head
// (GPT2LMHeadModel without its prefix "transformer.", BertForMaskedLM, LlamaForCausalLM, ...).
#pragma once

#include <string>
#include <vector>

#include "models/architecture.h"

namespace l2l::models {

// The name under which save_pretrained() writes a parameter.
std::string hub_name(const Architecture& architecture, const std::string& parameter);
// Every name under which a file may have it: with and without the prefix of the base model, with the names of older
// versions; of a tied table that of the head's, too.
std::vector<std::string> names_in_files(const Architecture& architecture, const std::string& parameter, bool tied);
// Whether a parameter belongs to the head that a base model (BertModel, LlamaModel) has not.
bool belongs_to_head(const std::string& parameter);
// Whether a parameter of such a head has a row for each class.
bool tells_classes(const std::string& parameter);
// Whether a tensor that no parameter uses is left out on purpose: masks and positions that are buffers, BERT's pooler
// and next-sentence head.
bool is_unused(const std::string& tensor);
// Whether the tensor is one of a head that predicts tokens.
bool predicts_tokens(const std::string& tensor);
// Whether it is one of a head that is not built: for spans, or GPT-2's second one.
bool is_of_other_head(const std::string& tensor);

}  // namespace l2l::models
