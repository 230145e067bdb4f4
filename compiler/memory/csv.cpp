#include "compiler/memory/csv.h"

#include <charconv>
#include <fstream>
#include <unordered_map>
#include <unordered_set>

#include "compiler/memory/planner.h"
#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kMostStreams = 64;
constexpr Time kLatest = Time{1} << 62;

enum Column { kId, kLower, kUpper, kSize, kGroup, kOffset, kColumns };
constexpr const char* kNames[kColumns] = {"id", "lower", "upper", "size", "group", "offset"};

// Reads line by line. Line numbers count from 1, the header included.
class Reader {
 public:
  Reader(std::istream& stream, const std::string& name) : stream_(stream), name_(name) {
    problem_.alignment = 1;
    problem_.streams = 0;  // until the first tensor
  }

  Problem read() {
    if (!next_line()) refuse("is empty; its first line names the columns, such as id,lower,upper,size");
    read_header();
    while (next_line()) {
      if (!line_.empty()) read_tensor();
    }
    problem_.streams = std::max<std::size_t>(1, problem_.streams);
    check(problem_, [this](Index t) { return name_ + ":" + std::to_string(line_of_[t]) + ": "; });
    return std::move(problem_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw BadInput(name_ + ":" + std::to_string(number_) + ": " + what);
  }

  bool next_line() {
    ++number_;
    stream_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    auto length = static_cast<std::size_t>(stream_.gcount());
    if (stream_.bad()) throw BadInput(name_ + ": cannot be read to its end");
    if (stream_.eof()) {
      if (length > 0 && buffer_[length - 1] == '\r') --length;
      line_ = std::string_view(buffer_.data(), length);
      return length > 0;
    }
    if (stream_.fail()) refuse("is longer than " + std::to_string(kLongestLine) + " bytes");
    --length;  // the line end counts
    if (length > 0 && buffer_[length - 1] == '\r') --length;
    line_ = std::string_view(buffer_.data(), length);
    return true;
  }

  void split() {
    fields_.clear();
    std::string_view rest = line_;
    for (std::size_t comma = rest.find(','); comma != rest.npos; comma = rest.find(',')) {
      fields_.push_back(rest.substr(0, comma));
      rest.remove_prefix(comma + 1);
    }
    fields_.push_back(rest);
  }

  void read_header() {
    if (line_.starts_with("\xef\xbb\xbf")) line_.remove_prefix(3);  // byte order mark
    if (line_.find('\0') != line_.npos) refuse("has bytes of value 0: is this text, and is it UTF-8?");
    split();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      std::size_t column = 0;
      while (column < kColumns && fields_[i] != kNames[column]) ++column;
      if (column == kColumns) {
        refuse("column '" + std::string(fields_[i]) +
               "' is unknown; there are id, lower, upper, size, group and offset");
      }
      if (place_[column] != kAbsent) refuse("column '" + std::string(fields_[i]) + "' is there twice");
      place_[column] = i;
    }
    columns_ = fields_.size();
    for (const Column column : {kId, kLower, kUpper, kSize}) {
      if (place_[column] == kAbsent) refuse(std::string("column '") + kNames[column] + "' is missing");
    }
  }

  void read_tensor() {
    split();
    if (fields_.size() != columns_) {
      refuse("has " + std::to_string(fields_.size()) + " fields, the header " + std::to_string(columns_));
    }
    Tensor tensor{std::string(field(kId)), number<Bytes>(kSize, field(kSize)), {}};
    if (tensor.name.empty()) refuse("id: is empty");
    if (const std::string_view offset = field(kOffset); !offset.empty()) tensor.offset = number<Bytes>(kOffset, offset);
    read_clock(kLower, problem_.begin);
    read_clock(kUpper, problem_.end);
    const auto index = static_cast<Index>(problem_.tensors.size());
    check_lifetime(index);
    const auto [first, is_new] = line_of_id_.emplace(tensor.name, number_);
    if (!is_new) refuse("id '" + tensor.name + "' was there before, in line " + std::to_string(first->second));
    if (const std::string_view group = field(kGroup); !group.empty()) add_to_group(group, index);
    problem_.tensors.push_back(std::move(tensor));
    line_of_.push_back(number_);
  }

