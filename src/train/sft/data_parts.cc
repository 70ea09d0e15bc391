#include "train/sft/data_parts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "data/chat/rows.h"

namespace trireme {
namespace {

constexpr double kMostWeight = 1000;

std::string trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

DataPart part_of(const std::string& option, const std::string& text) {
  std::error_code unreadable;
  const size_t sign = text.rfind('=');
  if (sign == std::string::npos || std::filesystem::exists(text, unreadable)) return {.name = text, .count = {}};
  DataPart part{.name = text.substr(0, sign), .count = {}};
  const std::string amount = text.substr(sign + 1);
  const char* const end = amount.data() + amount.size();
  const bool is_count = amount.find('.') == std::string::npos;
  size_t count = 0;
  const auto read =
      is_count ? std::from_chars(amount.data(), end, count) : std::from_chars(amount.data(), end, part.weight);
  const bool good = read.ec == std::errc() && read.ptr == end && !part.name.empty() &&
                    (is_count ? count > 0 : part.weight > 0 && part.weight <= kMostWeight);
  require(
      good, ErrorKind::config,
      "{}: \"{}\": expected FILE, FILE=N for N of its rows, or FILE=X with a point, such as 0.5 or 2.0, for how many "
      "times each of them is trained on in an epoch",
      option, text);
  if (is_count) part.count = count;
  return part;
}

}  // namespace

std::vector<DataPart> data_parts(const std::string& option, const std::string& text) {
  std::error_code unreadable;
  if (std::filesystem::exists(text, unreadable)) return {{.name = text, .count = {}}};
  std::vector<DataPart> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = trimmed(std::string_view(text).substr(at, comma - at));
    require(!one.empty(), ErrorKind::config, "{}: \"{}\" has an empty name between commas", option, text);
    parts.push_back(part_of(option, one));
    at = comma + 1;
  }
  return parts;
}

chat::CodedIds taken_of(chat::CodedIds all, const DataPart& part, uint64_t seed, size_t each) {
  if (!part.count && part.weight == 1) return all;
  const size_t units = all.size() / each;
  const double times =
      part.count ? static_cast<double>(std::min(*part.count, units)) / static_cast<double>(units) : part.weight;
  const double whole = std::floor(times);
  chat::CodedIds rest = all, taken;
  for (double i = 0; i < whole; ++i) {
    for (size_t n = 0; n < all.size(); ++n) taken.add(all.at(n));
  }
  const chat::CodedIds share = units < 2 ? chat::CodedIds() : take_share(rest, times - whole, seed, each);
  for (size_t n = 0; n < share.size(); ++n) taken.add(share.at(n));
  return taken.size() > 0 ? std::move(taken) : std::move(all);
}

std::vector<std::string> files_in_folder(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && chat::is_row_file(entry.path().string())) files.push_back(entry.path());
  }
  require(!files.empty(), ErrorKind::io, "{} has no file of conversations (.jsonl, .json, .csv, .tsv or .parquet)",
          folder);
  std::ranges::sort(files);
  return files;
}

}  // namespace trireme
