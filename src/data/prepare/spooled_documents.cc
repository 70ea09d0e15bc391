#include "data/prepare/spooled_documents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/json_text.h"
#include "base/log.h"
#include "data/prepare/dividing_sink.h"

namespace trireme {
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
