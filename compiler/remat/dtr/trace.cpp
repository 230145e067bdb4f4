#include "compiler/remat/dtr/trace.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <unordered_map>

#include "compiler/remat/dtr/record.h"
#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat::dtr {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kUsualLine = 4096;
constexpr std::int64_t kMost = std::int64_t{1} << 60;  // of bytes in all storages, and of time in all outputs

struct Tensor {
  Bytes size;     // of its storage
  Index storage;  // counted in order of appearance
  std::uint64_t references;
};

struct Name {
  Index tensor;
  std::size_t line;  // in which it was first there
};

// Reads line by line. Line numbers count from 1.
class Reader {
 public:
  Reader(std::istream& stream, const std::string& name) : stream_(stream), name_(name) {}

  Trace read() {
    skip_to_start();
    while (const std::optional<Record> record = next()) read_record(*record);
    for (const std::string& name : order_) pin_at_end(names_.at(name).tensor);
    return std::move(trace_);
  }

 private:
  // The next line that is not blank.
  std::optional<Record> next() {
    std::string_view line;
    do {
      ++number_;
      const std::size_t length = read_line();
      if (stream_.bad()) throw BadInput(name_ + ": cannot be read to its end");
      if (stream_.eof() && length == 0) return std::nullopt;
      if (stream_.fail()) throw BadInput(where() + ": is longer than " + std::to_string(kLongestLine) + " bytes");
      line = std::string_view(buffer_.data(), stream_.eof() ? length : length - 1);  // the line end counts
    } while (line.find_first_not_of(" \t\r") == line.npos);
    return Record(line, where());
  }

  // Into `buffer_`, which grows as lines need; the result counts the line end.
  std::size_t read_line() {
    for (std::size_t length = 0;;) {
      stream_.getline(buffer_.data() + length, static_cast<std::streamsize>(buffer_.size() - length));
      length += static_cast<std::size_t>(stream_.gcount());
      const bool full = stream_.fail() && !stream_.bad() && !stream_.eof();
      if (!full || buffer_.size() == kLongestLine + 2) return length;
      stream_.clear();
      buffer_.resize(std::min(2 * buffer_.size(), kLongestLine + 2));
    }
  }

  std::string where() const { return name_ + ":" + std::to_string(number_); }

  void skip_to_start() {
    while (const std::optional<Record> record = next()) {
      if (record->text("INSTRUCTION") == "ANNOTATE" && record->text("ANNOTATION") == "START") return;
    }
    throw BadInput(name_ + ": has no record {\"INSTRUCTION\": \"ANNOTATE\", \"ANNOTATION\": \"START\"}");
  }

  void read_record(const Record& record) {
    const std::string& instruction = record.text("INSTRUCTION");
    if (instruction == "CONSTANT") return read_constant(record);
    if (instruction == "CALL") return read_call(record);
    if (instruction == "MUTATE") return read_mutate(record);
    if (instruction == "COPY") return read_copy(record);
    if (instruction == "COPY_FROM") return read_copy_from(record);
    if (instruction == "RELEASE") return read_release(record);
    if (instruction == "ANNOTATE") return static_cast<void>(record.text("ANNOTATION"));
    if (instruction == "MEMORY" || instruction == "ALIAS") {
      record.refuse("INSTRUCTION: " + instruction + " stands where no tensor was just produced");
    }
    record.refuse("INSTRUCTION: '" + instruction +
                  "' is none of ANNOTATE, CONSTANT, CALL, MUTATE, COPY, COPY_FROM, RELEASE, MEMORY and ALIAS");
  }

  void read_constant(const Record& record) {
    const std::string& name = record.text("NAME");
    refuse_known(record, "NAME", name);
    const std::size_t line = number_;
    const Bytes bytes = read_memory(record, name);
    run(record, {0, {}, {{bytes, kNone}}});
    define(name, last_tensor(), line);
    act(Trace::Action::pin, last_tensor());
  }

  void read_call(const Record& record) {
    const std::vector<std::string> results = record.texts("RESULT");
    if (results.empty()) record.refuse("RESULT: is empty");
    record.text("NAME");
    Op op{record.number("TIME", 0, kMost), find_all(record, record.texts("ARGS")), {}};
    const auto first = static_cast<Index>(tensors_.size());
    const std::size_t line = number_;
    for (std::size_t i = 0; i < results.size(); ++i) {
      refuse_known(record, "RESULT", results[i]);
      define(results[i], static_cast<Index>(first + i), line);
      op.outputs.push_back(read_output(record, results[i], op.args.size()));
    }
    run(record, std::move(op));
  }

  Output read_output(const Record& call, const std::string& name, std::size_t args) {
    const Bytes bytes = read_memory(call, name);
    const Record record = following(call, "ALIAS", name);
    const std::int64_t alias = record.number("ALIAS", -1, static_cast<std::int64_t>(args) - 1);
    return alias < 0 ? Output{bytes, kNone} : Output{0, static_cast<Index>(alias)};
  }

  Bytes read_memory(const Record& producer, const std::string& name) {
    return static_cast<Bytes>(following(producer, "MEMORY", name).number("MEMORY", 0, kMost));
  }

  // The next record, which must be this instruction about `name`.
  Record following(const Record& producer, const char* instruction, const std::string& name) {
    std::optional<Record> record = next();
    if (!record) producer.refuse(std::string(instruction) + " of '" + name + "' is missing at the end of the file");
    if (record->text("INSTRUCTION") != instruction) {
      record->refuse("INSTRUCTION: " + std::string(instruction) + " of '" + name + "' is missing here");
    }
    if (record->text("NAME") != name) record->refuse("NAME: '" + record->text("NAME") + "' is not '" + name + "'");
    return std::move(*record);
  }

