#include "cli/wording.h"

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

struct Wording {
  std::string_view command, native, own;
};

/// Longer ones before shorter ones with the same beginning.
constexpr Wording kWordings[] = {
    {"glue", "--checkpoint.resume none --run.overwrite", "--overwrite-output-dir"},
    {"glue", "--checkpoint.resume none (`trireme glue`: --overwrite-output-dir)", "--overwrite-output-dir"},
    {"glue", "--checkpoint.resume none", "--overwrite-output-dir"},
    {"glue", "leave checkpoint.resume at auto", "remove --resume-from-checkpoint"},
    {"glue", "checkpoint.resume", "--resume-from-checkpoint"},
    {"glue", "checkpoint.every", "--save-steps"},
    {"glue", "checkpoint.keep", "--save-total-limit"},
    {"glue", "run.overwrite", "--overwrite-output-dir"},
    {"glue", "run.dir", "--output-dir"},
    {"glue", "run.steps", "--max-steps"},
    {"glue", "run.seed", "--seed"},
    {"glue", "model.init", "--model-name-or-path"},
    {"glue", "data.dir", "--data-dir"},
    {"glue", "data.tokenizer", "--tokenizer-name"},
    {"glue", "batch.micro", "--per-device-train-batch-size"},
    {"glue", "batch.accumulation", "--gradient-accumulation-steps"},
    {"glue", "batch.sequence", "--max-seq-length"},
    {"glue", "evaluation.every", "--eval-steps"},
    {"glue", "log.every", "--logging-steps"},
    {"glue", "optim.learning-rate", "--learning-rate"},
    {"glue", "optim.weight-decay", "--weight-decay"},
    {"glue", "optim.warmup-steps", "--warmup-steps"},
    {"glue", "optim.clip", "--max-grad-norm"},
    {"glue", "optim.beta1", "--adam-beta1"},
    {"glue", "optim.beta2", "--adam-beta2"},
    {"glue", "precision.dtype bf16", "--bf16"},
};

bool is_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
}

/// Whether the text begins with `words` as a separate word: not as part of a longer name, a path, or a file name.
bool begins_with(std::string_view text, std::string_view words) {
  if (!text.starts_with(words)) return false;
  const std::string_view rest = text.substr(words.size());
  return rest.empty() || !is_part(rest[0]) || rest == "." || rest.starts_with(". ");
}

}  // namespace

std::string in_words_of(std::string_view command, std::string_view message) {
  std::string out;
  for (size_t at = 0; at < message.size();) {
    const std::string_view rest = message.substr(at);
    const std::string_view bare = rest.substr(rest.starts_with("--") ? 2 : 0);
    const bool begins = at == 0 || (!is_part(message[at - 1]) && message[at - 1] != '"');
    const auto* const found = std::ranges::find_if(kWordings, [&](const Wording& wording) {
      return begins && wording.command == command &&
             begins_with(wording.native.starts_with("--") ? rest : bare, wording.native);
    });
    if (found == std::end(kWordings)) {
      out += message[at++];
      continue;
    }
    const size_t dashes = found->native.starts_with("--") ? 0 : rest.size() - bare.size();
    at += found->native.size() + dashes;
    out += found->own;
  }
  return out;
}

}  // namespace trireme
