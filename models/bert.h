// BERT (Devlin et al., 2019) as an encoder that is trained on masked tokens: learned positions, post-norm blocks, GELU
// (exact), attention both ways, tied table with a bias. All tokens are of type 0, and there is no pooler and no
// next-sentence head. Names and layouts of parameters are those of the Hugging Face files (BertForMaskedLM).
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

Model make_bert(const TransformerShape& shape);

}  // namespace l2l::models
