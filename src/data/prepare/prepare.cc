#include "data/prepare/prepare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/time.h"
#include "data/numpy_random.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/document_chunks.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/prepare_outputs.h"
#include "data/prepare/progress_bar.h"
#include "data/prepare/spooled_documents.h"
#include "data/prepare/text_border.h"
#include "data/sidecar.h"
#include "data/token_ids.h"
#include "text/files/tokenizer_writer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace trireme {

DocumentSplit split_documents(uint64_t documents, const SplitRule& rule) {
  require(documents > 0, ErrorKind::data, "the input has no documents");
  require(rule.val_fraction >= 0 && rule.val_fraction < 1, ErrorKind::usage,
          "--val-fraction is {}, expected a number from 0 to below 1", rule.val_fraction);
  const auto val = static_cast<uint64_t>(std::ceil(rule.val_fraction * static_cast<double>(documents)));
  require(val < documents, ErrorKind::data,
          "--val-fraction {} of {} leaves none for training; give more documents or --val-fraction 0",
          rule.val_fraction, count_text(documents, "document"));
  DocumentSplit split;
  split.train = NumpyGenerator(rule.seed).permutation(documents);
  const auto border = split.train.begin() + static_cast<ptrdiff_t>(val);
  split.val.assign(split.train.begin(), border);
  split.train.erase(split.train.begin(), border);
  if (rule.order == DocumentOrder::input) {
    std::sort(split.train.begin(), split.train.end());
    std::sort(split.val.begin(), split.val.end());
  }
  return split;
}

std::string describe(const SplitRule& rule) {
  if (rule.val_fraction == 0) return "all documents in train";
  return fmt::format(
      "documents: the first ceil({} x n) of numpy default_rng({}).permutation(n) in val, the rest in train, {}",
      rule.val_fraction, rule.seed,
      rule.order == DocumentOrder::input ? "both in input order" : "both in the order of the permutation");
}

