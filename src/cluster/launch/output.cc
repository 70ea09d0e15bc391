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
constexpr size_t kLongestTag = 64;

/// Reads digits at `at`; below 0 when there are none. Moves `at` behind them.
int digits(std::string_view line, size_t& at) {
  int value = -1;
  const auto [stop, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc()) return -1;
  at = static_cast<size_t>(stop - line.data());
  return value;
}

/// A tag of Open MPI within a text.
struct Tag {
  size_t begin = std::string_view::npos, end = 0;
  int rank = -1;
};

Tag find_tag(StarterKind kind, std::string_view text, size_t from, int ranks) {
  for (size_t at = from; (at = text.find('[', at)) != std::string_view::npos; ++at) {
    const TaggedLine tagged = read_tag(kind, text.substr(at));
    if (tagged.rank >= 0 && tagged.rank < ranks) return {at, text.size() - tagged.text.size(), tagged.rank};
  }
  return {};
}

/// Whether it passes on parts of lines as they come.
bool mixes_parts(StarterKind kind) { return kind == StarterKind::open_mpi || kind == StarterKind::prrte; }

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
    if (rank < 0 || !line.substr(at).starts_with(stream)) continue;
    at += stream.size();
    if (kind == StarterKind::prrte && line.substr(at).starts_with(' ')) ++at;
    return {rank, line.substr(at)};
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
  // PRRTE writes a blank behind a box, which comes in front of what follows.
  if (kind_ == StarterKind::prrte && box_.empty() && text.starts_with(' ')) text.remove_prefix(1);
  const bool edge = text.size() >= kBoxLine && text.find_first_not_of('-') == std::string_view::npos;
  if (box_.empty() && !edge) {
    return text.empty() ? "" : fmt::format("{}: {}\n", kind_ == StarterKind::srun ? "srun" : "mpirun", text);
  }
  const bool closes = edge && !box_.empty();
  if (!text.empty()) box_ += fmt::format("mpirun: {}\n", text);
  if (!closes) return "";
  std::string box;
  std::swap(box, box_);
  for (const char* words : {"unable to launch the specified application", "unable to find the specified executable"}) {
    not_started_ = not_started_ || box.find(words) != std::string::npos;
  }
  if (box.find("non-zero") == std::string::npos) return box;
  verdict_ += box;
  return "";
}

std::string OutputPrefixer::prefixed(std::string_view line) {
  // Hydra's words about a command, under the tag of its rank.
  not_started_ = not_started_ || (line.find("[proxy:") != std::string_view::npos &&
                                  line.find("execvp error on file") != std::string_view::npos);
  const TaggedLine tagged = read_tag(kind_, line);
  return tagged.rank < 0 ? own_words(tagged.text) : of_rank(tagged.rank, tagged.text);
}

std::string OutputPrefixer::of_rank(int rank, std::string_view line) {
  if (line == kArrival) {
    arrived_.insert(rank);
    return "";
  }
  logs_.add(rank, line);
  std::string out = fmt::format("{}[{}] {}\n", host_of_rank(placement_, rank), rank, line);
  if (!first_error_ && line.find("error: ") != std::string_view::npos) first_error_ = out.substr(0, out.size() - 1);
  return out;
}

/// `ends`: a line end follows, which is that of the last part.
std::string OutputPrefixer::parts_of_ranks(std::string_view text, bool ends) {
  const int ranks = total_processes(placement_);
  Tag next = find_tag(kind_, text, 0, ranks);
  std::string out;
  int rank = continues_;
  if (rank < 0 && next.begin != 0) out = own_words(text.substr(0, next.begin));
  for (size_t at = 0;; at = next.end, rank = next.rank, next = find_tag(kind_, text, at, ranks)) {
    const bool last = next.begin == std::string_view::npos;
    if (rank >= 0) {
      std::string& begun = begun_[rank];
      begun += text.substr(at, last ? text.size() : next.begin - at);
      if ((ends && last) || begun.size() > kLongestLine) {
        std::string line;
        std::swap(line, begun);
        out += of_rank(rank, line);
      }
    }
    if (last) break;
  }
  continues_ = ends ? -1 : rank;
  return out;
}

std::string OutputPrefixer::take(std::string_view bytes) {
  std::string out;
  open_ += bytes;
  const bool parts = mixes_parts(kind_);
  size_t begin = 0;
  for (size_t end; (end = open_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(open_).substr(begin, end - begin);
    out += parts ? parts_of_ranks(line, true) : prefixed(line);
  }
  open_.erase(0, begin);
  if (open_.size() <= kLongestLine) return out;
  if (!parts) return out + flush();
  // The end may be the beginning of a tag.
  size_t cut = open_.rfind('[');
  if (cut == std::string::npos || cut + kLongestTag < open_.size()) cut = open_.size();
  out += parts_of_ranks(std::string_view(open_).substr(0, cut), false);
  open_.erase(0, cut);
  return out;
}

std::string OutputPrefixer::flush() {
  std::string out;
  if (mixes_parts(kind_)) {
    if (!open_.empty()) out += parts_of_ranks(open_, false);
    for (const auto& [rank, line] : begun_) {
      if (!line.empty()) out += of_rank(rank, line);
    }
    begun_.clear();
  } else if (!open_.empty()) {
    out += prefixed(open_);
  }
  open_.clear();
  out += box_;
  box_.clear();
  return out;
}

}  // namespace trireme::launch
