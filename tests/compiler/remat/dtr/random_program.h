// Random programs as a trace's records, and their text.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace l2l::compiler::remat::dtr {

struct Instruction {
  enum Kind : std::uint8_t { constant, call, mutate, copy, copy_from, release };
  Kind kind;
  std::string name;                  // of the constant, or of what is released
  std::vector<std::string> args;     // of call and mutate
  std::vector<std::string> results;  // of call
  std::vector<std::int64_t> sizes;   // of the constant, or of the results; an alias has none
  std::vector<int> aliases;          // per result: place in args, or -1
  std::vector<int> mutated;          // places in args
  std::int64_t time = 0;
  std::string destination, source;  // of copy and copy_from
};
using Program = std::vector<Instruction>;

struct ProgramShape {
  int instructions = 30;
  std::int64_t largest = 12;  // bytes
  std::int64_t longest = 9;   // ns
  int hub = 0;                // of 100 arguments, how many are the oldest tensor that is still held
  bool use_released = false;  // arguments may be names that were released, which the semantics allow
};

Program random_program(std::mt19937_64& random, const ProgramShape& shape);

// As JSON lines, from START on.
std::string text_of(const Program& program);

}  // namespace l2l::compiler::remat::dtr
