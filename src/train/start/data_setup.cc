#include "train/start/data_setup.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/size.h"
#include "data/indexed_source.h"
#include "data/sample_source.h"
#include "text/files/character_meta.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenizerBytes = size_t{64} << 20;

std::string data_path(const DataOptions& data, const std::string& name) {
  return fs::path(name).is_absolute() || data.dir.empty() ? name : (fs::path(data.dir) / name).string();
}

/// A dataset may be named by one of its two files.
std::string without_ending(const DataOptions& data, const std::string& name) {
  for (const char* ending : {".bin", ".idx"}) {
    if (!name.ends_with(ending)) continue;
    const std::string prefix = name.substr(0, name.size() - 4), path = data_path(data, prefix);
    if (fs::exists(path + ".bin") && fs::exists(path + ".idx")) return prefix;
  }
  return name;
}

/// The indexed datasets that an option names; empty when it names a token file.
std::vector<WeightedPrefix> indexed_sets(const DataOptions& data, const std::string& option) {
  if (fs::exists(data_path(data, option)) && without_ending(data, option) == option)
    return {};  // a file, even if its name looks like a list
  std::vector<WeightedPrefix> sets = option.empty() ? std::vector<WeightedPrefix>() : parse_blend(option);
  const bool weighted = sets.size() > 1 || (sets.size() == 1 && sets[0].prefix != option);
  for (WeightedPrefix& set : sets) set.prefix = data_path(data, without_ending(data, set.prefix));
  if (!weighted && sets.size() == 1 && !fs::exists(sets[0].prefix + ".idx")) return {};
  return sets;
}

/// What every source of a run's data needs.
struct SourceNeeds {
  const DataOptions& data;
  const BatchShape& batch;
  uint64_t vocabulary = 0;  ///< ids from here on are errors
  uint64_t seed = 0;
  int64_t steps = 0;  ///< of the run
  const EvaluationOptions& evaluation;
  const BeforeBlock& before;
};

std::unique_ptr<FileSource> open_tokens(const std::string& name, const SourceNeeds& needs) {
  const DataOptions& data = needs.data;
  TokenDataset dataset(data_path(data, name), needs.vocabulary, data.verify, needs.before, data.trust);
  const auto need = static_cast<uint64_t>(needs.batch.sequence) + 1;
  require(dataset.size() >= need, ErrorKind::data,
          "{} has {}, one sample needs {}; lower batch.sequence or use more text", dataset.path(),
          count_text(dataset.size(), "token"), need);
  return std::make_unique<TokenFileSource>(std::move(dataset), needs.seed);
}

enum class SplitPart : uint8_t { train, valid, test };

const char* name_of(SplitPart part) {
  return part == SplitPart::train ? "train" : part == SplitPart::valid ? "valid" : "test";
}

/// Samples that a run draws from a part: as NeoX counts them, because its order depends on them.
uint64_t samples_of(SplitPart part, const SourceNeeds& needs) {
  const int64_t steps = needs.steps, every = needs.evaluation.every, global = needs.batch.global;
  if (part == SplitPart::train)
    return static_cast<uint64_t>(checked_product({steps, global}, "run.steps x batch.global"));
  const int64_t evaluations = every == 0 || part == SplitPart::test ? 1 : steps / every + 1;
  return static_cast<uint64_t>(checked_product({evaluations, needs.evaluation.batches, global},
                                               "evaluations x evaluation.batches x batch.global"));
}

std::unique_ptr<IndexedSource> open_indexed(std::vector<WeightedPrefix> sets, SplitPart part, const std::string& split,
                                            const SourceNeeds& needs) {
  IndexedSourceOptions options;
  options.sets = std::move(sets);
  options.part = name_of(part);
  options.split = split;
  options.samples = samples_of(part, needs);
  options.sequence = static_cast<uint64_t>(needs.batch.sequence);
  options.seed = needs.seed;
  options.index_folder = needs.data.index_dir;
  options.vocabulary = needs.vocabulary;
  options.verify = needs.data.verify;
  options.before = needs.before;
  return std::make_unique<IndexedSource>(std::move(options));
}

/// Whether every dataset has documents for this part of the split; logs one line if some or all have none.
bool has_part(const IndexedSource& data, SplitPart part, const std::string& split) {
  const bool test = part == SplitPart::test;
  const auto number = static_cast<size_t>(part);
  if (split.empty() || data.documents(number) > 0) return !split.empty();
  if (const uint64_t documents = data.unused_documents(number); documents > 0)
    log::info(
        "data.split {}: its {} part, for {}, has {} in some datasets and none in others; they are not used, and there "
        "is no {}",
        split, test ? "third" : "second", test ? "the test" : "validation", count_text(documents, "document"),
        test ? "test" : "validation");
  else if (!test)
    log::info("data.split {} leaves no documents for validation: the run trains without it", split);
  return false;
}