namespace {

// Copies standard input or another pipe to a file, so that it can be read more than once.

class TemporaryCopy {
 public:
  /// Copies `source` into a file in the folder, removed with the object. Its name has the number, different for each
  /// copy, and the source's suffix, which shows the compression. Throws Error::io.
  TemporaryCopy(const std::string& folder, const std::string& source, size_t number);
  TemporaryCopy(const TemporaryCopy&) = delete;
  TemporaryCopy& operator=(const TemporaryCopy&) = delete;
  ~TemporaryCopy();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr size_t kBuffer = size_t{1} << 20;

TemporaryCopy::TemporaryCopy(const std::string& folder, const std::string& source, size_t number)
    : path_(fmt::format("{}/.input-{}-{}-{}", folder, getpid(), number,
                        std::filesystem::path(source).filename().string())) {
  const auto from = open_bytes(source);
  AtomicFile copy(path_);
  std::vector<char> buffer(kBuffer);
  while (const size_t n = from->read(buffer.data(), buffer.size())) copy.write(std::string_view(buffer.data(), n));
  copy.commit();
}

TemporaryCopy::~TemporaryCopy() { unlink(path_.c_str()); }

/// The content of nanoGPT's meta.pkl for a character vocabulary, as JSON: vocab_size, itos (from "0", "1", ...), stoi.
std::string character_meta_json(const Tokenizer& tokenizer);

std::string character_meta_json(const Tokenizer& tokenizer) {
  Json to_text = Json::object(), to_id = Json::object();
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string text = tokenizer.id_to_token(id);
    to_text[std::to_string(id)] = text;
    to_id[text] = id;
  }
  const Json meta = {{"vocab_size", tokenizer.vocabulary_size()}, {"itos", to_text}, {"stoi", to_id}};
  return dump_valid_json(meta, 1) + "\n";
}

namespace fs = std::filesystem;

bool is_pipe(const InputFile& file) { return file.path == kStandardInput || !fs::is_regular_file(file.path); }

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), files_(list_inputs(options.inputs, options.input_kind, options.encoding)) {
    uint64_t bytes = 0;
    for (const InputFile& file : files_) bytes += file.bytes;
    const bool from_pipe = std::any_of(files_.begin(), files_.end(), is_pipe);
    require(bytes > 0 || from_pipe, ErrorKind::data, "the input is empty: {} with 0 bytes",
            files_.size() == 1 ? files_[0].path : count_text(files_.size(), "file"));
    single_text_ = is_single_text(files_);
    rule_ = single_text_ ? SplitRule{.val_fraction = 0} : options.split;
  }

  PrepareReport run() {
    fs::create_directories(options_.output);
    const std::vector<std::unique_ptr<TemporaryCopy>> copies = copy_pipes();
    const auto start = Clock::now();
    load();
    report_.load_seconds = seconds_since(start);
    find_end_of_text();
    divide();
    SpooledDocuments documents(files_, *tokenizer_, spool_options());
    documents.run([&] {
      const DocumentCounts& counts = documents.encode();
      report_.input_bytes = counts.text_bytes;
      report_.skipped_lines = counts.skipped_lines;
      report_.empty_files = counts.empty_files;
      write_outputs(documents);
    });
    report_.seconds = seconds_since(start) - report_.load_seconds;
    return report_;
  }

 private:
  /// Copies standard input and other pipes first if the input must be read twice.
  std::vector<std::unique_ptr<TemporaryCopy>> copy_pipes() {
    std::vector<std::unique_ptr<TemporaryCopy>> copies;
    if (!single_text_ && options_.tokenizer != "char") return copies;
    for (InputFile& file : files_) {
      if (!is_pipe(file)) continue;
      copies.push_back(std::make_unique<TemporaryCopy>(options_.output, file.path, copies.size()));
      file.path = copies.back()->path();
      file.bytes = fs::file_size(file.path);
    }
    return copies;
  }

  void load() {
    if (options_.tokenizer == "char") {
      const std::vector<char32_t> characters = collect_characters();
      tokenizer_ = tokenizer_from_json(character_tokenizer_json(characters, !single_text_), "character vocabulary");
    } else {
      tokenizer_ = load_tokenizer(options_.tokenizer, options_.load);
    }
  }

  void find_end_of_text() {
    if (single_text_) return;
    end_of_text_ = end_of_text_id(*tokenizer_, options_.end_of_text, options_.tokenizer, "to write between documents");
  }

  struct CharacterItem {
    DocumentChunk chunk;
    std::optional<size_t> invalid;  // the first byte of the chunk that is not UTF-8
  };

  /// Reads everything once to collect its characters.
  std::vector<char32_t> collect_characters() {
    using Seen = std::bitset<kInvalidCode + 1>;
    std::vector<std::unique_ptr<Seen>> seen;
    std::vector<JsonLines> parsers;
    for (int i = 0; i < options_.threads; ++i) {
      seen.push_back(std::make_unique<Seen>());
      parsers.emplace_back(std::vector{options_.json_key});
    }
    const auto add = [&](std::string_view text, int worker) -> std::optional<size_t> {
      Seen& set = *seen[static_cast<size_t>(worker)];
      const char* const end = text.data() + text.size();
      for (const char* p = text.data(); p < end;) {
        const Decoded next = decode_utf8(p, end);
        if (next.code == kInvalidCode) return static_cast<size_t>(p - text.data());
        set.set(next.code);
        p += next.length;
      }
      return std::nullopt;
    };
    const auto between_characters = [](std::string_view text, size_t near) {
      while (near < text.size() && (static_cast<uint8_t>(text[near]) & 0xC0) == 0x80) ++near;
      return near;
    };
    DocumentChunks chunks(files_, between_characters,
                          {.columns = {options_.json_key}, .most_bytes = options_.most_bytes});
    uint64_t bytes = 0;
    for (const InputFile& file : files_) bytes += file.bytes;
    ProgressBar progress("characters", bytes);
    OrderedPipeline<CharacterItem>::run(
        options_.threads,
        {[&](CharacterItem& item) { return chunks.next(item.chunk); },
         [&](CharacterItem& item, int worker) {
           item.invalid.reset();
           if (item.chunk.kind == InputKind::text)
             item.invalid = add(item.chunk.text(), worker);
           else
             parsers[static_cast<size_t>(worker)].parse(
                 item.chunk,
                 {[&](size_t, std::string_view text) { add(text, worker); }, [](uint64_t, const std::string&) {}});
         },
         [&](CharacterItem& item) {
           check_stop(options_.stop);
           require(!item.invalid, ErrorKind::data,
                   "{}: the byte at offset {} is not valid UTF-8, which a character vocabulary needs; correct the text "
                   "or use a byte-level tokenizer",
                   *item.chunk.name, item.chunk.first_byte + item.invalid.value_or(0));
           progress.update(item.chunk.progress, 0);
         }});
    for (const auto& other : seen) *seen[0] |= *other;
    std::vector<char32_t> characters;
    for (char32_t code = 0; code <= kInvalidCode; ++code) {
      if (seen[0]->test(code)) characters.push_back(code);
    }
    return characters;
  }

  /// Determines the validation documents before they are encoded, if that costs little.
  void divide() {
    if (single_text_ && options_.train_fraction != 1) {
      border_ = training_characters(files_[0].path, options_.train_fraction, options_.threads, options_.stop,
                                    options_.encoding);
      split_ = {{0}, {1}};
      return;
    }
    if (rule_.val_fraction == 0 || rule_.order != DocumentOrder::input) return;
    const std::optional<uint64_t> documents =
        expected_documents(files_, options_.most_documents, options_.threads, options_.stop);
    if (documents.value_or(0) > 0) split_ = split_documents(*documents, rule_);
  }

  SpooledDocuments::Options spool_options() const {
    SpooledDocuments::Options options;
    options.work_folder = (fs::path(options_.output) / ".prepare").string();
    options.kept = split_ || (rule_.val_fraction == 0 && rule_.order == DocumentOrder::input);
    if (split_) options.apart = split_->val;
    options.encoding.width = id_width(tokenizer_->vocabulary_size());
    options.encoding.json_keys = {options_.json_key};
    options.encoding.end_of_text = end_of_text_;
    options.encoding.border = border_;
    options.encoding.most_documents = options_.most_documents;
    options.encoding.most_bytes = options_.most_bytes;
    options.encoding.strict = options_.strict;
    options.encoding.threads = options_.threads;
    options.encoding.stop = options_.stop;
    return options;
  }

  void write_outputs(SpooledDocuments& documents) {
    PrepareOutputs outputs(options_.output, documents.work_file("results"));
    // A malformed line makes one document fewer than expected, and so another split.
    const bool divided = split_ && documents.spool(0).documents() == split_->train.size() &&
                         documents.spool(1).documents() == split_->val.size();
    const std::function<void()> move_files =
        divided ? describe_sides(documents, outputs) : copy_sides(documents, outputs);
    write_text(outputs.path("tokenizer.json"), tokenizer_->json());
    if (options_.tokenizer == "char") write_text(outputs.path("meta.json"), character_meta_json(*tokenizer_));
    if (report_.val_documents == 0) outputs.remove_old("val.bin");
    report_.documents = single_text_ ? 1 : report_.train_documents + report_.val_documents;
    move_files();  // from now on a later run cannot resume
    outputs.publish();
  }

  /// Each side has its own spool, which becomes its file.
  std::function<void()> describe_sides(SpooledDocuments& documents, const PrepareOutputs& outputs) {
    TokenSpool& train = documents.spool(0);
    TokenSpool& val = documents.spool(1);
    const std::string train_path = outputs.path("train.bin"), val_path = outputs.path("val.bin");
    report_.train_documents = train.documents();
    report_.val_documents = val.documents();
    report_.val_tokens = describe_tokens(val_path, val.summary_of_first(val_path, val.documents()), val.documents());
    report_.train_tokens =
        describe_tokens(train_path, train.summary_of_first(train_path, train.documents()), train.documents());
    return [&train, &val, train_path, val_path] {
      val.move_first(val_path, val.documents());
      train.move_first(train_path, train.documents());
    };
  }

  /// Both files are copies, except train.bin if it is the beginning of the only spool.
  std::function<void()> copy_sides(SpooledDocuments& documents, const PrepareOutputs& outputs) {
    TokenSpool& spool = documents.spool(0);
    const DocumentSplit split =
        split_documents(spool.documents() + (split_ ? documents.spool(1).documents() : 0), rule_);
    const size_t trained = split.train.size();
    report_.train_documents = trained;
    report_.val_documents = split.val.size();
    const auto keep_going = [this] { check_stop(options_.stop); };
    if (!split.val.empty()) {
      const TokenSpool::Summary val = documents.write(outputs.path("val.bin"), split.val, keep_going);
      report_.val_tokens = describe_tokens(outputs.path("val.bin"), val, split.val.size());
    }
    const std::string train_path = outputs.path("train.bin");
    const bool without_copy = !split_ && spool.begins_with(split.train);
    const TokenSpool::Summary train = without_copy ? spool.summary_of_first(train_path, trained)
                                                   : documents.write(train_path, split.train, keep_going);
    report_.train_tokens = describe_tokens(train_path, train, trained);
    return [&spool, train_path, trained, without_copy] {
      if (without_copy) spool.move_first(train_path, trained);
    };
  }

  /// Writes the sidecar of a token file and returns its number of tokens.
  uint64_t describe_tokens(const std::string& path, const TokenSpool::Summary& summary, uint64_t documents) const {
    TokenSidecar sidecar;
    sidecar.tokens = summary.tokens;
    sidecar.documents = documents;
    sidecar.vocabulary = tokenizer_->vocabulary_size();
    sidecar.tokenizer_hash = hex64(tokenizer_->hash());
    sidecar.dtype = dtype_of(id_width(sidecar.vocabulary));
    sidecar.block_hashes = summary.block_hashes;
    sidecar.split = !single_text_ ? describe(rule_)
                    : options_.train_fraction == 1
                        ? "one text: all of it in train"
                        : fmt::format("one text: its first int({} x n) of n characters in train, the rest in val",
                                      options_.train_fraction);
    write_sidecar(path, sidecar);
    return summary.tokens;
  }

  const PrepareOptions& options_;
  std::vector<InputFile> files_;
  uint64_t border_ = 0;
  std::optional<DocumentSplit> split_;  // if known before encoding
  bool single_text_ = false;
  SplitRule rule_;  // of documents
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<TokenId> end_of_text_;
  PrepareReport report_;
};

}  // namespace

PrepareReport prepare(const PrepareOptions& options) { return Preparation(options).run(); }

}  // namespace trireme
