// Hugging Face's tokenizer.json, element by element. Unsupported elements are errors that name them.

#include <algorithm>

#include "base/error.h"
#include "text/files/model_tables.h"
#include "text/files/tokenizer_assembly.h"
#include "text/models/bpe.h"
#include "text/models/unigram.h"
#include "text/models/wordpiece.h"
#include "text/pipeline/pipeline.h"

namespace trireme {
namespace {

constexpr size_t kMostAddedTokens = 1 << 18;  // tokenizers in use have up to some thousand
// Steps of normalizers, pre-tokenizers, post-processors or decoders; real tokenizers have up to ten in two levels.
constexpr size_t kMostSteps = 128, kMostStepDepth = 8;

TokenId read_id(const JsonNode& node, std::string_view token, const std::string& place) {
  require(node.is_integer() && node.integer >= 0 && node.integer <= Vocabulary::kLargestId, ErrorKind::data,
          "{}: the id of \"{}\" must be an integer from 0 to {}", place, token, Vocabulary::kLargestId);
  return static_cast<TokenId>(node.integer);
}

std::optional<TokenId> read_unknown(const JsonObject& model, const Vocabulary& vocabulary) {
  if (!model.has("unk_token")) return std::nullopt;
  const std::string token = model.string("unk_token");
  const std::optional<TokenId> id = vocabulary.find(token);
  require(id.has_value(), ErrorKind::data, "{}: the unknown token \"{}\" is missing from the vocabulary", model.place(),
          token);
  return id;
}

/// The source of the model's entries: the text, or tables.
struct ModelSource {
  TokenizerText text;
  std::optional<BpeTables> tables;
};

Vocabulary vocabulary_of(const JsonObject& model, const TokenizerText& text) {
  (void)model.object("vocab");  // it exists and is an object
  return read_vocabulary(text.vocab, model.place_of("vocab"));
}

std::unique_ptr<TokenModel> read_bpe(const JsonObject& model, ModelSource& source, bool raw_bytes) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonNode* dropout = model.node().find("dropout");
  require(!dropout || (dropout->is_number() && dropout->number == 0), ErrorKind::data,
          "{}: \"dropout\" other than 0 is unsupported: ids would be random", model.place());
  BpeTables tables;
  if (source.tables)
    tables = std::move(*source.tables);
  else
    tables.vocabulary = vocabulary_of(model, source.text);
  BpeOptions options;
  options.bytes = raw_bytes;
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.fuse_unknown = model.boolean("fuse_unk", false);
  options.ignore_merges = model.boolean("ignore_merges", false);
  options.unknown = read_unknown(model, tables.vocabulary);
  options.continuing_prefix = model.string("continuing_subword_prefix", "");
  options.word_suffix = model.string("end_of_word_suffix", "");
  if (!source.tables)
    tables.merges = read_merges(source.text.merges, model, tables.vocabulary, options.continuing_prefix.size());
  return std::make_unique<BpeModel>(std::move(tables.vocabulary), std::move(tables.merges), std::move(options));
}

std::unique_ptr<TokenModel> read_wordpiece(const JsonObject& model, const TokenizerText& text) {
  model.allow_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  Vocabulary vocabulary = vocabulary_of(model, text);
  WordPieceOptions options;
  const std::optional<TokenId> unknown = read_unknown(model, vocabulary);
  require(unknown.has_value(), ErrorKind::data, "{}: \"unk_token\" is missing", model.place());
  options.unknown = *unknown;
  options.prefix = model.string("continuing_subword_prefix", "##");
  options.longest_word = model.count("max_input_chars_per_word", 100);
  return std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
}

std::unique_ptr<TokenModel> read_word_level(const JsonObject& model, const TokenizerText& text) {
  model.allow_only({"type", "unk_token", "vocab"});
  Vocabulary vocabulary = vocabulary_of(model, text);
  // Files without an unknown token also name one.
  const std::optional<TokenId> unknown = vocabulary.find(model.string("unk_token", ""));
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
}

std::unique_ptr<TokenModel> read_unigram(const JsonObject& model, const TokenizerText& text) {
  model.allow_only({"type", "unk_id", "byte_fallback", "vocab"});
  (void)model.array("vocab");  // it exists and is a list
  auto [vocabulary, scores] = read_scored_vocabulary(text.vocab, model);
  UnigramOptions options;
  options.byte_fallback = model.boolean("byte_fallback", false);
  if (model.has("unk_id")) {
    const uint64_t unknown = model.count("unk_id");
    require(unknown < scores.size(), ErrorKind::data, "{}: \"unk_id\" is {}, but the vocabulary has {} tokens",
            model.place(), unknown, scores.size());
    options.unknown = static_cast<TokenId>(unknown);
  }
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

/// Older files do not name their model; its options show it.
std::string model_type(const JsonObject& model) {
  if (model.has("type")) return model.string("type");
  if (model.has("merges")) return "BPE";
  if (model.has("max_input_chars_per_word")) return "WordPiece";
  if (model.has("unk_id")) return "Unigram";
  fail(ErrorKind::data, "{}: \"type\" is missing, and no option shows the kind of model", model.place());
}

std::unique_ptr<TokenModel> read_model(const JsonObject& model, ModelSource& source, bool raw_bytes) {
  const std::string type = model_type(model);
  if (type == "BPE") return read_bpe(model, source, raw_bytes);
  if (type == "WordPiece") return read_wordpiece(model, source.text);
  if (type == "Unigram") return read_unigram(model, source.text);
  if (type == "WordLevel") return read_word_level(model, source.text);
  fail(ErrorKind::data, "{}: unsupported model \"{}\"", model.place(), type);
}

/// file: with "added_tokens".
std::vector<AddedToken> read_added(const JsonObject& file) {
  std::vector<AddedToken> added;
  if (!file.has("added_tokens")) return added;
  const auto& items = file.array("added_tokens");
  require(items.size() <= kMostAddedTokens, ErrorKind::data,
          "{}: {} added tokens, but at most {} are supported; move tokens without special rules to the vocabulary",
          file.place(), items.size(), kMostAddedTokens);
  for (size_t i = 0; i < items.size(); ++i) {
    const JsonObject item(items[i], file.place_of("added_tokens", i));
    item.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = item.string("content");
    require(item.has("id"), ErrorKind::data, "{}: \"id\" is missing", item.place());
    token.id = read_id(*item.node().find("id"), token.content, item.place());
    token.single_word = item.boolean("single_word", false);
    token.left_strip = item.boolean("lstrip", false);
    token.right_strip = item.boolean("rstrip", false);
    token.special = item.boolean("special", false);
    token.normalized = item.boolean("normalized", !token.special);
    added.push_back(std::move(token));
  }
  return added;
}

/// Every step costs time for each text, and the steps of a Sequence are run by recursion.
void count_steps(const JsonNode& element, const std::string& place, size_t depth, size_t& count) {
  require(++count <= kMostSteps && depth <= kMostStepDepth, ErrorKind::data,
          "{}: more than {} steps, or Sequences nested in more than {} levels, the limits", place, kMostSteps,
          kMostStepDepth);
  for (const auto& [name, value] : element.members) {
    const bool steps = name == "normalizers" || name == "pretokenizers" || name == "processors" || name == "decoders";
    if (!steps) continue;
    for (const JsonNode& item : value.items) count_steps(item, place, depth + 1, count);
  }
}

/// All parts from the frame, without the vocabulary and merges.
PipelineParts read_parts(std::string_view frame, ModelSource source, std::string_view where) {
  const JsonNode root = parse_json_node(frame, where);
  const JsonObject file(root, std::string(where));
  file.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  const std::string version = file.string("version", "1.0");
  require(version == "1.0", ErrorKind::data, "{}: version \"{}\", expected \"1.0\"", where, version);
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    size_t count = 0;
    if (file.has(key)) count_steps(*root.find(key), file.place_of(key), 0, count);
  }
  const JsonObject model = file.object("model");
  PipelineParts parts;
  parts.added = read_added(file);
  bool raw_bytes = false;
  if (file.has("normalizer")) parts.normalizer = make_normalizer(file.object("normalizer"));
  if (file.has("pre_tokenizer")) {
    const bool bpe = model_type(model) == "BPE";
    PreTokenizerResult result = make_pre_tokenizer(file.object("pre_tokenizer"), bpe);
    parts.pre_tokenizer = std::move(result.pre_tokenizer);
    raw_bytes = result.raw_bytes;
    CutPlan plan;
    if (bpe && parts.pre_tokenizer->plan(plan)) {
      raw_bytes = plan.spelled();
      parts.plan = std::move(plan);
    }
  }
  parts.model = read_model(model, source, raw_bytes);
  parts.decoder = file.has("decoder") ? make_decoder(file.object("decoder")) : make_spaced_decoder();
  if (file.has("post_processor")) parts.post_processor = make_post_processor(file.object("post_processor"));
  if (file.has("truncation")) parts.truncation = make_truncation(file.object("truncation"));
  if (file.has("padding")) parts.padding = make_padding(file.object("padding"));
  return parts;
}

/// The description from which the tables were read.
std::string write_from_tables(BpeDescription frame, const BpeModel& model) {
  const Vocabulary& vocabulary = model.vocabulary();
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (const auto token = vocabulary.token(id)) frame.vocabulary.emplace_back(*token, id);
  }
  for (const auto& [left, right] : model.merges().in_order())
    frame.merges.emplace_back(vocabulary.token(left).value(), vocabulary.token(right).value());
  return write_tokenizer_json(frame);
}

}  // namespace

