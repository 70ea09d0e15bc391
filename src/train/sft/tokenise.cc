#include "train/sft/tokenise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/time.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "comm/proof.h"
#include "data/chat/traps.h"
#include "data/prepare/ordered_pipeline.h"
#include "text/chat/conversation.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMagic = "trireme conversations 3\n";
constexpr uint64_t kBlock = 16;              // rows in a row that one rank takes
constexpr size_t kPiece = size_t{64} << 20;  // bytes of a message

uint64_t hash_of(std::string_view text) { return xxh3(std::as_bytes(std::span(text.data(), text.size()))); }

/// A row of a file, its codes, or why it has none.
struct Encoded {
  uint64_t place = 0;  ///< order among all rows
  std::vector<int32_t> codes;
};

/// answer: 0, or 1 for the second one of a pair.
uint64_t place_of_row(size_t file, uint64_t row, size_t answer) {
  return (static_cast<uint64_t>(file) << 40) | (row << 1) | answer;
}

/// Numbers and codes as bytes, for messages and the cache.
class Writer {
 public:
  void number(uint64_t value) { bytes(&value, sizeof value); }
  void codes(std::span<const int32_t> values) { bytes(values.data(), values.size_bytes()); }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  void counts(const std::map<std::string, uint64_t>& counts) {
    number(counts.size());
    for (const auto& [key, count] : counts) {
      text(key);
      number(count);
    }
  }
  void rows(const chat::RowCounts& rows) {
    number(rows.rows);
    number(rows.skipped);
    text(rows.first_skipped);
    counts(rows.reasons);
    number(rows.firsts.size());
    for (const auto& [reason, first] : rows.firsts) {
      text(reason);
      text(first);
    }
    number(rows.list.size());
    for (const std::string& line : rows.list) text(line);
  }
  std::string take() { return std::move(out_); }

