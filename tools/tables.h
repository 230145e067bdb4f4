// What l2l-plan and l2l-train say of a run before it begins, for people.
#pragma once

#include <cstdio>
#include <ostream>
#include <string>

#include "l2l/trainer.h"

namespace l2l::tools {

// What was chosen: a line of it, or all that it rests on.
enum class Choices { summary, reasons };

// Sentences are broken into lines of `columns`; rows of tables take 80.
void print_contract(std::ostream& out, int columns, const MemoryContract& contract, const Options& options,
                    Choices choices);
// The predicted time of a step.
void print_prediction(std::ostream& out, int columns, const StepPrediction& prediction);

// "9740 ms", "0.1254 ms": four digits, or the whole number.
std::string milliseconds(double ms);

// A line of text by a format of printf, at most 255 characters of it.
template <typename... Arguments>
std::string print(const char* format, Arguments... arguments) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), format, arguments...);
  return buffer;
}

}  // namespace l2l::tools