std::vector<AddedToken> read_added_tokens(std::string_view list, std::string_view where) {
  const JsonNode root = parse_json_node(fmt::format(R"({{"added_tokens": {}}})", list), where);
  return read_added(JsonObject(root, std::string(where)));
}

std::unique_ptr<Tokenizer> tokenizer_from_text(std::string json, std::string_view where) {
  const TokenizerText text = split_tokenizer_text(json);
  PipelineParts parts = read_parts(text.frame, {text, std::nullopt}, where);
  parts.json = std::move(json);
  return std::make_unique<PipelineTokenizer>(std::move(parts), where);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json_text, std::string_view where) {
  return tokenizer_from_text(std::string(json_text), where);
}

std::unique_ptr<Tokenizer> tokenizer_from_tables(BpeDescription frame, BpeTables tables, std::string_view where) {
  PipelineParts parts = read_parts(write_tokenizer_json(frame), {{}, std::move(tables)}, where);
  parts.write_json = [frame = std::move(frame)](const TokenModel& model) {
    return write_from_tables(frame, dynamic_cast<const BpeModel&>(model));
  };
  return std::make_unique<PipelineTokenizer>(std::move(parts), where);
}

std::unique_ptr<Tokenizer> tokenizer_from_description(BpeDescription description, std::string_view where) {
  BpeTables tables;
  tables.vocabulary.reserve(description.vocabulary.size());
  const std::string place = fmt::format("{}: model.", where);
  for (const auto& [token, id] : description.vocabulary) tables.vocabulary.add(token, id, place + "vocab");
  MergeCollector merges(tables.vocabulary, description.merges.size(), 0, place + "merges");
  for (const auto& [left, right] : description.merges) merges.add(left, right);
  tables.merges = merges.take();
  description.vocabulary = {};
  description.merges = {};
  return tokenizer_from_tables(std::move(description), std::move(tables), where);
}

}  // namespace trireme
