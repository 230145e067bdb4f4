#include "optimizers/format.h"

#include <string>

#include "l2l/errors.h"

namespace l2l::optimizers {

MomentFormats parse_moment_formats(std::string_view name) {
  std::string choices;
  for (const NamedMomentFormats& choice : kMomentFormatNames) {
    if (choice.name == name) return choice.formats;
    choices += (choices.empty() ? "\"" : ", \"") + std::string(choice.name) + "\"";
  }
  throw BadInput("formats of moments: \"" + std::string(name) + "\" is none of " + choices);
}

std::size_t index_of(MomentFormats formats) {
  for (std::size_t i = 0; i < kMomentPairs; ++i) {
    if (kMomentFormatNames[i].formats == formats) return i;
  }
  throw BadInput("formats of moments: no kernel keeps the first in " + std::string(name_of(formats.first)) +
                 " and the second in " + std::string(name_of(formats.second)));
}

std::string_view name_of(MomentFormats formats) { return kMomentFormatNames[index_of(formats)].name; }

std::string_view name_of(MomentFormat format) {
  return format == MomentFormat::f32 ? "fp32" : format == MomentFormat::bf16 ? "bf16" : "int8";
}

}  // namespace l2l::optimizers
