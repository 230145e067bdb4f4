// BERT (Devlin et al., 2019), an encoder trained on masked tokens: learned positions, post-norm blocks, exact GELU,
// bidirectional attention, a tied table with a bias. All tokens are of type 0; there is no pooler and no next-sentence
// head. RoBERTa (Liu et al., 2019) differs in names and in where positions begin (shape.first_position). Names and
// layouts of parameters are those of the Hugging Face files (BertForMaskedLM, RobertaForMaskedLM).
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

Model make_bert(const TransformerShape& shape);
Model make_roberta(const TransformerShape& shape);

}  // namespace l2l::models