/// The source that data.test or data.validation names.
std::unique_ptr<FileSource> open_named(const std::string& option, SplitPart part, const SourceNeeds& needs) {
  const std::vector<WeightedPrefix> sets = indexed_sets(needs.data, option);
  if (sets.empty()) return open_tokens(option, needs);
  return open_indexed(sets, part, "", needs);
}

}  // namespace

void require_training_data(const DataOptions& data) {
  const std::vector<WeightedPrefix> sets = indexed_sets(data, data.train);
  for (const WeightedPrefix& set : sets)
    require(fs::exists(set.prefix + ".idx"), ErrorKind::io,
            "the indexed dataset {}.idx does not exist; make it with `trireme prepare --format megatron`", set.prefix);
  const std::string path = data_path(data, data.train);
  require(!sets.empty() || fs::exists(path), ErrorKind::io,
          "the token file {} does not exist; make it with `trireme prepare`, or name its folder with --data.dir (now "
          "\"{}\")",
          path, data.dir);
}

std::vector<std::string> token_files(const DataOptions& data) {
  std::vector<std::string> files;
  for (const std::string& option : {data.train, data.validation, data.test}) {
    const std::vector<WeightedPrefix> sets = indexed_sets(data, option);
    for (const WeightedPrefix& set : sets) {
      for (const char* suffix : {".bin", ".idx"}) files.push_back(fs::absolute(set.prefix + suffix));
    }
    if (sets.empty() && !option.empty()) files.push_back(fs::absolute(data_path(data, option)));
  }
  return files;
}

std::string find_tokenizer(const DataOptions& data) {
  if (!data.tokenizer.empty()) {
    TokenizerLoadOptions options;
    options.merges = data.merges;
    return load_tokenizer(data.tokenizer, options)->json();
  }
  const std::vector<WeightedPrefix> sets = indexed_sets(data, data.train);
  const fs::path file = sets.empty() ? data_path(data, data.train) : sets[0].prefix;
  const fs::path beside = file.parent_path() / "tokenizer.json";
  if (fs::exists(beside)) return read_text(beside.string(), kMostTokenizerBytes);
  const fs::path meta = file.parent_path() / kCharacterMeta;  // nanoGPT's prepare.py made the token files
  return fs::exists(meta) ? read_character_meta(meta.string())->json() : std::string();
}

void require_one_tokenizer(const DataOptions& data, const std::string& tokenizer_json) {
  std::string hash = tokenizer_json.empty() ? "" : hex64(xxh3(std::as_bytes(std::span(tokenizer_json))));
  std::string of = data.tokenizer.empty() ? "the tokenizer.json beside data.train" : data.tokenizer;
  for (const std::string& file : token_files(data)) {
    const auto sidecar = read_sidecar(file);
    if (!sidecar || sidecar->tokenizer_hash.empty()) continue;
    require(hash.empty() || hash == sidecar->tokenizer_hash, ErrorKind::data,
            "{} was prepared with another tokenizer (hash {}) than {} ({}): their ids mean different tokens; name the "
            "tokenizer that it was prepared with, or prepare the data again",
            file, sidecar->tokenizer_hash, of, hash);
    hash = sidecar->tokenizer_hash;
    of = file;
  }
}

std::string describe_id_differences(const std::string& data_tokenizer_json, const std::string& model_tokenizer_json) {
  if (data_tokenizer_json.empty() || model_tokenizer_json.empty() || data_tokenizer_json == model_tokenizer_json)
    return {};
  constexpr size_t kLookedAt = 256, kFewest = 10;  // one of ten ids may differ
  const auto data = tokenizer_from_json(data_tokenizer_json, "the data's tokenizer.json");
  const auto model = tokenizer_from_json(model_tokenizer_json, "the model's tokenizer.json");
  const auto text = [](const Tokenizer& tokenizer, TokenId id) -> std::optional<std::string> {
    if (id >= tokenizer.vocabulary_size()) return std::nullopt;
    try {
      return tokenizer.decode({{id}});
    } catch (const Error&) {  // an id without a token
      return std::nullopt;
    }
  };
  const size_t stride = std::max<size_t>(1, data->vocabulary_size() / kLookedAt);
  size_t looked_at = 0, differ = 0;
  std::string example;
  for (size_t i = 0; i < data->vocabulary_size(); i += stride) {
    const auto id = static_cast<TokenId>(i);
    const auto there = text(*data, id), here = text(*model, id);
    if (!there) continue;
    ++looked_at;
    if (there == here) continue;
    ++differ;
    if (!example.empty()) continue;
    example = fmt::format("id {} is {} in the data's tokenizer and {} in the model's", id, dump_valid_json(*there),
                          here ? dump_valid_json(*here) : "none");
  }
  if (differ * kFewest <= looked_at) return {};
  return fmt::format("{} ({} of {} ids differ)", example, differ, looked_at);
}

