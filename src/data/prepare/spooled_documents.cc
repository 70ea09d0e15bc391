#include "data/prepare/spooled_documents.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "data/sidecar.h"

namespace trireme {

DividingSink::DividingSink(std::span<const uint64_t> apart, uint64_t done, uint64_t width, DocumentSink& first,
                           DocumentSink& second)
    : apart_(apart),
      document_(done),
      next_(static_cast<size_t>(std::lower_bound(apart.begin(), apart.end(), done) - apart.begin())),
      width_(width),
      first_(first),
      second_(second) {}

uint64_t DividingSink::alike(uint64_t most) const {
  if (!is_apart()) return next_ < apart_.size() ? std::min(most, apart_[next_] - document_) : most;
  uint64_t count = 1;
  while (count < most && next_ + count < apart_.size() && apart_[next_ + count] == document_ + count) ++count;
  return count;
}

void DividingSink::append(std::span<const std::byte> ids, std::span<const size_t> ends) {
  size_t begin = 0;  // of the remaining ids
  const auto give = [&](size_t end) {
    (is_apart() ? second_ : first_).append(ids.subspan(begin * width_, (end - begin) * width_), ends_);
    begin = end;
  };
  while (!ends.empty()) {
    const uint64_t count = alike(ends.size());
    ends_.assign(ends.begin(), ends.begin() + static_cast<ptrdiff_t>(count));
    const size_t end = ends_.back();
    for (size_t& document_end : ends_) document_end -= begin;
    give(end);
    if (is_apart()) next_ += count;
    document_ += count;
    ends = ends.subspan(count);
  }
  ends_.clear();
  if (begin < ids.size() / width_) give(ids.size() / width_);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "state.json";
constexpr const char* kLock = "lock";

}  // namespace

WorkFolder::WorkFolder(std::string path, std::string job) : path_(std::move(path)), job_(std::move(job)) {
  fs::create_directories(path_);
  lock();
  try {
    has_saved_ = saved().has_value();
  } catch (const Error& e) {
    log::warning("{}; starting from the beginning", e.what());
  }
  if (!has_saved_) remove_content();
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;  // a destructor cannot report it
  if (!keep_) fs::remove_all(path_, ignored);
  close(lock_);
}

void WorkFolder::lock() {
  const std::string path = file(kLock);
  lock_ = open_for_writing(path, O_RDWR | O_CREAT);
  require(lock_ >= 0, ErrorKind::io, "cannot create {}: {}", path, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  close(lock_);
  require(reason == EWOULDBLOCK, ErrorKind::io, "cannot lock {}: {}", path, std::strerror(reason));
  fail(ErrorKind::locked, "another process prepares data in {}; wait for it, or give another --output", path_);
}

void WorkFolder::remove_content() const {
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path().filename() != kLock) fs::remove_all(entry.path());
  }
}

std::optional<Json> WorkFolder::saved() const {
  const std::string path = file(kState);
  if (!fs::exists(path)) return std::nullopt;
  Json state = read_json(path);
  if (state.is_object() && state.value("job", "") == job_) return state;
  log::warning("{} belongs to a preparation with other input or flags; removed it", path_);
  return std::nullopt;
}

void WorkFolder::save(const Json& state) {
  Json named = state;
  named["job"] = job_;
  write_text(file(kState), dump_json(named, 1) + "\n");
  has_saved_ = true;
}

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are written as they are");
static_assert(GrowingFile::kBlockBytes == kSidecarBlockBytes, "a block is hashed when it is full");

using Purpose = GrowingFile::Purpose;

constexpr size_t kCopyBytes = size_t{256} << 10;  // stays in the core's own cache

uint64_t saved_count(const Json& saved, const char* key) { return saved.is_null() ? 0 : saved.at(key).get<uint64_t>(); }

void require_tokens(uint64_t tokens, const std::string& path, uint64_t documents) {
  require(tokens > 0, ErrorKind::data, "{} would be empty: {} documents without a token", path, documents);
}

}  // namespace

TokenSpool::TokenSpool(const WorkFolder& folder, const std::string& name, Options options, const Json& saved)
    : width_(options.width),
      tokens_(saved_count(saved, "tokens")),
      ends_(saved_count(saved, "documents")),
      hashes_(tokens_ * width_ / kSidecarBlockBytes),
      ends_on_disk_(ends_.size()),
      hashes_on_disk_(hashes_.size()),
      ids_(folder.file(name + ".ids"), tokens_ * width_, options.kept ? Purpose::keep : Purpose::reread,
           [this](std::span<const std::byte> block) { hashes_.push_back(xxh3(block)); }),
      ends_file_(folder.file(name + ".ends"), ends_.size() * sizeof(uint64_t), Purpose::reread),
      hashes_file_(folder.file(name + ".hashes"), hashes_.size() * sizeof(uint64_t), Purpose::reread) {
  ends_file_.read(0, std::as_writable_bytes(std::span(ends_)));
  hashes_file_.read(0, std::as_writable_bytes(std::span(hashes_)));
}

