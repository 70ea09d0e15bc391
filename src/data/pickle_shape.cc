#include "data/pickle_shape.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace trireme {
namespace {

/// The encoding of an instruction's argument: its length, or how to find it.
enum : int8_t { kUnknown = -1, kLine = -2, kTwoLines = -3, kSize1 = -4, kSize4 = -5, kSize8 = -6 };

constexpr std::array<int8_t, 256> kArguments = [] {
  std::array<int8_t, 256> table{};
  table.fill(kUnknown);
  const auto set = [&](std::string_view codes, int8_t argument) {
    for (const char code : codes) table[static_cast<uint8_t>(code)] = argument;
  };
  set("(.012NRabd}el]oQst)u\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98", 0);
  set("Khq\x80\x82", 1);
  set("M\x83", 2);
  set("Jjr\x84", 4);
  set("G\x95", 8);
  set("ISVFLPpg", kLine);
  set("ci", kTwoLines);
  set("UC\x8a\x8c", kSize1);
  set("XTB\x8b", kSize4);
  set("\x8d\x8e\x96", kSize8);
  return table;
}();

uint64_t number(std::string_view rest, size_t bytes) {
  uint64_t value = 0;
  if (rest.size() < bytes) return UINT64_MAX;
  std::memcpy(&value, rest.data(), bytes);
  return value;
}

/// Bytes of an argument at the beginning of `rest`; npos if it does not fit.
size_t argument_bytes(int8_t argument, std::string_view rest) {
  const auto sized = [&](size_t width) {
    const uint64_t size = number(rest, width);
    return size > rest.size() - std::min(width, rest.size()) ? std::string::npos : width + size;
  };
  switch (argument) {
    case kLine:
    case kTwoLines: {
      const size_t first = rest.substr(0, 256).find('\n');
      if (argument == kLine || first == std::string::npos) return first == std::string::npos ? first : first + 1;
      const size_t second = rest.substr(0, 512).find('\n', first + 1);
      return second == std::string::npos ? second : second + 1;
    }
    case kSize1:
      return sized(1);
    case kSize4:
      return sized(4);
    case kSize8:
      return sized(8);
    default:
      return argument < 0 || rest.size() < static_cast<size_t>(argument) ? std::string::npos
                                                                         : static_cast<size_t>(argument);
  }
}

}  // namespace

bool is_pickle(std::string_view file) {
  constexpr int kWalked = 24;  // of 256 codes about 70 are instructions
  if (file.size() < 4 || file[0] != '\x80' || file[1] < 2 || file[1] > 5) return false;
  file.remove_prefix(2);
  for (int i = 0; i < kWalked; ++i) {
    if (file.empty()) return false;
    const char code = file.front();
    file.remove_prefix(1);
    if (code == '.') return i > 0 && (file.empty() || file.front() == '\x80');  // torch.save() wrote several
    const size_t bytes = argument_bytes(kArguments[static_cast<uint8_t>(code)], file);
    if (bytes == std::string::npos) return false;
    file.remove_prefix(bytes);
  }
  return true;
}

}  // namespace trireme
