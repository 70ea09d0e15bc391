#include "data/spooled_documents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Everything that the ids depend on: the work of another job is of no use.
std::string describe_job(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                         const SpooledDocuments::Options& options) {
  const DocumentEncoding& encoding = options.encoding;
  std::string job = fmt::format("tokenizer {}, keys {}, end {}, border {}, most {}, width {}", hex64(tokenizer.hash()),
                                fmt::join(encoding.json_keys, " "),
                                encoding.end_of_text ? fmt::to_string(*encoding.end_of_text) : "none", encoding.border,
                                encoding.most_documents, options.width);
  for (const InputFile& file : files) {
    const bool regular = fs::is_regular_file(file.path);
    job += fmt::format("; {} kind {} bytes {} time {}", file.path, static_cast<int>(file.kind), file.bytes,
                       regular ? fs::last_write_time(file.path).time_since_epoch().count() : 0);
  }
  return hex64(xxh3(std::as_bytes(std::span(job))));
}

Json to_json(const EncodingState& state) {
  const InputPlace& p = state.place;
  const DocumentCounts& c = state.counts;
  return {{"place", {p.file, p.member, p.offset, p.line}},
          {"counts", {c.documents, c.text_bytes, c.skipped_lines, c.empty_files}}};
}

EncodingState state_from(const Json& json) {
  const auto number = [&](const char* list, size_t i) { return json.at(list).at(i).get<uint64_t>(); };
  return {{number("place", 0), number("place", 1), number("place", 2), number("place", 3)},
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
  for (size_t i = 0; i < options_.encoding.json_keys.size(); ++i) {
    spools_.push_back(std::make_unique<TokenSpool>(work_, fmt::format("spool-{}", i), options_.width,
                                                   saved.is_null() ? Json() : saved.at("spools").at(i)));
  }
}

void SpooledDocuments::restore() {
  if (const std::optional<Json> saved = work_.has_saved() ? work_.saved() : std::nullopt) {
    try {
      open_spools(*saved);
      options_.encoding.from = state_from(*saved);
      log::info("going on where an earlier run was stopped: {} documents are done",
                options_.encoding.from.counts.documents);
      return;
    } catch (const std::exception& e) {
      log::warning("cannot go on where an earlier run was stopped: {}; starting from the beginning", e.what());
    }
  }
  open_spools({});
}

void SpooledDocuments::save(const EncodingState& state) {
  Json json = to_json(state);
  json["spools"] = Json::array();
  for (const auto& spool : spools_) {
    spool->sync();
    json["spools"].push_back(spool->state());
  }
  work_.save(json);
}

const DocumentCounts& SpooledDocuments::encode() {
  restore();
  const bool readable_again =
      std::none_of(files_.begin(), files_.end(), [](const InputFile& file) { return file.path == kStandardInput; });
  if (readable_again) options_.encoding.save = [this](const EncodingState& state) { save(state); };
  std::vector<DocumentSink*> sinks;
  for (const auto& spool : spools_) sinks.push_back(spool.get());
  const EncodingState state = encode_documents(files_, tokenizer_, options_.encoding, sinks);
  // A run that is killed while it writes its results need not encode again.
  if (readable_again && work_.has_saved()) save(state);
  return counts_ = state.counts;
}

void SpooledDocuments::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    const bool worth_keeping = e.kind() == ErrorKind::stopped || e.kind() == ErrorKind::io;
    if (worth_keeping && work_.has_saved()) work_.keep();
    if (e.kind() != ErrorKind::stopped) throw;
    fail(ErrorKind::stopped, "{}; {}", e.what(),
         work_.has_saved() ? "the same command goes on from there" : "nothing of this run is left");
  }
}

}  // namespace trireme