void TokenSpool::append(std::span<const std::byte> ids, std::span<const size_t> ends) {
  for (const size_t end : ends) ends_.push_back(tokens_ + end);
  tokens_ += ids.size() / width_;
  ids_.append(ids);
}

void TokenSpool::flush() {
  ids_.flush();
  ends_file_.append(std::as_bytes(std::span(ends_).subspan(ends_on_disk_)));
  ends_file_.flush();
  ends_on_disk_ = ends_.size();
  hashes_file_.append(std::as_bytes(std::span(hashes_).subspan(hashes_on_disk_)));
  hashes_file_.flush();
  hashes_on_disk_ = hashes_.size();
}

void TokenSpool::sync() {
  flush();
  for (GrowingFile* file : {&ids_, &ends_file_, &hashes_file_}) file->sync();
}

Json TokenSpool::state() const { return {{"tokens", tokens_}, {"documents", ends_.size()}}; }

TokenSpool::Summary TokenSpool::write(const std::string& path, size_t documents,
                                      const std::function<Place(size_t)>& place_of,
                                      const std::function<void()>& keep_going) {
  Summary summary;
  GrowingFile file(path, 0, Purpose::keep,
                   [&](std::span<const std::byte> block) { summary.block_hashes.push_back(xxh3(block)); });
  std::vector<std::byte> copied(kCopyBytes);
  for (size_t i = 0; i < documents;) {
    // Adjacent documents of a spool are copied together.
    const auto [spool, first] = place_of(i);
    uint64_t last = first;
    for (++i; i < documents; ++i, ++last) {
      const Place next = place_of(i);
      if (next.spool != spool || next.document != last + 1) break;
    }
    const uint64_t begin = spool->end_of_first(first), end = spool->ends_[last], width = spool->width_;
    for (uint64_t at = begin * width; at < end * width;) {
      keep_going();
      const auto part = std::span(copied).first(std::min<uint64_t>(copied.size(), end * width - at));
      spool->ids_.read(at, part);
      file.append(part);
      at += part.size();
    }
    summary.tokens += end - begin;
  }
  require_tokens(summary.tokens, path, documents);
  file.sync();
  if (!file.begun_block().empty()) summary.block_hashes.push_back(xxh3(file.begun_block()));
  return summary;
}

bool TokenSpool::begins_with(std::span<const uint64_t> documents) const {
  for (uint64_t i = 0; i < documents.size(); ++i) {
    if (documents[i] != i) return false;
  }
  return true;
}

TokenSpool::Summary TokenSpool::summary_of_first(const std::string& path, uint64_t documents) {
  ids_.flush();
  Summary summary{end_of_first(documents), {}};
  require_tokens(summary.tokens, path, documents);
  const uint64_t bytes = summary.tokens * width_, blocks = bytes / kSidecarBlockBytes;
  summary.block_hashes.assign(hashes_.begin(), hashes_.begin() + static_cast<ptrdiff_t>(blocks));
  std::vector<std::byte> rest(bytes % kSidecarBlockBytes);
  ids_.read(blocks * kSidecarBlockBytes, rest);
  if (!rest.empty()) summary.block_hashes.push_back(xxh3(rest));
  return summary;
}

namespace {

namespace fs = std::filesystem;

constexpr double kSyncSeconds = 60;

/// Everything that the ids depend on: work of a different job cannot be reused.
std::string describe_job(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                         const SpooledDocuments::Options& options) {
  const DocumentEncoding& encoding = options.encoding;
  std::string job = fmt::format("tokenizer {}, keys {}, end {}, border {}, most {}, width {}", hex64(tokenizer.hash()),
                                fmt::join(encoding.json_keys, " "),
                                encoding.end_of_text ? fmt::to_string(*encoding.end_of_text) : "none", encoding.border,
                                encoding.most_documents, encoding.width);
  if (!options.apart.empty()) job += fmt::format(", apart {}", hex64(xxh3(std::as_bytes(std::span(options.apart)))));
  for (const InputFile& file : files) {
    const bool regular = fs::is_regular_file(file.path);
    job += fmt::format("; {} kind {} bytes {} time {}", file.path, static_cast<int>(file.kind), file.bytes,
                       regular ? fs::last_write_time(file.path).time_since_epoch().count() : 0);
    if (!file.encoding.name.empty()) job += " encoding " + file.encoding.name;
  }
  return hex64(xxh3(std::as_bytes(std::span(job))));
}

Json to_json(const EncodingState& state) {
  const InputPlace& p = state.place;
  const DocumentCounts& c = state.counts;
  return {{"place", {p.file, p.member, p.offset, p.line, p.characters}},
          {"counts", {c.documents, c.text_bytes, c.skipped_lines, c.empty_files}}};
}

EncodingState state_from(const Json& json) {
  const auto number = [&](const char* list, size_t i) { return json.at(list).at(i).get<uint64_t>(); };
  return {{number("place", 0), number("place", 1), number("place", 2), number("place", 3), number("place", 4)},
          {number("counts", 0), number("counts", 1), number("counts", 2), number("counts", 3)}};
}

}  // namespace

