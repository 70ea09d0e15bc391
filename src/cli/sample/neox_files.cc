#include "cli/sample/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/dialect.h"
#include "config/flag_word.h"
#include "config/setting.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

constexpr const char* kKeys =
    "text_gen_type temperature top_k top_p maximum_tokens num_samples sample_input_file sample_output_file prompt_end "
    "recompute return_logits load save iteration seed tokenizer_type vocab_file merge_file";

/// Keys of training are removed; keys that NeoX does not know stay, so that they are refused.
std::vector<Setting> read_settings(const std::vector<std::string>& files) {
  std::vector<Setting> kept;
  bool any = false;
  for (const std::string& file : files) {
    for (Setting& setting : read_yaml(file, static_cast<int>(&file - files.data()))) {
      const bool wanted = lists_word(canonical(kKeys), canonical(setting.key));
      any = any || wanted;
      if (wanted || !kGptNeox.find(setting.key)) kept.push_back(std::move(setting));
    }
  }
  require(any || !kept.empty(), ErrorKind::config,
          "{}: has neither a key of GPT-NeoX's text generation (text-gen-type, maximum-tokens, temperature, ...) nor "
          "load; give NeoX's YAML files, or --model and the flags of `trireme sample --help`",
          fmt::join(files, ", "));
  return kept;
}

/// A number, written as a whole number or not.
double number_of(const DialectView& view, const char* key, double lowest, double highest) {
  const Value& value = view.value(key);
  double number = -1;
  if (const auto* whole = std::get_if<int64_t>(&value)) number = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) number = *real;
  if (!(number >= lowest && number <= highest))
    view.object(key, fmt::format("expected a number from {} to {}", lowest, highest));
  return number;
}

int64_t count_of(const DialectView& view, const char* key, int64_t least) {
  const auto* whole = std::get_if<int64_t>(&view.value(key));
  if (whole && *whole >= least) return *whole;
  view.object(key, fmt::format("expected a whole number of at least {}", least));
  return least;
}

std::string text_of(const DialectView& view, const char* key) { return to_text(view.value(key)); }

TextGeneration::Kind kind_of(const DialectView& view) {
  const std::string type = text_of(view, "text_gen_type");
  if (type == "input-file") return TextGeneration::Kind::input_file;
  if (type == "interactive") return TextGeneration::Kind::interactive;
  if (type != "unconditional") view.object("text_gen_type", "expected unconditional, input-file or interactive");
  return TextGeneration::Kind::unconditional;
}

void note_what_has_no_effect(const DialectView& view, TextGeneration& out) {
  if (view.given("return_logits") && to_text(view.value("return_logits")) == "true")
    view.object("return_logits", "writing logits is not supported; remove it");
  if (view.given("recompute"))
    out.notes.push_back(fmt::format("{}: recompute has no effect here: it changes the speed, not the texts",
                                    view.origin("recompute").text()));
}

}  // namespace

TextGeneration read_text_generation(const std::vector<std::string>& files) {
  TextGeneration out;
  std::vector<std::string> shared;
  const DialectView view(kGptNeox, merge_files(read_settings(files), shared, out.notes), {});
  for (const std::string& objection : shared) view.object(objection);
  out.kind = kind_of(view);
  out.model = view.given("load") ? text_of(view, "load") : view.given("save") ? text_of(view, "save") : "";
  if (view.given("iteration")) out.iteration = count_of(view, "iteration", 0);
  if (view.given("vocab_file")) out.vocabulary = text_of(view, "vocab_file");
  if (view.given("merge_file")) out.merges = text_of(view, "merge_file");
  if (text_of(view, "tokenizer_type") == "HFTokenizer") out.merges.clear();
  if (view.given("sample_input_file")) out.input_file = text_of(view, "sample_input_file");
  if (view.given("sample_output_file")) out.output_file = text_of(view, "sample_output_file");
  out.prompt_end = view.given("prompt_end") ? text_of(view, "prompt_end") : "\n";
  out.temperature = number_of(view, "temperature", 0, 1e30);
  out.top_p = number_of(view, "top_p", 0, 1);
  out.top_k = count_of(view, "top_k", 0);
  out.maximum_tokens = count_of(view, "maximum_tokens", 0);
  out.samples = count_of(view, "num_samples", 1);
  out.seed = count_of(view, "seed", 0);
  note_what_has_no_effect(view, out);
  require_none(view.objections());
  return out;
}

}  // namespace trireme
