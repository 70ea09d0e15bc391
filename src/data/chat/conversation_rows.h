#pragma once
// What a row of a data set means: messages, ShareGPT, Alpaca, prompt and completion, pairs of preference.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace trireme::chat {

struct Conversation;

struct ConversationColumns {
  /// The file's name of a column, by the usual one: messages, conversations, role, content, system, tools, prompt,
  /// completion, chosen, rejected, instruction, input, output, history, text.
  std::map<std::string, std::string> columns = {};
  /// system, user, assistant or tool, by the file's word for it, in addition to the usual words.
  std::map<std::string, std::string> roles = {};
  /// Every row must be a pair, "chosen" and "rejected", whose answers follow a common prompt; what else it has is not
  /// read.
  bool pairs = false;
};

/// Checks the options themselves. Throws Error::usage naming a column or role that does not exist.
void check_columns(const ConversationColumns& columns);

/// The conversation of a row; of a row with "chosen" and "rejected" both, in this order. The form is known by the
/// columns that are there:
///   messages or conversations: a list of {role, content} or ShareGPT's {from, value}
///   chosen and rejected: texts after a prompt; or lists of messages, after a prompt or with it at their beginning
///   prompt and completion: texts or lists of messages
///   instruction and output, with input and history: Alpaca
///   text: a text without roles
/// and with each of them system, tools and chat_template_kwargs. A column may also hold its JSON as text. Switches of
/// messages (weight, train, masked, ...) become Conversation::untrained. Throws Error::data with the reason and the
/// key, without the row's place: no known columns, no turn of the assistant, a wrong type, weights.
std::vector<Conversation> conversations_of(const Json& row, const ConversationColumns& columns);

/// What happened to the rows of a file.
struct RowCounts {
  uint64_t rows = 0, conversations = 0, skipped = 0;
  std::string first_skipped;  ///< "FILE row 3: reason"
  /// How many rows were skipped by reason, in which numbers are N, and the first of each: "FILE row 3".
  std::map<std::string, uint64_t> reasons = {};
  std::map<std::string, std::string> firsts = {};
  /// "FILE row 3: reason", of the first 100,000 in the order in which they were found.
  std::vector<std::string> list = {};

  void skip(const std::string& path, uint64_t row, const std::string& reason);
  /// Adds those of another file, or of other rows.
  void add(const RowCounts& other);
  /// "1 skipped of 10 rows; for example FILE row 3: reason", or "3 skipped of 10 rows: 2 x reason (first FILE row 3) |
  /// 1 x reason (first FILE row 9)"
  std::string skipped_text() const;
};

/// Calls each(row, conversations) for the rows of a file (rows.h) until it returns false. A row without a usable
/// conversation, or for which `each` throws Error::data, is counted if `skips`, and else an Error::data with file, row
/// and reason. wants: as RowHandlers has it; rows that are not wanted are not counted.
RowCounts read_conversations(const std::string& path, const ConversationColumns& columns, bool skips,
                             const std::function<bool(uint64_t row, const std::vector<Conversation>&)>& each,
                             const std::function<bool(uint64_t row)>& wants = {});

}  // namespace trireme::chat
