#include "cluster/launch/output.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <filesystem>

#include "base/error.h"

#include "comm/start_watch.h"

namespace trireme::launch {
namespace {

// A rank that writes without line ends must not make us hold all of it.
constexpr size_t kLongestLine = 65536;

/// Reads digits at `at`; below 0 when there are none. Moves `at` behind them.
int digits(std::string_view line, size_t& at) {
  int value = -1;
  const auto [stop, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc()) return -1;
  at = static_cast<size_t>(stop - line.data());
  return value;
}

}  // namespace

TaggedLine read_tag(StarterKind kind, std::string_view line) {
  size_t at = 0;
  if (kind == StarterKind::srun) {
    while (at < line.size() && line[at] == ' ') ++at;
    const int rank = digits(line, at);
    if (rank >= 0 && line.substr(at).starts_with(": ")) return {rank, line.substr(at + 2)};
    if (rank >= 0 && line.substr(at) == ":") return {rank, ""};
    return {-1, line};
  }
  if (!line.starts_with('[')) return {-1, line};
  at = 1;
  int rank = digits(line, at);
  if (kind == StarterKind::hydra) {
    if (rank < 0 || at >= line.size() || line[at] != ']') return {-1, line};
    return {rank, line.substr(at + 1)};
  }
  if (rank < 0 || at >= line.size() || line[at] != ',') return {-1, line};
  rank = digits(line, ++at);
  for (std::string_view stream : {"]<stdout>:", "]<stderr>:", "]<stddiag>:"}) {
    if (rank >= 0 && line.substr(at).starts_with(stream)) return {rank, line.substr(at + stream.size())};
  }
  return {-1, line};
}

RankLogs::RankLogs(std::string folder) : folder_(std::move(folder)) {
  if (!folder_.empty()) std::filesystem::create_directories(folder_);
}

void RankLogs::add(int rank, std::string_view text) {
  if (folder_.empty()) return;
  std::ofstream& file = files_[rank];
  if (!file.is_open()) {
    const std::string path = fmt::format("{}/rank-{:04}.log", folder_, rank);
    file.open(path, std::ios::app);
    require(file.is_open(), ErrorKind::io, "cannot write the log {} of a rank", path);
  }
  file << text << std::endl;
}

std::string OutputPrefixer::own_words(std::string_view text) {
  constexpr size_t kBoxLine = 60;
  const bool edge = text.size() >= kBoxLine && text.find_first_not_of('-') == std::string_view::npos;
  if (box_.empty() && !edge) {
    return text.empty() ? "" : fmt::format("{}: {}\n", kind_ == StarterKind::srun ? "srun" : "mpirun", text);
  }
  const bool closes = edge && !box_.empty();
  if (!text.empty()) box_ += fmt::format("mpirun: {}\n", text);
  if (!closes) return "";
  std::string box;
  std::swap(box, box_);
  if (box.find("non-zero") == std::string::npos) return box;
  verdict_ += box;
  return "";
}

std::string OutputPrefixer::prefixed(std::string_view line) {
  const TaggedLine tagged = read_tag(kind_, line);
  if (tagged.rank < 0) return own_words(tagged.text);
  if (tagged.text == kArrival) {
    arrived_.insert(tagged.rank);
    return "";
  }
  logs_.add(tagged.rank, tagged.text);
  std::string out = fmt::format("{}[{}] {}\n", host_of_rank(placement_, tagged.rank), tagged.rank, tagged.text);
  if (!first_error_ && tagged.text.find("error: ") != std::string_view::npos) {
    first_error_ = out.substr(0, out.size() - 1);
  }
  return out;
}

std::string OutputPrefixer::take(std::string_view bytes) {
  std::string out;
  open_ += bytes;
  size_t begin = 0;
  for (size_t end; (end = open_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    out += prefixed(std::string_view(open_).substr(begin, end - begin));
  }
  open_.erase(0, begin);
  if (open_.size() > kLongestLine) out += flush();
  return out;
}

std::string OutputPrefixer::flush() {
  std::string out = open_.empty() ? "" : prefixed(open_);
  open_.clear();
  out += box_;
  box_.clear();
  return out;
}

}  // namespace trireme::launch
