#include "data/prepare/document_encoder.h"

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "data/prepare/document_chunks.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/progress_bar.h"
#include "data/prepare/text_border.h"

namespace trireme {
namespace {

constexpr size_t kReportedFaults = 10;
constexpr size_t kKeptBuffer = size_t{8} << 20;  // a larger chunk releases its memory

// Saving costs a flush to disk: the first one is early, later ones take about a twentieth of the time.
constexpr double kFirstSaveSeconds = 1, kLeastSaveSeconds = 5, kSaveShare = 20;

struct Fault {
  uint64_t line;
  std::string reason;
};

/// Documents of one key, with its sink's id width.
class KeyIds {
 public:
  void clear() {
    narrow_.clear();
    wide_.clear();
    ends.clear();
  }
  void append(std::span<const TokenId> ids, uint64_t width) {
    if (width == sizeof(uint16_t))
      narrow_.insert(narrow_.end(), ids.begin(), ids.end());
    else
      wide_.insert(wide_.end(), ids.begin(), ids.end());
  }
  size_t size() const { return narrow_.size() + wide_.size(); }  // one is empty
  /// The first `count` ids.
  std::span<const std::byte> first(size_t ids) const {
    return wide_.empty() ? std::as_bytes(std::span(narrow_).first(ids)) : std::as_bytes(std::span(wide_).first(ids));
  }
  void give_back_memory() {
    if (narrow_.capacity() * sizeof(uint16_t) > kKeptBuffer) narrow_ = {};
    if (wide_.capacity() * sizeof(TokenId) > kKeptBuffer) wide_ = {};
  }

  std::vector<size_t> ends;  // of documents, in ids

 private:
  std::vector<uint16_t> narrow_;
  std::vector<TokenId> wide_;
};

/// One chunk in the pipeline.
struct Item {
  DocumentChunk chunk;
  std::vector<KeyIds> keys;
  std::vector<Fault> faults;
  uint64_t text_bytes = 0;
  bool empty_file = false;