int64_t vocabulary_of_data(const DataOptions& data, const std::string& tokenizer_json) {
  std::vector<std::string> files;
  for (const WeightedPrefix& set : indexed_sets(data, data.train)) files.push_back(set.prefix + ".bin");
  if (files.empty()) files.push_back(data_path(data, data.train));
  uint64_t largest = 0;
  for (const std::string& file : files) {
    if (const auto sidecar = read_sidecar(file)) largest = std::max(largest, sidecar->vocabulary);
  }
  if (largest > 0) return static_cast<int64_t>(largest);
  if (!tokenizer_json.empty())
    return static_cast<int64_t>(tokenizer_from_json(tokenizer_json, "the data's tokenizer.json")->vocabulary_size());
  return 0;
}

RunData open_run_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                      const BeforeBlock& before) {
  const Config& config = loaded.config;
  const DataOptions& data = config.data;
  const SourceNeeds needs{.data = data,
                          .batch = batch,
                          .vocabulary = vocabulary,
                          .seed = static_cast<uint64_t>(config.run.seed),
                          .steps = config.run.steps,
                          .evaluation = config.evaluation,
                          .before = before};
  RunData out;
  const std::vector<WeightedPrefix> sets = indexed_sets(data, data.train);
  require(!sets.empty() || data.split.empty(), ErrorKind::config,
          "data.split divides indexed datasets, and data.train \"{}\" is a token file; remove data.split", data.train);
  if (!data.test.empty()) {
    require(data.split.empty(), ErrorKind::config,
            "data.split takes the test documents from data.train, but data.test is set too; remove one of them");
    out.test = open_named(data.test, SplitPart::test, needs);
  }
  if (sets.empty()) {
    out.train = open_tokens(data.train, needs);
    if (!data.validation.empty()) out.validation = open_tokens(data.validation, needs);
    return out;
  }
  auto train = open_indexed(sets, SplitPart::train, data.split, needs);
  if (has_part(*train, SplitPart::test, data.split)) out.test = open_indexed(sets, SplitPart::test, data.split, needs);
  const bool says = loaded.origins.contains("data.validation");
  const bool named = says && !data.validation.empty(), declined = says && data.validation.empty();
  require(
      !named || data.split.empty(), ErrorKind::config,
      "data.split takes the validation documents from data.train, but data.validation is set too; remove one of them");
  if (named) {
    out.validation = open_named(data.validation, SplitPart::valid, needs);
  } else if (!declined && has_part(*train, SplitPart::valid, data.split)) {
    out.validation = open_indexed(sets, SplitPart::valid, data.split, needs);
  }
  out.train = std::move(train);
  return out;
}

RunData open_masked_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                         const std::string& tokenizer_json, const BeforeBlock& before) {
  const DataOptions& options = loaded.config.data;
  require(!tokenizer_json.empty(), ErrorKind::config,
          "a masked language model needs the tokenizer of its data, but there is no tokenizer.json beside {}; name it "
          "with --data.tokenizer",
          data_path(options, options.train));
  require(batch.sequence > kMaskedEnds, ErrorKind::config,
          "batch.sequence is {}, but a sample of a masked language model has at least {} tokens; raise it",
          batch.sequence, kMaskedEnds + 1);
  const auto tokenizer = tokenizer_from_json(tokenizer_json, "the data's tokenizer.json");
  require(tokenizer->vocabulary_size() <= vocabulary, ErrorKind::config,
          "the data's tokenizer has {} ids, but the model has only {}; use the tokenizer of this model",
          tokenizer->vocabulary_size(), vocabulary);
  const Masking masking = masking_of(*tokenizer, options.mask_rate, options.whole_words);
  BatchShape text = batch;
  text.sequence -= kMaskedEnds;
  RunData data = open_run_data(loaded, text, tokenizer->vocabulary_size(), before);
  for (auto* source : {&data.train, &data.validation, &data.test}) {
    if (*source)
      *source =
          std::make_unique<MaskedSource>(std::move(*source), masking, static_cast<uint64_t>(loaded.config.run.seed));
  }
  return data;
}

void mask_end_of_text(RunData& data, const std::string& tokenizer_json) {
  constexpr const char* kNeed = "data.mask-end-of-text needs to know which token ends a document";
  require(!tokenizer_json.empty(), ErrorKind::config,
          "{}, but there is no tokenizer.json beside the data; name it with --data.tokenizer", kNeed);
  const auto end = tokenizer_from_json(tokenizer_json, "the data's tokenizer.json")->end_of_text();
  require(end.has_value(), ErrorKind::config, "{}, but the data's tokenizer has no such token (<|endoftext|>, </s>)",
          kNeed);
  for (auto* source : {&data.train, &data.validation, &data.test}) {
    if (*source) *source = std::make_unique<EndOfTextSource>(std::move(*source), static_cast<int32_t>(*end));
  }
}

}  // namespace trireme