  std::string_view field(Column column) const {
    return place_[column] == kAbsent ? std::string_view{} : fields_[place_[column]];
  }

  template <typename Number>
  Number number(Column column, std::string_view text) const {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > Number{kLatest}) {
      refuse(std::string(kNames[column]) + ": '" + std::string(text) + "' is not a whole number" +
             (std::is_unsigned_v<Number> ? " from 0" : "") + " up to 2^62");
    }
    return value;
  }

  void read_clock(Column column, std::vector<Time>& clocks) {
    std::string_view rest = field(column);
    std::size_t entries = 0;
    for (bool more = true; more; ++entries) {
      const std::size_t colon = rest.find(':');
      more = colon != rest.npos;
      const Time time = number<Time>(column, rest.substr(0, colon));
      if (time < -kLatest) refuse(std::string(kNames[column]) + ": is below -2^62");
      clocks.push_back(time);
      if (more) rest.remove_prefix(colon + 1);
    }
    if (problem_.streams == 0) problem_.streams = entries;
    if (entries > kMostStreams) refuse("clocks have at most " + std::to_string(kMostStreams) + " entries");
    if (entries != problem_.streams) {
      refuse(std::string(kNames[column]) + ": has " + std::to_string(entries) + " entries, those before " +
             std::to_string(problem_.streams));
    }
  }

  void check_lifetime(Index index) const {
    for (std::size_t s = 0; s < problem_.streams; ++s) {
      const Time begin = problem_.begin_of(index)[s], end = problem_.end_of(index)[s];
      if (begin > end) refuse("upper: " + std::to_string(end) + " comes before lower, " + std::to_string(begin));
    }
  }

  void add_to_group(std::string_view name, Index index) {
    const auto [group, is_new] = group_of_name_.emplace(name, problem_.groups.size());
    if (is_new) problem_.groups.emplace_back();
    problem_.groups[group->second].push_back(index);
  }

  static constexpr std::size_t kAbsent = ~std::size_t{0};

  std::istream& stream_;
  const std::string& name_;
  std::vector<char> buffer_ = std::vector<char>(kLongestLine + 2);
  std::string_view line_;  // in it
  std::size_t number_ = 0, columns_ = 0;
  std::size_t place_[kColumns] = {kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent};
  std::vector<std::string_view> fields_;
  Problem problem_;
  std::vector<std::size_t> line_of_;  // per tensor
  std::unordered_map<std::string, std::size_t> line_of_id_, group_of_name_;
};

std::string clock_text(std::span<const Time> clock) {
  std::string text;
  for (const Time time : clock) text += (text.empty() ? "" : ":") + std::to_string(time);
  return text;
}

}  // namespace

Problem read_csv(std::istream& stream, const std::string& name) { return Reader(stream, name).read(); }

Problem read_csv(const std::string& file) {
  refuse_special(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw BadInput(file + ": cannot be read");
  return read_csv(stream, file);
}

void write_csv(std::ostream& stream, const Problem& problem, const Plan& plan) {
  std::vector<std::size_t> group_of(problem.tensors.size(), problem.groups.size());
  for (std::size_t g = 0; g < problem.groups.size(); ++g) {
    for (const Index t : problem.groups[g]) group_of[t] = g;
  }
  const bool grouped = !problem.groups.empty();
  stream << "id,lower,upper,size" << (grouped ? ",group" : "") << ",offset\n";
  const auto write = [&](Index t) {
    const Tensor& tensor = problem.tensors[t];
    stream << tensor.name << ',' << clock_text(problem.begin_of(t)) << ',' << clock_text(problem.end_of(t)) << ','
           << tensor.size << ',';
    if (group_of[t] < problem.groups.size()) stream << 'g' << group_of[t];
    if (grouped) stream << ',';
    stream << plan.offsets[t] << '\n';
  };
  for (Index t = 0; t < problem.tensors.size(); ++t) {
    if (group_of[t] == problem.groups.size()) write(t);
  }
  for (const std::vector<Index>& group : problem.groups) {  // the order of lines is the order in a group
    for (const Index t : group) write(t);
  }
}

}  // namespace l2l::compiler::memory
