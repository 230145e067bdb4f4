// The keys of a GGUF file that say what a model is.
#pragma once

#include <string>
#include <vector>

#include "formats/gguf.h"
#include "l2l/options.h"

namespace l2l::models {

// `model` with all defaults set (with_defaults()). `remarks`: gets what the user should know of the file. Throws
// BadInput naming the option that llama.cpp cannot express.
formats::GgufMetadata gguf_metadata(const ModelOptions& model, formats::GgufType type,
                                    std::vector<std::string>& remarks);

// By how much each pair of elements of a head turns slower than without scaling, where a tensor says so (llama3), else
// empty.
std::vector<float> gguf_frequency_divisors(const ModelOptions& model);

}  // namespace l2l::models
