// tokenizer.json of Hugging Face tokenizers, element by element. What is not implemented is an error that names it.

#include <algorithm>

#include "base/error.h"
#include "text/bpe.h"
#include "text/pipeline.h"
#include "text/unigram.h"
#include "text/word_level.h"
#include "text/wordpiece.h"

namespace trireme {
namespace {

constexpr size_t kMostAddedTokens = 1 << 18;  // tokenizers in use have up to some thousand

TokenId read_id(const JsonNode& node, std::string_view token, const std::string& place) {
  require(node.is_integer() && node.integer >= 0 && node.integer <= Vocabulary::kLargestId, ErrorKind::data,
          "{}: the id of \"{}\" must be a whole number from 0 to {}", place, token, Vocabulary::kLargestId);
  return static_cast<TokenId>(node.integer);
}

Vocabulary read_vocabulary(const JsonObject& model) {
  const JsonObject object = model.object("vocab");
  Vocabulary vocabulary;
  vocabulary.reserve(object.node().members.size());
  for (const auto& [token, id] : object.node().members)
    vocabulary.add(token, read_id(id, token, object.place()), object.place());
  return vocabulary;
}

std::optional<TokenId> read_unknown(const JsonObject& model, const Vocabulary& vocabulary) {
  if (!model.has("unk_token")) return std::nullopt;
  const std::string token = model.string("unk_token");
  const std::optional<TokenId> id = vocabulary.find(token);
  require(id.has_value(), ErrorKind::data, "{}: the unknown token \"{}\" is not in the vocabulary", model.place(),
          token);
  return id;
}

struct Merge {
  std::string left, right;
};

/// "a b" of older files. Tokens may hold spaces themselves: then the one cut counts whose three tokens exist.
Merge cut_merge(const std::string& text, const Vocabulary& vocabulary, size_t prefix_bytes, const std::string& place) {
  std::vector<Merge> cuts, possible;
  for (size_t at = text.find(' ', 1); at != std::string::npos && at + 1 < text.size(); at = text.find(' ', at + 1))
    cuts.push_back({text.substr(0, at), text.substr(at + 1)});
  if (cuts.size() == 1) return cuts[0];
  for (const Merge& cut : cuts) {
    const bool known = vocabulary.find(cut.left) && vocabulary.find(cut.right) &&
                       vocabulary.find(cut.left + cut.right.substr(std::min(cut.right.size(), prefix_bytes)));
    if (known) possible.push_back(cut);
  }
  require(possible.size() == 1, ErrorKind::data, "{}: \"{}\", two tokens with one space between were expected", place,
          text);
  return possible[0];
}

MergeTable read_merges(const JsonObject& model, const Vocabulary& vocabulary, size_t prefix_bytes) {
  const JsonNode* node = model.node().find("merges");
  // An empty object is how some writers spell "no merges".
  if (node && node->is_object() && node->members.empty()) return MergeTable();
  const auto& items = model.array("merges");
  MergeTable merges(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const JsonNode& item = items[i];
    const std::string place = model.place_of("merges", i);
    const bool pair =
        item.is_array() && item.items.size() == 2 && item.items[0].is_string() && item.items[1].is_string();
    require(pair || item.is_string(), ErrorKind::data, "{}: a merge must be \"a b\" or [\"a\", \"b\"]", place);
    const auto [left, right] =
        pair ? Merge{item.items[0].text, item.items[1].text} : cut_merge(item.text, vocabulary, prefix_bytes, place);
    const std::string merged = left + right.substr(std::min(right.size(), prefix_bytes));
    const auto id = [&, &l = left, &r = right](const std::string& token) {
      const std::optional<TokenId> found = vocabulary.find(token);
      require(found.has_value(), ErrorKind::data, "{}: merge \"{} {}\": \"{}\" is not in the vocabulary", place, l, r,
              token);
      return *found;
    };
    require(merges.add(id(left), id(right), static_cast<uint32_t>(i), id(merged)), ErrorKind::data,
            "{}: merge \"{} {}\" stands twice", place, left, right);
  }
  return merges;
}

std::unique_ptr<Model> read_bpe(const JsonObject& model, bool raw_bytes) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonNode* dropout = model.node().find("dropout");
  require(!dropout || (dropout->is_number() && dropout->number == 0), ErrorKind::data,
          "{}: \"dropout\" other than 0 is not implemented: ids would be random", model.place());
  Vocabulary vocabulary = read_vocabulary(model);
  BpeOptions options;
  options.bytes = raw_bytes;
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.fuse_unknown = model.boolean("fuse_unk", false);
  options.ignore_merges = model.boolean("ignore_merges", false);
  options.unknown = read_unknown(model, vocabulary);
  options.continuing_prefix = model.string("continuing_subword_prefix", "");
  options.word_suffix = model.string("end_of_word_suffix", "");
  MergeTable merges = read_merges(model, vocabulary, options.continuing_prefix.size());
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

std::unique_ptr<Model> read_wordpiece(const JsonObject& model) {
  model.allow_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  Vocabulary vocabulary = read_vocabulary(model);
  WordPieceOptions options;
  const std::optional<TokenId> unknown = read_unknown(model, vocabulary);
  require(unknown.has_value(), ErrorKind::data, "{}: \"unk_token\" is missing", model.place());
  options.unknown = *unknown;
  options.prefix = model.string("continuing_subword_prefix", "##");
  options.longest_word = model.count("max_input_chars_per_word", 100);
  return std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
}

std::unique_ptr<Model> read_word_level(const JsonObject& model) {
  model.allow_only({"type", "unk_token", "vocab"});
  Vocabulary vocabulary = read_vocabulary(model);
  // Files that have no unknown token name one all the same.
  const std::optional<TokenId> unknown = vocabulary.find(model.string("unk_token", ""));
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
}

/// The vocabulary is a list of [token, score]; the id is the place in it.
std::unique_ptr<Model> read_unigram(const JsonObject& model) {
  model.allow_only({"type", "unk_id", "byte_fallback", "vocab"});
  const auto& items = model.array("vocab");
  Vocabulary vocabulary;
  vocabulary.reserve(items.size());
  std::vector<double> scores;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& entry = items[i].items;
    require(entry.size() == 2 && entry[0].is_string() && entry[1].is_number(), ErrorKind::data,
            "{}: [token, score] was expected", model.place_of("vocab", i));
    vocabulary.add(entry[0].text, static_cast<TokenId>(i), model.place());
    scores.push_back(entry[1].number);
  }
  UnigramOptions options;
  options.byte_fallback = model.boolean("byte_fallback", false);
  if (model.has("unk_id")) {
    const uint64_t unknown = model.count("unk_id");
    require(unknown < items.size(), ErrorKind::data, "{}: \"unk_id\" is {}, the vocabulary has {} tokens",
            model.place(), unknown, items.size());
    options.unknown = static_cast<TokenId>(unknown);
  }
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

/// Older files do not name their model; its options do.
std::string model_type(const JsonObject& model) {
  if (model.has("type")) return model.string("type");
  if (model.has("merges")) return "BPE";
  if (model.has("max_input_chars_per_word")) return "WordPiece";
  if (model.has("unk_id")) return "Unigram";
  fail(ErrorKind::data, "{}: no \"type\", and no option tells which model it is", model.place());
}

std::unique_ptr<Model> read_model(const JsonObject& model, bool raw_bytes) {
  const std::string type = model_type(model);
  if (type == "BPE") return read_bpe(model, raw_bytes);
  if (type == "WordPiece") return read_wordpiece(model);
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordLevel") return read_word_level(model);
  fail(ErrorKind::data, "{}: the model \"{}\" is not implemented", model.place(), type);
}

std::vector<AddedToken> read_added(const JsonObject& file) {
  std::vector<AddedToken> added;
  if (!file.has("added_tokens")) return added;
  const auto& items = file.array("added_tokens");
  require(items.size() <= kMostAddedTokens, ErrorKind::data,
          "{}: {} added tokens, at most {} are read; put tokens that need no rule of their own into the vocabulary",
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

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json_text, std::string_view where) {
  const JsonNode root = parse_json_node(json_text, where);
  const JsonObject file(root, std::string(where));
  file.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  const std::string version = file.string("version", "1.0");
  require(version == "1.0", ErrorKind::data, "{}: version \"{}\", \"1.0\" was expected", where, version);
  const JsonObject model = file.object("model");
  PipelineParts parts;
  parts.json = json_text;
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
  parts.model = read_model(model, raw_bytes);
  if (file.has("decoder")) parts.decoder = make_decoder(file.object("decoder"));
  if (file.has("post_processor")) parts.post_processor = make_post_processor(file.object("post_processor"));
  if (file.has("truncation")) parts.truncation = make_truncation(file.object("truncation"));
  if (file.has("padding")) parts.padding = make_padding(file.object("padding"));
  return std::make_unique<PipelineTokenizer>(std::move(parts), where);
}

}  // namespace trireme
