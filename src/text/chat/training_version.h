#pragma once
// Published templates that do not show what the assistant says, and what they are trained with instead.

#include <optional>
#include <string>

#include "text/chat/chat_files.h"
#include "text/chat/chat_format.h"

namespace trireme::chat {

struct TrainingVersion {
  std::string model;      ///< whose template it is
  TemplateSource source;  ///< with {% generation %} around what counts
  /// Also for a last turn alone: the published one writes a finished answer in another way than it begins one.
  bool of_last_turn = false;
};

/// Of the published templates that are known by their hash: the same text of the last turn and of all other roles,
/// every turn of the assistant written as the last one. What it marks is what TRL's training version of the template
/// marks.
std::optional<TrainingVersion> training_version(const TemplateSource& source);

/// What conversations are trained with: a template, and where it is a published one, its training version for rows of
/// which every turn counts.
class TrainingFormat {
 public:
  /// Throws Error::data.
  TrainingFormat(const ChatFiles& files, const TemplateSource& source);

  /// ChatFormat::tokens().
  ChatTokens tokens(const Conversation& conversation, const Tokenizer& tokenizer, LossOn loss_on) const {
    return format_for(conversation, loss_on).tokens(conversation, tokenizer, loss_on);
  }
  const ChatFormat& format_for(const Conversation& conversation, LossOn loss_on) const;
  /// The line of the log about the training version; empty: none.
  const std::string& note() const { return note_; }
  /// The texts of the templates.
  const std::string& facts() const { return facts_; }
  void set_time(const std::tm& now);

 private:
  ChatFormat own_;
  std::optional<ChatFormat> training_;
  bool of_last_turn_ = false;
  std::string note_, facts_;
};

}  // namespace trireme::chat