  void clear(size_t key_count) {
    keys.resize(key_count);
    for (KeyIds& key : keys) key.clear();
    faults.clear();
    text_bytes = 0;
    empty_file = false;
  }
  void give_back_memory() {
    if (chunk.bytes.size() > kKeptBuffer) chunk.bytes = std::string();
    for (KeyIds& key : keys) key.give_back_memory();
  }
};

/// Working memory of one encoding thread.
struct Worker {
  explicit Worker(const std::vector<std::string>& json_keys) : parser(json_keys) {}
  JsonLines parser;
  std::vector<TokenId> ids;
};

/// End of the first character that the tokenizer cannot encode: the shortest prefix of the text that it refuses.
size_t end_of_refused(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  const auto refuses = [&](size_t bytes) {
    try {
      ids.clear();
      tokenizer.encode_plain(text.substr(0, bytes), ids);
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  size_t good = 0, bad = text.size();
  while (bad - good > 1) {
    size_t middle = good + (bad - good) / 2;
    while (middle < bad && (static_cast<uint8_t>(text[middle]) & 0xC0) == 0x80) ++middle;  // between characters
    if (middle == bad) {
      for (middle = good + 1; middle < bad && (static_cast<uint8_t>(text[middle]) & 0xC0) == 0x80;) ++middle;
      if (middle == bad) break;  // one character is left
    }
    (refuses(middle) ? bad : good) = middle;
  }
  return bad;
}

/// "FILE, line 3, column 14": the place of a character of a text, from its end in the chunk.
std::string place_of(const DocumentChunk& chunk, size_t end) {
  const std::string_view before = chunk.text().substr(0, end);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1: the chunk's first line
  const auto lines = static_cast<uint64_t>(std::ranges::count(before, '\n'));
  return fmt::format("{}, line {}, column {}", *chunk.name, chunk.first_line + lines,
                     (lines == 0 ? chunk.first_column : 0) + count_characters(before.substr(line_begin)));
}

void encode(Item& item, const Tokenizer& tokenizer, const DocumentEncoding& options, Worker& worker) {
  const auto append = [&](KeyIds& key, std::string_view text, bool ends) {
    worker.ids.clear();
    tokenizer.encode_plain(text, worker.ids);
    if (ends && options.end_of_text) worker.ids.push_back(*options.end_of_text);
    key.append(worker.ids, options.width);
    if (ends) key.ends.push_back(key.size());
    item.text_bytes += text.size();
    if (worker.ids.capacity() * sizeof(TokenId) > kKeptBuffer) worker.ids = {};
  };
  item.clear(options.json_keys.size());
  item.empty_file = item.chunk.size == 0;
  if (item.empty_file) return;
  if (item.chunk.kind == InputKind::json_lines) {
    const auto document = [&](size_t key, std::string_view text) { append(item.keys[key], text, true); };
    const auto fault = [&](uint64_t line, std::string reason) { item.faults.push_back({line, std::move(reason)}); };
    worker.parser.parse(item.chunk, {document, fault});
    return;
  }
  require(item.keys.size() == 1, ErrorKind::usage,
          "{} is a text file without fields; several --json-keys need jsonl or parquet files", *item.chunk.name);
  try {
    append(item.keys[0], item.chunk.text(), item.chunk.ends_document);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) throw;
    fail(ErrorKind::data, "{}: {}", place_of(item.chunk, end_of_refused(item.chunk.text(), tokenizer)), e.what());
  }
}

/// The take stage: logs faults, sends ids to the sinks, saves occasionally.
class Taker {
 public:
  Taker(const DocumentEncoding& options, std::span<DocumentSink* const> sinks, size_t files, uint64_t total_bytes)
      : options_(options), sinks_(sinks), files_(files), state_(options.from), progress_(options.task, total_bytes) {}

  void take(Item& item) {
    check_stop(options_.stop);
    if (enough()) return;
    report_faults(item);
    for (size_t i = 0; i < sinks_.size(); ++i) give(item.keys[i], *sinks_[i]);
    state_.counts.documents += std::min(documents_left(), item.keys[0].ends.size());
    state_.counts.text_bytes += item.text_bytes;
    state_.place = item.chunk.after;
    item.give_back_memory();
    progress_.update(item.chunk.progress, state_.counts.documents,
                     [&] { return fmt::format("file {} of {}: {}", item.chunk.file + 1, files_, *item.chunk.name); });
    save_now_and_then();
  }

  bool enough() const { return options_.most_documents > 0 && state_.counts.documents >= options_.most_documents; }
  const EncodingState& state() const { return state_; }

 private:
  size_t documents_left() const {
    return options_.most_documents == 0 ? SIZE_MAX : options_.most_documents - state_.counts.documents;
  }

  void report_faults(const Item& item) {
    for (const Fault& fault : item.faults) {
      const std::string what = fmt::format("{}, line {}: {}", *item.chunk.name, fault.line, fault.reason);
      require(!options_.strict, ErrorKind::data, "{}; without --strict such lines are skipped and counted", what);
      if (state_.counts.skipped_lines++ < kReportedFaults) log::warning("skipped {}", what);
    }
    if (!item.empty_file) return;
    ++state_.counts.empty_files;
    log::warning("skipped {}: it is empty", *item.chunk.name);
  }

  void give(const KeyIds& key, DocumentSink& sink) {
    const bool all = key.ends.size() < documents_left();  // also documents without an end yet
    const auto ends = std::span(key.ends).first(std::min(documents_left(), key.ends.size()));
    sink.append(key.first(all ? key.size() : ends.back()), ends);
  }

  void save_now_and_then() {
    if (!options_.save || seconds_since(saved_) < pause_) return;
    const auto start = Clock::now();
    options_.save(state_);
    saved_ = Clock::now();
    pause_ = std::max(kLeastSaveSeconds, kSaveShare * seconds_since(start));
  }

  const DocumentEncoding& options_;
  std::span<DocumentSink* const> sinks_;
  size_t files_;
  EncodingState state_;
  ProgressBar progress_;
  Clock::time_point saved_ = Clock::now();
  double pause_ = kFirstSaveSeconds;
};

}  // namespace

void check_stop(const std::atomic<bool>* stop) {
  if (stop && stop->load()) fail(ErrorKind::stopped, "stopped before the end");
}

EncodingState encode_documents(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                               const DocumentEncoding& options, std::span<DocumentSink* const> sinks) {
  uint64_t total = 0;
  for (const InputFile& file : files) total += file.bytes;
  std::vector<Worker> workers;
  for (int i = 0; i < options.threads; ++i) workers.emplace_back(options.json_keys);
  DocumentChunks chunks(files, [&](std::string_view text, size_t near) { return tokenizer.cut(text, near); },
                        {.border = options.border,
                         .columns = options.json_keys,
                         .from = options.from.place,
                         .most_bytes = options.most_bytes});
  Taker taker(options, sinks, files.size(), total);
  std::atomic<bool> enough{taker.enough()};
  OrderedPipeline<Item>::run(options.threads, {[&](Item& item) { return !enough.load() && chunks.next(item.chunk); },
                                               [&](Item& item, int worker) {
                                                 encode(item, tokenizer, options, workers[static_cast<size_t>(worker)]);
                                               },
                                               [&](Item& item) {
                                                 taker.take(item);
                                                 enough = taker.enough();
                                               }});
  const EncodingState& state = taker.state();
  if (state.counts.skipped_lines > kReportedFaults)
    log::warning("skipped {} in total; the first {} are listed above",
                 count_text(state.counts.skipped_lines, "malformed line"), kReportedFaults);
  require(state.counts.documents > 0, ErrorKind::data, "the input has no documents ({}, {})",
          count_text(state.counts.skipped_lines, "malformed line"), count_text(state.counts.empty_files, "empty file"));
  return state;
}

}  // namespace trireme
