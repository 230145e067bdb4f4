#include "core/bytes.h"

#include <array>
#include <cctype>
#include <cstdio>

#include "core/checked.h"

namespace l2l {
namespace {

struct Unit {
  std::string_view name;  // lower case
  Bytes bytes;
};

constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"kb", 1000},
                                          {"mb", 1000 * 1000},
                                          {"gb", 1000 * 1000 * 1000},
                                          {"tb", Bytes{1000} * 1000 * 1000 * 1000},
                                          {"kib", kKiB},
                                          {"mib", kMiB},
                                          {"gib", kGiB},
                                          {"tib", 1024 * kGiB}}};

// So that fraction x unit fits in 64 bits.
constexpr std::size_t kMaxDecimals = 6;

[[noreturn]] void reject(std::string_view text, std::string_view reason) {
  throw BadInput("size \"" + std::string(text) + "\": " + std::string(reason) +
                 "; write bytes or a number with a unit, such as 8GiB, 1.5GiB or 500MB");
}

std::string_view take_digits(std::string_view& rest) {
  std::size_t count = 0;
  while (count < rest.size() && rest[count] >= '0' && rest[count] <= '9') ++count;
  const std::string_view digits = rest.substr(0, count);
  rest.remove_prefix(count);
  return digits;
}

// `what`: of the text, for the message of one that does not fit.
Bytes to_integer(std::string_view digits, const std::string& what) {
  Bytes value = 0;
  for (const char digit : digits) {
    value = checked_add(checked_multiply(value, 10, what), static_cast<Bytes>(digit - '0'), what);
  }
  return value;
}

Bytes find_unit(std::string_view text, std::string_view name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  reject(text, "unknown unit \"" + std::string(name) + "\"");
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  if (whole.empty()) reject(text, "does not start with a number");
  std::string_view decimals;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    decimals = take_digits(rest);
    if (decimals.empty()) reject(text, "no digits after the point");
    if (decimals.size() > kMaxDecimals) reject(text, "more than 6 decimals");
  }
  if (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const Bytes unit = find_unit(text, rest);
  if (unit == 1 && !decimals.empty()) reject(text, "a fraction of a byte");
  Bytes scale = 1;
  for (std::size_t i = 0; i < decimals.size(); ++i) scale *= 10;
  const std::string what = "size \"" + std::string(text) + "\"";
  const Bytes fraction = checked_multiply(to_integer(decimals, what), unit, what) / scale;
  return checked_add(checked_multiply(to_integer(whole, what), unit, what), fraction, what);
}

std::string format_bytes(Bytes bytes) {
  static constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  char text[32];
  if (bytes < kKiB) {
    std::snprintf(text, sizeof text, "%u B", static_cast<unsigned>(bytes));
    return text;
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 1;
  for (; value >= 999.5 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, kNames[unit]);
  return text;
}

}  // namespace l2l
