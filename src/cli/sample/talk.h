#pragma once
// `trireme sample --chat`: a conversation with a model, by its chat template.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_folder.h"
#include "cli/sample/options.h"
#include "text/chat/chat_format.h"

namespace trireme {
namespace chat {
struct Conversation;
}

class Talk {
 public:
  /// The template of the model's folder, of the adapter's or of --tokenizer's, or the one that --chat-template names.
  /// Throws Error::data if it is missing.
  Talk(const ModelFolder& folder, const SampleOptions& options);
  ~Talk();

  /// Starts again, with --system if that is given.
  void begin();
  /// Continues a conversation that ends with a question. Returns the ids that the model continues.
  std::vector<TokenId> take(const chat::Conversation& conversation, const Tokenizer& tokenizer);
  /// Adds what the user says. Returns the ids that the model continues.
  std::vector<TokenId> ask(const std::string& text, const Tokenizer& tokenizer);
  /// Adds what the model said to that.
  void answered(const std::string& text);
  /// Adds the tokens that end a turn: the tokenizer's eos_token, and what the template writes after an answer.
  void stop_at_end(const Tokenizer& tokenizer, GenerateOptions& generate) const;

 private:
  const SampleOptions& options_;
  chat::ChatFiles files_;
  chat::ChatFormat format_;
  std::unique_ptr<chat::Conversation> conversation_;
};

}  // namespace trireme
