#include "cli/data/tokenizer_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "base/count.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/printable.h"
#include "data/chat/traps.h"
#include "hub/place.h"
#include "text/chat/conversation.h"
#include "text/chat/training_version.h"

namespace trireme {
namespace {

constexpr const char* kCounted = "*";

/// A file, or those of a data set of the hub.
std::vector<std::string> conversation_files(const std::string& given) {
  if (std::filesystem::exists(given)) return {given};
  const hub::PlaceOfData place = hub::place_of_data(given);
  require(!place.files.empty(), ErrorKind::io, "{} does not exist{}", given, place.why_not);
  return place.files;
}

/// The text of one id on a line.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        out += c;
    }
  }
  return printable(out);
}

void print_text(const std::string& heading, const chat::ChatTokens& tokens, const Tokenizer& tokenizer) {
  const auto counted = std::ranges::count(tokens.mask, 1);
  fmt::print("{}: {}, {} trained on\n{}\n", heading, count_text(tokens.ids.size(), "id"), counted,
             printable(tokens.text));
  fmt::print("ids ({} trained on)\n", kCounted);
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    fmt::print("{:>6} {:>7} {} \"{}\"\n", i, tokens.ids[i], tokens.mask[i] != 0 ? kCounted : " ",
               shown(tokenizer.decode(std::span(&tokens.ids[i], 1))));
  }
}

void print_json(const std::string& file, uint64_t row, const char* part, const chat::ChatTokens& tokens) {
  Json record = {{"file", file}, {"row", row}};
  if (part != nullptr) record["part"] = part;
  record["text"] = tokens.text;
  record["ids"] = tokens.ids;
  record["mask"] = tokens.mask;
  fmt::print("{}\n", dump_json(record));
}

/// The format of conversations with tools may differ from that of others.
class Formats {
 public:
  explicit Formats(const TokenizerChatFlags& flags) : flags_(flags), files_(chat_files_beside(flags.tokenizer)) {}

  const chat::TrainingFormat& of(const chat::Conversation& conversation) {
    const bool tools = conversation.tools.is_array();
    auto& made = formats_[tools];
    if (made == nullptr) {
      made = std::make_unique<chat::TrainingFormat>(files_, chat::open_template(files_, flags_.format.name, tools));
      if (!made->note().empty()) log::info("{}", made->note());
    }
    return *made;
  }

  std::string eos_token() const {
    const auto token = files_.tokens.find("eos_token");
    return token == files_.tokens.end() ? "" : token->second;
  }

 private:
  const TokenizerChatFlags& flags_;
  chat::ChatFiles files_;
  std::map<bool, std::unique_ptr<chat::TrainingFormat>> formats_;
};

}  // namespace

void add_tokenizer_chat(Flags& command, TokenizerChatFlags& flags) {
  command
      .add("--tokenizer", flags.tokenizer,
           "folder of a model or its tokenizer, with its chat template; or a name of the Hugging Face hub")
      .required();
  add_tokenizer_flags(command, flags.load);
  command.add("FILE", flags.file, "conversations: .jsonl, .json, .csv, .tsv or .parquet, or a data set of the hub")
      .required();
  add_chat_template_flags(command, flags.format);
  add_conversation_flags(command, flags.rows);
  command.choice("--loss-on", flags.loss_on, "whose words are trained on").show_default();
  command.add("--first", flags.first, "first row to show").positive().show_default();
  command.add("--rows", flags.most, "number of rows to show; 0 shows all").show_default();
  command.add_switch("--jsonl", flags.jsonl, "one JSON object per conversation: row, text, ids, mask");
}

void run_tokenizer_chat(const TokenizerChatFlags& flags) {
  const chat::ConversationColumns columns = conversation_columns(flags.rows);
  const auto tokenizer = load_tokenizer(flags.tokenizer, load_options(flags.load));
  Formats formats(flags);
  for (const std::string& file : conversation_files(flags.file)) {
    uint64_t shown_rows = 0;
    std::map<std::string, uint64_t> traps;
    const auto show_one = [&](uint64_t row, const char* part, const chat::ChatTokens& tokens) {
      if (flags.jsonl) return print_json(file, row, part, tokens);
      print_text(fmt::format("{} row {}{}{}", file, row, part == nullptr ? "" : " ", part == nullptr ? "" : part),
                 tokens, *tokenizer);
    };
    const auto show = [&](uint64_t row, const std::vector<chat::Conversation>& conversations) {
      if (row < flags.first) return true;
      for (size_t i = 0; i < conversations.size(); ++i) {
        const char* const part = conversations.size() < 2 ? nullptr : i == 0 ? "chosen" : "rejected";
        chat::Conversation conversation = conversations[i];
        if (conversation.text) {
          show_one(row, part, chat::text_tokens(*conversation.text, formats.eos_token(), *tokenizer));
          continue;
        }
        add_keywords(conversation, flags.format);
        conversation.keywords.update(conversations[i].keywords);  // a row's own come first
        const chat::ChatFormat& format = formats.of(conversation).format_for(conversation, flags.loss_on);
        const chat::ChatTokens tokens = format.tokens(conversation, *tokenizer, flags.loss_on);
        for (const std::string& trap : chat::traps_of(conversation, format, tokens)) ++traps[trap];
        show_one(row, part, tokens);
      }
      return ++shown_rows != flags.most;
    };
    const chat::RowCounts counts = chat::read_conversations(file, columns, flags.rows.skips, show);
    for (const auto& [trap, count] : traps) log::warning("{}: {}: {}", file, count_text(count, "conversation"), trap);
    if (counts.skipped > 0) log::warning("{}: {}", file, counts.skipped_text());
  }
}

}  // namespace trireme