  // Copy on write: fresh tensors take the place of those that are written.
  void read_mutate(const Record& record) {
    const std::vector<std::string> args = record.texts("ARGS");
    record.text("NAME");
    Op op{record.number("TIME", 0, kMost), find_all(record, args), {}};
    const std::vector<std::int64_t> written = record.numbers("MUTATE", 0, static_cast<std::int64_t>(args.size()) - 1);
    if (written.empty()) record.refuse("MUTATE: is empty");
    for (const std::int64_t i : written) op.outputs.push_back({tensors_[op.args[i]].size, kNone});
    const auto first = static_cast<Index>(tensors_.size());
    run(record, std::move(op));
    for (std::size_t i = 0; i < written.size(); ++i) {
      Index& tensor = names_.at(args[written[i]]).tensor;
      release(record, "MUTATE", args[written[i]], tensor);
      tensor = static_cast<Index>(first + i);
    }
  }

  void read_copy(const Record& record) {
    const Index source = find(record, "SRC", record.text("SRC"));
    refuse_known(record, "DST", record.text("DST"));
    retain(record, source);
    define(record.text("DST"), source, number_);
  }

  void read_copy_from(const Record& record) {
    const Index source = find(record, "SRC", record.text("SRC"));
    const Index old = find(record, "DST", record.text("DST"));
    retain(record, source);
    release(record, "DST", record.text("DST"), old);
    names_.at(record.text("DST")).tensor = source;
  }

  // What was made before START may be released after it.
  void read_release(const Record& record) {
    const std::string& name = record.text("NAME");
    if (const auto found = names_.find(name); found != names_.end())
      release(record, "NAME", name, found->second.tensor);
  }

  void refuse_known(const Record& record, const char* field, const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) return;
    record.refuse(std::string(field) + ": '" + name + "' was there before, in line " +
                  std::to_string(found->second.line));
  }

  Index find(const Record& record, const char* field, const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) record.refuse(std::string(field) + ": there is no tensor '" + name + "'");
    return found->second.tensor;
  }

  std::vector<Index> find_all(const Record& record, const std::vector<std::string>& names) const {
    std::vector<Index> tensors;
    for (const std::string& name : names) tensors.push_back(find(record, "ARGS", name));
    return tensors;
  }

  void define(const std::string& name, Index tensor, std::size_t line) {
    names_.emplace(name, Name{tensor, line});
    order_.push_back(name);
  }

  Index last_tensor() const { return static_cast<Index>(tensors_.size() - 1); }

  void run(const Record& record, Op op) {
    std::vector<Tensor> made;
    for (const Output& output : op.outputs) {
      const bool alias = output.alias != kNone;
      if (!alias) add_to(bytes_, output.bytes, record, "MEMORY: brings the bytes of all storages");
      // An op counts in the cost of every storage that it writes.
      add_to(time_, static_cast<std::uint64_t>(op.time), record, "TIME: brings the time of all ops, by output,");
      made.push_back(alias ? Tensor{tensors_[op.args[output.alias]].size, tensors_[op.args[output.alias]].storage, 1}
                           : Tensor{output.bytes, static_cast<Index>(references_.size()), 1});
      if (!alias) references_.push_back(0);
      ++references_[made.back().storage];
    }
    tensors_.insert(tensors_.end(), made.begin(), made.end());
    trace_.time += op.time;
    act(Trace::Action::run, static_cast<Index>(trace_.ops.size()));
    trace_.ops.push_back(std::move(op));
  }

  static void add_to(std::uint64_t& sum, std::uint64_t more, const Record& record, const char* what) {
    sum += more;  // both are at most 2^60
    if (sum > static_cast<std::uint64_t>(kMost)) record.refuse(std::string(what) + " above 2^60");
  }

  void retain(const Record& record, Index tensor) {
    if (references_[tensors_[tensor].storage] == 0) {
      record.refuse("SRC: '" + record.text("SRC") + "' has no reference left to copy");
    }
    ++references_[tensors_[tensor].storage];
    ++tensors_[tensor].references;
    act(Trace::Action::retain, tensor);
  }

  void release(const Record& record, const char* field, const std::string& name, Index tensor) {
    if (tensors_[tensor].references == 0) {
      record.refuse(std::string(field) + ": '" + name + "' has no reference left to release");
    }
    --references_[tensors_[tensor].storage];
    --tensors_[tensor].references;
    act(Trace::Action::release, tensor);
  }

  void pin_at_end(Index tensor) {
    if (tensors_[tensor].references > 0) act(Trace::Action::pin, tensor);
  }

  void act(Trace::Action action, Index index) { trace_.steps.push_back({action, index}); }

  std::istream& stream_;
  const std::string& name_;
  std::vector<char> buffer_ = std::vector<char>(kUsualLine);
  std::size_t number_ = 0;
  Trace trace_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> references_;  // per storage
  std::unordered_map<std::string, Name> names_;
  std::vector<std::string> order_;  // of names, as they came
  std::uint64_t bytes_ = 0, time_ = 0;
};

}  // namespace

Trace read_trace(std::istream& stream, const std::string& name) { return Reader(stream, name).read(); }

Trace read_trace(const std::string& file) {
  refuse_special(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw BadInput(file + ": cannot be read");
  return read_trace(stream, file);
}

}  // namespace l2l::compiler::remat::dtr
