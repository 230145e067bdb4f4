#include "tests/compiler/remat/dtr/random_program.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace l2l::compiler::remat::dtr {
namespace {

using Json = nlohmann::ordered_json;

class Author {
 public:
  Author(std::mt19937_64& random, const ProgramShape& shape) : random_(random), shape_(shape) {}

  Program write() {
    for (std::int64_t i = draw(1, 3); i > 0; --i) add_constant();
    while (program_.size() < static_cast<std::size_t>(shape_.instructions)) add_any();
    for (std::size_t kept = draw(1, 3); held_.size() > kept;) add_release();
    return std::move(program_);
  }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return draw(1, 100) <= percent; }

  std::string fresh() { return "x" + std::to_string(names_++); }

  // Recent ones more often, so that programs are deep.
  const std::string& held() {
    const auto count = static_cast<std::int64_t>(held_.size());
    return held_[chance(60) ? draw(std::max<std::int64_t>(0, count - 4), count - 1) : draw(0, count - 1)];
  }

  const std::string& argument() {
    if (shape_.hub > 0 && chance(shape_.hub)) return held_.front();
    return shape_.use_released && !released_.empty() && chance(5) ? released_[draw(0, released_.size() - 1)] : held();
  }

  std::vector<std::string> arguments(std::int64_t least, std::int64_t most) {
    std::vector<std::string> args;
    for (std::int64_t i = draw(least, most); i > 0; --i) args.push_back(argument());
    return args;
  }

  void add_constant() {
    program_.push_back({Instruction::constant, fresh(), {}, {}, {draw(0, shape_.largest)}, {}, {}, 0, "", ""});
    held_.push_back(program_.back().name);
  }

  void add_call() {
    Instruction call{Instruction::call, "", arguments(0, 3), {}, {}, {}, {}, draw(0, shape_.longest), "", ""};
    for (std::int64_t i = chance(70) ? 1 : draw(1, 3); i > 0; --i) {
      call.results.push_back(fresh());
      const bool alias = !call.args.empty() && chance(25);
      call.aliases.push_back(alias ? static_cast<int>(draw(0, call.args.size() - 1)) : -1);
      call.sizes.push_back(alias ? 0 : draw(0, shape_.largest));
    }
    held_.insert(held_.end(), call.results.begin(), call.results.end());
    program_.push_back(std::move(call));
  }

  void add_mutate() {
    Instruction mutate{Instruction::mutate, "", {held()}, {}, {}, {}, {0}, draw(0, shape_.longest), "", ""};
    for (const std::string& other : arguments(0, 2)) {
      if (std::find(mutate.args.begin(), mutate.args.end(), other) == mutate.args.end()) mutate.args.push_back(other);
    }
    const std::string& last = mutate.args.back();
    const bool is_held = std::find(held_.begin(), held_.end(), last) != held_.end();
    if (mutate.args.size() > 1 && is_held && chance(40))
      mutate.mutated.push_back(static_cast<int>(mutate.args.size()) - 1);
    program_.push_back(std::move(mutate));
  }

  void add_copy() {
    program_.push_back({Instruction::copy, "", {}, {}, {}, {}, {}, 0, fresh(), held()});
    held_.push_back(program_.back().destination);
  }

  void add_copy_from() { program_.push_back({Instruction::copy_from, "", {}, {}, {}, {}, {}, 0, held(), held()}); }

  void add_release() {
    if (held_.size() < 2) return;
    const auto victim = held_.begin() + draw(0, held_.size() - 1);
    program_.push_back({Instruction::release, *victim, {}, {}, {}, {}, {}, 0, "", ""});
    released_.push_back(*victim);
    held_.erase(victim);
  }

  void add_any() {
    const std::int64_t kind = draw(1, 100);
    if (kind <= 55) return add_call();
    if (kind <= 62) return add_mutate();
    if (kind <= 67) return add_copy();
    if (kind <= 71) return add_copy_from();
    if (kind <= 73) return add_constant();
    add_release();
  }

  std::mt19937_64& random_;
  const ProgramShape shape_;
  Program program_;
  std::vector<std::string> held_, released_;  // names with a reference, and without
  int names_ = 0;
};

Json memory_of(const std::string& name, std::int64_t size) {
  return {{"INSTRUCTION", "MEMORY"}, {"NAME", name}, {"MEMORY", std::to_string(size)}};
}

std::vector<Json> records_of(const Instruction& i) {
  switch (i.kind) {
    case Instruction::constant:
      return {{{"INSTRUCTION", "CONSTANT"}, {"NAME", i.name}}, memory_of(i.name, i.sizes[0])};
    case Instruction::call: {
      std::vector<Json> records = {{{"INSTRUCTION", "CALL"},
                                    {"NAME", "op"},
                                    {"ARGS", i.args},
                                    {"RESULT", i.results},
                                    {"TIME", std::to_string(i.time)}}};
      for (std::size_t r = 0; r < i.results.size(); ++r) {
        records.push_back(memory_of(i.results[r], i.sizes[r]));
        records.push_back({{"INSTRUCTION", "ALIAS"}, {"NAME", i.results[r]}, {"ALIAS", std::to_string(i.aliases[r])}});
      }
      return records;
    }
    case Instruction::mutate:
      return {{{"INSTRUCTION", "MUTATE"},
               {"NAME", "op_"},
               {"ARGS", i.args},
               {"MUTATE", i.mutated},
               {"TIME", std::to_string(i.time)}}};
    case Instruction::copy:
      return {{{"INSTRUCTION", "COPY"}, {"DST", i.destination}, {"SRC", i.source}}};
    case Instruction::copy_from:
      return {{{"INSTRUCTION", "COPY_FROM"}, {"DST", i.destination}, {"SRC", i.source}}};
    case Instruction::release:
      return {{{"INSTRUCTION", "RELEASE"}, {"NAME", i.name}}};
  }
  return {};
}

}  // namespace

Program random_program(std::mt19937_64& random, const ProgramShape& shape) { return Author(random, shape).write(); }

std::string text_of(const Program& program) {
  std::string text = "{\"INSTRUCTION\": \"ANNOTATE\", \"ANNOTATION\": \"START\"}\n";
  for (const Instruction& instruction : program) {
    for (const Json& record : records_of(instruction)) text += record.dump() + "\n";
  }
  return text;
}

}  // namespace l2l::compiler::remat::dtr
