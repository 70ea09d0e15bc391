#pragma once
// The conversations of files as ids: every rank renders and tokenises its share of the rows with all of its threads,
// and every rank gets all of them.

#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "data/chat/conversation_rows.h"
#include "data/chat/training_rows.h"
#include "text/chat/training_version.h"
#include "text/tokenizer.h"

namespace trireme {

/// Everything that the ids depend on; the same on every rank.
struct ConversationSource {
  std::vector<std::string> files;     ///< read_rows()
  chat::ConversationColumns columns;  ///< with pairs both answers of each row are taken
  bool skips = false;                 ///< bad rows are skipped and counted; else the first one is an error
  std::string template_name;          ///< open_template()
  std::string template_options;       ///< JSON object of variables; empty: none
  chat::LossOn loss_on = chat::LossOn::assistant;
  std::tm date = {};  ///< what the template sees
  std::string cache;  ///< folder for the result; empty: none
};

struct TokenisedConversations {
  chat::CodedIds ids;                     ///< in the order of the rows; of pairs the chosen one, then the rejected one
  chat::RowCounts counts;                 ///< of the rows of the files, and of the bad ones
  uint64_t rejected = 0;                  ///< answers of pairs that are not preferred, which are not trained on
  std::map<std::string, uint64_t> notes;  ///< what is worth a line in the log, and of how many rows
  std::string template_note;              ///< chat::TrainingFormat::note()
  std::string from_cache;                 ///< the file that they come from; empty: tokenised now
};

/// Collective. `files`: the model's chat templates and special tokens. Where a row has a chosen and a rejected answer
/// but source.columns.pairs is not set, the chosen one is taken. Throws CommonError: data naming file, row and reason
/// of a bad row, mismatch where ranks have other files, stopped.
TokenisedConversations tokenise(const ConversationSource& source, const chat::ChatFiles& files,
                                const Tokenizer& tokenizer, const RankContext& rank, Scalars& scalars);

}  // namespace trireme