 private:
  void bytes(const void* from, size_t size) {
    if (size > 0) out_.append(static_cast<const char*>(from), size);
  }
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  bool ended() const { return rest_.empty(); }
  uint64_t number() {
    uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::vector<int32_t> codes(uint64_t count) {
    std::vector<int32_t> values(count);
    const std::string_view from = take(count * sizeof(int32_t));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string text() { return std::string(take(number())); }
  chat::RowCounts rows() {
    chat::RowCounts rows;
    rows.rows = number();
    rows.skipped = number();
    rows.first_skipped = text();
    counts(rows.reasons);
    for (uint64_t left = number(); left > 0; --left) {
      const std::string reason = text();
      rows.firsts[reason] = text();
    }
    for (uint64_t left = number(); left > 0; --left) rows.list.push_back(text());
    return rows;
  }
  /// Adds them to those in `counts`.
  void counts(std::map<std::string, uint64_t>& counts) {
    for (uint64_t left = number(); left > 0; --left) {
      const std::string key = text();
      counts[key] += number();
    }
  }

 private:
  std::string_view take(size_t size) {
    require(size <= rest_.size(), ErrorKind::data, "the ids of conversations end early");
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  std::string_view rest_;
};

/// Renders and tokenises; may be used by several threads at once.
class Encoder {
 public:
  Encoder(const ConversationSource& source, const chat::ChatFiles& files, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), loss_on_(source.loss_on), files_(files) {
    if (files.templates.empty() && source.template_name.empty()) return;  // texts without roles need none
    for (const bool tools : {false, true}) {
      formats_.emplace_back(files, chat::open_template(files, source.template_name, tools));
      facts_ += formats_.back().facts();
      formats_.back().set_time(source.date);
    }
    if (source.template_options.empty()) return;
    keywords_ = parse_json(source.template_options, "chat.template-options");
    require(keywords_.is_object(), ErrorKind::config, "chat.template-options is {}, expected a JSON object",
            source.template_options);
  }

  /// The texts of the templates.
  const std::string& facts() const { return facts_; }
  /// chat::TrainingFormat::note()
  std::string template_note() const { return formats_.empty() ? "" : formats_.front().note(); }

  /// Adds what is worth a line in the log to `notes`. Throws Error::data.
  std::vector<int32_t> codes(chat::Conversation& conversation, std::set<std::string>& notes) const {
    const chat::ChatTokens tokens =
        conversation.text ? tokens_of_text(*conversation.text, notes) : tokens_of_messages(conversation, notes);
    std::vector<int32_t> codes(tokens.ids.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto id = static_cast<int32_t>(tokens.ids[i]);
      codes[i] = tokens.mask[i] != 0 ? ~id : id;
    }
    return codes;
  }

 private:
  chat::ChatTokens tokens_of_text(const std::string& text, std::set<std::string>& notes) const {
    const auto eos = files_.tokens.find("eos_token");
    chat::ChatTokens tokens = chat::text_tokens(text, eos == files_.tokens.end() ? "" : eos->second, tokenizer_);
    if (!tokens.ends)
      notes.insert(
          "the tokenizer has no token that ends a text, so the model does not learn to stop; name one with "
          "--eos-token");
    return tokens;
  }
  chat::ChatTokens tokens_of_messages(chat::Conversation& conversation, std::set<std::string>& notes) const {
    if (formats_.empty()) (void)chat::find_template(files_, "", false);  // says what is missing
    Json keywords = keywords_;
    keywords.update(conversation.keywords);  // a row's own come first
    conversation.keywords = std::move(keywords);
    const chat::ChatFormat& format = formats_[conversation.tools.is_array() ? 1 : 0].format_for(conversation, loss_on_);
    chat::ChatTokens tokens = format.tokens(conversation, tokenizer_, loss_on_);
    notes.merge(chat::traps_of(conversation, format, tokens));
    return tokens;
  }

  const Tokenizer& tokenizer_;
  chat::LossOn loss_on_;
  const chat::ChatFiles& files_;
  std::vector<chat::TrainingFormat> formats_;  ///< for conversations without and with tools
  Json keywords_ = Json::object();
  std::string facts_;
};

/// This rank's share of the rows.
class Share {
 public:
  Share(const ConversationSource& source, const Encoder& encoder, const RankContext& rank)
      : source_(source), encoder_(encoder), rank_(rank) {}

  void read() {
    for (file_ = 0; file_ < source_.files.size(); ++file_) read_file(source_.files[file_]);
  }
  /// The conversations, and what happened to the rows.
  std::vector<Encoded> encoded;
  chat::RowCounts counts;
  std::map<std::string, uint64_t> notes;
  uint64_t rejected = 0;

 private:
  /// A conversation, or a pair, that waits for its turn, and then its codes or the reason why it has none.
  struct Waiting {
    uint64_t row = 0;
    std::vector<chat::Conversation> conversations;
    std::vector<std::vector<int32_t>> codes;
    std::set<std::string> notes;
    std::string reason;
  };

  bool is_own(uint64_t row) const {
    const auto ranks = static_cast<uint64_t>(rank_.size());
    return row / kBlock % ranks == static_cast<uint64_t>(rank_.rank());
  }

  void read_file(const std::string& path) {
    const chat::RowCounts read = chat::read_conversations(
        path, source_.columns, source_.skips,
        [&](uint64_t row, const std::vector<chat::Conversation>& conversations) {
          const size_t taken = source_.columns.pairs ? 2 : 1;
          rejected += conversations.size() - taken;
          waiting_.push_back(
              {row, {conversations.begin(), conversations.begin() + static_cast<ptrdiff_t>(taken)}, {}, {}, {}});
          if (waiting_.size() >= kWaiting * static_cast<size_t>(rank_.threads)) encode_waiting();
          return failure_.empty();
        },
        [&](uint64_t row) {
          report(row);
          return is_own(row);
        });
    encode_waiting();
    require(failure_.empty(), ErrorKind::data, "{}", failure_);
    counts.add(read);
  }

  /// Encodes what waits, on all threads.
  void encode_waiting() {
    size_t next = 0;
    OrderedPipeline<size_t>::run(rank_.threads, {.read =
                                                     [&](size_t& item) {
                                                       item = next++;
                                                       return item < waiting_.size();
                                                     },
                                                 .work = [&](size_t& item, int) { encode(waiting_[item]); },
                                                 .take = [&](size_t& item) { take(waiting_[item]); }});
    waiting_.clear();
  }

  void encode(Waiting& one) const {
    try {
      for (chat::Conversation& conversation : one.conversations)
        one.codes.push_back(encoder_.codes(conversation, one.notes));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      one.reason = error.what();
    }
  }

  void take(Waiting& one) {
    if (one.reason.empty()) {
      for (size_t i = 0; i < one.codes.size(); ++i)
        encoded.push_back({place_of_row(file_, one.row, i), std::move(one.codes[i])});
      for (const std::string& note : one.notes) ++notes[note];
      return;
    }
    const std::string text = fmt::format("{} row {}: {}", source_.files[file_], one.row, one.reason);
    if (!source_.skips && failure_.empty()) failure_ = text + "; --skip-bad-rows skips and counts such rows";
    counts.skip(source_.files[file_], one.row, one.reason);
  }

  /// Logs the progress, and looks for a stop.
  void report(uint64_t row) {
    if (row % kBlock != 0) return;
    if (rank_.heartbeat != nullptr) rank_.heartbeat->move();
    require(!rank_.stop_requested(), ErrorKind::stopped, "stopped while conversations were tokenised: nothing to save");
    if (seconds_since(start_) < next_report_) return;
    next_report_ = seconds_since(start_) + 30;
    log::info("tokenising {}: row {} after {:.0f} s", source_.files[file_], row, seconds_since(start_));
  }

  static constexpr size_t kWaiting = 64;  // per thread

  const ConversationSource& source_;
  const Encoder& encoder_;
  const RankContext& rank_;
  size_t file_ = 0;
  std::vector<Waiting> waiting_;
  std::string failure_;
  Clock::time_point start_ = Clock::now();
  double next_report_ = 15;
};

/// Every rank's text, in messages of limited size.
std::vector<std::string> gather_long(Scalars& scalars, const std::string& own) {
  std::vector<std::string> all(static_cast<size_t>(scalars.size()));
  const int64_t pieces = scalars.max(static_cast<int64_t>((own.size() + kPiece - 1) / kPiece));
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const size_t first = std::min(own.size(), static_cast<size_t>(piece) * kPiece);
    const std::vector<std::string> parts = scalars.gather(std::string_view(own).substr(first, kPiece));
    for (size_t r = 0; r < all.size(); ++r) all[r] += parts[r];
  }
  return all;
}

std::string text_of(const Share& share) {
  Writer out;
  out.rows(share.counts);
  out.number(share.rejected);
  out.counts(share.notes);
  for (const Encoded& one : share.encoded) {
    out.number(one.place);
    out.number(one.codes.size());
    out.codes(one.codes);
  }
  return out.take();
}

/// The shares of all ranks, in the order of the rows.
TokenisedConversations join(const std::vector<std::string>& shares) {
  TokenisedConversations made;
  std::vector<Encoded> all;
  for (const std::string& share : shares) {
    Reader in(share);
    made.counts.add(in.rows());
    made.rejected += in.number();
    in.counts(made.notes);
    while (!in.ended()) {
      const uint64_t place = in.number(), count = in.number();
      all.push_back({place, in.codes(count)});
    }
  }
  std::ranges::sort(all, {}, &Encoded::place);
  for (const Encoded& one : all) made.ids.add(one.codes);
  return made;
}

std::string cached_text(const TokenisedConversations& made) {
  Writer out;
  out.rows(made.counts);
  out.number(made.rejected);
  out.counts(made.notes);
  out.number(made.ids.size());
  for (size_t i = 0; i < made.ids.size(); ++i) {
    out.number(made.ids.at(i).size());
    out.codes(made.ids.at(i));
  }
  std::string text = kMagic + out.take();
  Writer hash;
  hash.number(hash_of(text));
  return text + hash.take();
}

/// Nullopt if the file is of another format: then the conversations are tokenised again. Throws Error::io, Error::data.
std::optional<TokenisedConversations> parse_cache(const std::string& path) {
  const MappedFile file(path);  // it may be larger than a text that is read
  const std::string_view all = file.text();
  const size_t ends = std::strlen(kMagic) + sizeof(uint64_t);
  if (all.size() < ends || !all.starts_with(kMagic)) return {};
  const std::string_view body = all.substr(0, all.size() - sizeof(uint64_t));
  require(Reader(all.substr(body.size())).number() == hash_of(body), ErrorKind::data, "{} is damaged", path);
  Reader in(body.substr(std::strlen(kMagic)));
  TokenisedConversations made;
  made.counts = in.rows();
  made.rejected = in.number();
  in.counts(made.notes);
  const uint64_t count = in.number();
  for (uint64_t i = 0; i < count; ++i) made.ids.add(in.codes(in.number()));
  made.from_cache = path;
  return made;
}

/// Nothing if it is missing; a cache that cannot be used costs time, no more.
std::optional<TokenisedConversations> read_cache(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  try {
    return parse_cache(path);
  } catch (const Error& error) {
    log::warning("{}: tokenising again", error.what());
    return {};
  }
}

/// A cache that cannot be written costs time at the next start, no more.
void write_cache(const std::string& path, const TokenisedConversations& made) {
  try {
    fs::create_directories(fs::path(path).parent_path());
    write_text(path, cached_text(made));
  } catch (const std::exception& error) {
    log::warning("cannot keep the ids of the conversations for the next start: {}", error.what());
  }
}

std::string facts_of_files(const ConversationSource& source) {
  std::string facts;
  for (const std::string& path : source.files) {
    const MappedFile file(path);
    facts += fmt::format("{}: {} bytes with XXH3 {}\n", fs::path(path).filename().string(), file.bytes().size(),
                         hex64(xxh3(file.bytes())));
  }
  return facts;
}

/// What else the ids depend on.
std::string facts_of_format(const ConversationSource& source, const chat::ChatFiles& files, const Encoder& encoder,
                            const Tokenizer& tokenizer) {
  std::string facts = fmt::format("{} {} {}{}\n", name_of(source.loss_on), source.skips, source.template_options,
                                  source.columns.pairs ? " pairs" : "");
  if (encoder.facts().find("strftime_now") != std::string::npos)
    facts += fmt::format("{}-{}-{}\n", source.date.tm_year, source.date.tm_mon, source.date.tm_mday);
  for (const auto* map : {&source.columns.columns, &source.columns.roles, &files.tokens}) {
    for (const auto& [name, value] : *map) facts += fmt::format("{}={}\n", name, value);
    facts += "\n";
  }
  return facts + encoder.facts() + tokenizer.json();
}

}  // namespace

TokenisedConversations tokenise(const ConversationSource& source, const chat::ChatFiles& files,
                                const Tokenizer& tokenizer, const RankContext& rank, Scalars& scalars) {
  std::unique_ptr<Encoder> encoder;
  std::string facts, cache;
  std::optional<TokenisedConversations> made;
  together(scalars, [&] {
    encoder = std::make_unique<Encoder>(source, files, tokenizer);
    facts = facts_of_files(source) + fmt::format("chat template, tokenizer and options: XXH3 {}\n",
                                                 hex64(hash_of(facts_of_format(source, files, *encoder, tokenizer))));
  });
  prove_same_text(scalars, rank.host, facts, "have the same conversations and template",
                  "copy the files to that host again");
  together(scalars, [&] {
    if (source.cache.empty()) return;
    cache = fmt::format("{}/{}.ids", source.cache, hex64(hash_of(kMagic + facts)));
    made = read_cache(cache);
  });
  const bool missing = !made;
  const auto with_note = [&] {
    made->template_note = encoder->template_note();
    return std::move(*made);
  };
  if (!scalars.any(missing)) return with_note();

  Share share(source, *encoder, rank);
  together(scalars, [&] { share.read(); });
  const std::vector<std::string> shares = gather_long(scalars, text_of(share));
  together(scalars, [&] { made = join(shares); });
  if (!cache.empty() && rank.local_rank() == 0 && missing) write_cache(cache, *made);
  return with_note();
}

}  // namespace trireme
