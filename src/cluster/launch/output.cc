#include "cluster/launch/output.h"

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cluster/launch/foreign_words.h"
#include "cluster/launch/host_alias.h"

namespace trireme::launch {
namespace {

// Limits the memory for a rank that writes without line ends.
constexpr size_t kLongestLine = 65536;
constexpr size_t kLongestTag = 64;

/// Parses digits at `at`; negative if there are none. Moves `at` after them.
int digits(std::string_view line, size_t& at) {
  int value = -1;
  const auto [stop, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc()) return -1;
  at = static_cast<size_t>(stop - line.data());
  return value;
}

/// Finds a tag of Open MPI within a text.
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

/// Whether the starter passes on parts of lines as they come.
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
    line.remove_prefix(at);
    if (kind == StarterKind::prrte) {  // 5.0.7 ends the tag of stderr with a NUL
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (line.starts_with('\0')) line.remove_prefix(1);
    }
    return {rank, line};
  }
  return {-1, line};
}

RankLogs::RankLogs(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!error && !std::filesystem::is_directory(folder_)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && access(folder_.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  require(!error, ErrorKind::usage,
          "--log-dir {}: cannot write to this folder: {}; nothing was started, name another folder", folder_,
          error.message());
}

void RankLogs::add(int rank, std::string_view text) { write(fmt::format("rank-{:04}.log", rank), text); }

void RankLogs::add_starter(std::string_view text) { write("starter.log", text); }

void RankLogs::write(const std::string& name, std::string_view text) {
  if (folder_.empty()) return;
  std::ofstream& file = files_[name];
  if (!file.is_open()) {
    const std::string path = fmt::format("{}/{}", folder_, name);
    file.open(path, std::ios::app);
    require(file.is_open(), ErrorKind::io, "cannot write the log {}", path);
  }
  file << text << std::endl;
}

std::string OutputPrefixer::stamp() const {
  if (!with_times_) return "";
  timeval now{};
  gettimeofday(&now, nullptr);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{}.{:03} ", text.data(), now.tv_usec / 1000);
}

std::string OutputPrefixer::starter_line(std::string_view words) {
  constexpr size_t kBoxLine = 60;
  // PRRTE writes a blank after a box, which precedes the next output.
  if (kind_ == StarterKind::prrte && box_.empty() && words.starts_with(' ')) words.remove_prefix(1);
  if (record_in(words)) return "";  // from a process of the starter that is not a rank
  const std::string text = without_aliases(words);
  const bool edge = text.size() >= kBoxLine && text.find_first_not_of('-') == std::string::npos;
  if (!text.empty()) logs_.add_starter(stamp() + text);
  if (!edge && is_starter_trace(text)) {
    traces_ += fmt::format("{}mpirun: {}\n", stamp(), text);
    return "";
  }
  if (box_.empty() && !edge) {
    return text.empty() ? "" : fmt::format("{}{}: {}\n", stamp(), kind_ == StarterKind::srun ? "srun" : "mpirun", text);
  }
  const bool closes = edge && !box_.empty();
  if (!text.empty()) box_ += fmt::format("{}mpirun: {}\n", stamp(), text);
  return closes ? end_of_box() : "";
}

std::string OutputPrefixer::end_of_box() {
  std::string box;
  std::swap(box, box_);
  const BoxMeaning meaning = meaning_of_box(box);
  not_started_ = not_started_ || meaning.not_started;
  if (meaning.trace) {
    traces_ += box;
    return "";
  }
  if (refusal_.empty()) refusal_ = meaning.refusal;
  if (!lost_ && !meaning.lost_host.empty()) {
    if (const auto rank = first_rank_on(placement_, meaning.lost_host))
      lost_ = RankRecord{.kind = RankRecord::Kind::lost, .rank = *rank, .host = meaning.lost_host};
  }
  if (meaning.verdict) {
    verdict_ += box;
    return "";
  }
  return box;
}

std::string OutputPrefixer::prefixed(std::string_view line) {
  not_started_ = not_started_ || is_hydra_start_failure(line);
  const TaggedLine tagged = read_tag(kind_, line);
  return tagged.rank < 0 ? starter_line(tagged.text) : of_rank(tagged.rank, tagged.text);
}

std::string OutputPrefixer::of_rank(int rank, std::string_view line) {
  has_output_ = true;
  if (const auto record = record_in(line)) {
    take_record(rank, *record);
    return "";
  }
  const std::string time = stamp();
  logs_.add(rank, time + std::string(line));
  if (foreign_program_ && is_foreign_error(line)) note_error(rank, line);
  return fmt::format("{}{}\n", time, shown(rank, line));
}

std::string OutputPrefixer::shown(int rank, std::string_view line) const {
  return fmt::format("{}[{}] {}", host_of_rank(placement_, rank), rank, line);
}

void OutputPrefixer::note_error(int rank, std::string_view line) {
  if (!first_error_) first_error_ = shown(rank, line);
}

void OutputPrefixer::take_record(int rank, const RankRecord& record) {
  switch (record.kind) {
    case RankRecord::Kind::arrived:
      arrived_.insert(rank);
      break;
    case RankRecord::Kind::error:
      note_error(rank, record.text);
      break;
    case RankRecord::Kind::lost:
      // Who sees only one side of a connection that is lost may take the other rank for lost.
      if (!lost_ || (lost_->other < 0 && record.other >= 0)) lost_ = record;
      break;
  }
}

/// `ends`: the last part is followed by a line end.
std::string OutputPrefixer::parts_of_ranks(std::string_view text, bool ends) {
  const int ranks = total_processes(placement_);
  Tag next = find_tag(kind_, text, 0, ranks);
  std::string out;
  int rank = continues_;
  if (rank < 0 && next.begin != 0) out = starter_line(text.substr(0, next.begin));
  for (size_t at = 0;; at = next.end, rank = next.rank, next = find_tag(kind_, text, at, ranks)) {
    const bool last = next.begin == std::string_view::npos;
    if (rank >= 0) {
      has_output_ = true;
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
