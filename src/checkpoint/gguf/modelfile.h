#pragma once
// The Modelfile that `ollama create` reads: weights, the chat template as ollama writes them, what ends an answer.

#include <cstdint>
#include <optional>
#include <string>

#include "text/chat/chat_files.h"

namespace trireme {

/// A chat template whose turns follow each other, each between two texts of its role.
struct TurnTexts {
  std::optional<std::string> system_before;  ///< none: the template takes no system text
  std::string system_after, without_system;  ///< the latter in the place of a system text
  std::string user_before, user_after, assistant_before, assistant_after;
  std::string prompt;  ///< begins an answer

  /// The template in ollama's language (Go's text/template), which puts the first token before it by itself.
  std::string to_ollama() const;
};

/// By rendering conversations with and without a system text; why_not: why it is not of this kind. Then it is none.
std::optional<TurnTexts> turn_texts(const chat::ChatFiles& files, std::string& why_not);

/// file: of the weights, beside it. tokenizer_json, generation: as GgufExport. context: of the model.
std::string ollama_modelfile(const std::string& file, const std::string& tokenizer_json, const std::string& generation,
                             int64_t context);

}  // namespace trireme