SpooledDocuments::SpooledDocuments(const std::vector<InputFile>& files, const Tokenizer& tokenizer, Options options)
    : files_(files),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      work_(options_.work_folder, describe_job(files, tokenizer, options_)) {}

void SpooledDocuments::open_spools(const Json& saved) {
  spools_.clear();
  const TokenSpool::Options options{.width = options_.encoding.width, .kept = options_.kept};
  const size_t count = options_.apart.empty() ? options_.encoding.json_keys.size() : 2;
  for (size_t i = 0; i < count; ++i) {
    spools_.push_back(std::make_unique<TokenSpool>(work_, fmt::format("spool-{}", i), options,
                                                   saved.is_null() ? Json() : saved.at("spools").at(i)));
  }
}

bool SpooledDocuments::restore_from(const Json& saved) {
  if (saved.is_null()) return false;
  try {
    open_spools(saved);
    options_.encoding.from = state_from(saved);
    log::info("resuming where an earlier run stopped, after {}",
              count_text(options_.encoding.from.counts.documents, "document"));
    return true;
  } catch (const std::exception& e) {
    log::warning("cannot resume where an earlier run stopped: {}; starting from the beginning", e.what());
    return false;
  }
}

void SpooledDocuments::restore() {
  if (const std::optional<Json> saved = work_.has_saved() ? work_.saved() : std::nullopt) {
    const Json on_disk = saved->value("on_disk", Json());
    on_disk_ = dump_valid_json(on_disk);
    const bool same_boot = !boot_id().empty() && saved->value("boot_id", "") == boot_id();
    if (restore_from(same_boot ? saved->value("written", Json()) : on_disk)) return;
  }
  on_disk_ = "null";
  options_.encoding.from = {};
  open_spools({});
}

/// Saved work survives the end of this process; occasional syncs make it survive a power cut, too.
void SpooledDocuments::save(const EncodingState& state) {
  Json written = to_json(state);
  written["spools"] = Json::array();
  const bool sync = seconds_since(synced_) > kSyncSeconds;
  for (const auto& spool : spools_) {
    sync ? spool->sync() : spool->flush();
    written["spools"].push_back(spool->state());
  }
  if (sync) {
    on_disk_ = dump_valid_json(written);
    synced_ = Clock::now();
  }
  work_.save(
      {{"boot_id", boot_id()}, {"written", std::move(written)}, {"on_disk", parse_json(on_disk_, "saved state")}});
}

const DocumentCounts& SpooledDocuments::encode() {
  restore();
  const bool readable_again =
      std::none_of(files_.begin(), files_.end(), [](const InputFile& file) { return file.path == kStandardInput; });
  if (readable_again) options_.encoding.save = [this](const EncodingState& state) { save(state); };
  std::vector<DocumentSink*> sinks;
  std::optional<DividingSink> divided;
  if (options_.apart.empty())
    for (const auto& spool : spools_) sinks.push_back(spool.get());
  else
    sinks.push_back(&divided.emplace(options_.apart, options_.encoding.from.counts.documents, options_.encoding.width,
                                     *spools_[0], *spools_[1]));
  const EncodingState state = encode_documents(files_, tokenizer_, options_.encoding, sinks);
  // A run killed while it copies its results need not encode again.
  if (readable_again && work_.has_saved() && !options_.kept) save(state);
  return counts_ = state.counts;
}

TokenSpool::Summary SpooledDocuments::write(const std::string& path, std::span<const uint64_t> documents,
                                            const std::function<void()>& keep_going) {
  for (const auto& spool : spools_) spool->flush();
  const std::vector<uint64_t>& apart = options_.apart;
  const auto place_of = [&](size_t i) -> TokenSpool::Place {
    const uint64_t document = documents[i];
    const auto next = std::lower_bound(apart.begin(), apart.end(), document);
    const auto apart_before = static_cast<uint64_t>(next - apart.begin());
    if (next != apart.end() && *next == document) return {spools_[1].get(), apart_before};
    return {spools_[0].get(), document - apart_before};
  };
  return TokenSpool::write(path, documents.size(), place_of, keep_going);
}

void SpooledDocuments::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    const bool worth_keeping = e.kind() == ErrorKind::stopped || e.kind() == ErrorKind::io;
    if (worth_keeping && work_.has_saved()) work_.keep();
    if (e.kind() != ErrorKind::stopped) throw;
    fail(ErrorKind::stopped, "{}; {}", e.what(),
         work_.has_saved() ? "the same command resumes from there" : "nothing of this run is left");
  }
}

}  // namespace trireme
