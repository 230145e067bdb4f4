// A model as a GGUF file has it: keys, and which tensor comes from which parameter. Source of names and keys: the
// gguf specification and llama.cpp's loaders.
#pragma once

#include <string>
#include <vector>

#include "core/model_layout.h"
#include "formats/gguf.h"
#include "l2l/options.h"

namespace l2l::models {

// How a parameter becomes a tensor of the file.
struct GgufSource {
  const ParameterSpec* parameter = nullptr;
  bool transposed = false;  // GPT-2's matrices are [in, out] here, [out, in] there
  // Rows of this many heads are reordered: here the two halves of a head turn together, there neighbours do. 0: none.
  std::int64_t heads = 0;
  float added = 0;  // to every element: RMS norms multiply by 1 + weight here, by the weight there

  // The row of the parameter that is row `row` of the tensor.
  std::int64_t row_of(std::int64_t row, std::int64_t rows) const;
};

struct GgufModel {
  formats::GgufMetadata metadata;  // all but the tokenizer's keys
  std::vector<formats::GgufTensor> tensors;
  std::vector<GgufSource> sources;        // of the first tensors, each
  std::vector<float> frequency_divisors;  // of the last tensor, where there is one more
  std::vector<std::string> remarks;       // what the file says less exactly than the model, for the user
};

// `layout`: of make_model(model); its parameters are pointed to. Matrices get `type`; norms, biases and tables of
// positions f32; with q8_0, matrices whose rows are no whole blocks f16. Throws BadInput naming the option that
// llama.cpp cannot express for this architecture, and the way out.
GgufModel gguf_model(const ModelOptions& model, const ModelLayout& layout, formats::GgufType type);

}  // namespace l2l::models
