#include "data/prepare/character_meta.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"

namespace trireme {

std::string character_meta_json(const Tokenizer& tokenizer) {
  Json to_text = Json::object(), to_id = Json::object();
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string text = tokenizer.id_to_token(id);
    to_text[std::to_string(id)] = text;
    to_id[text] = id;
  }
  const Json meta = {{"vocab_size", tokenizer.vocabulary_size()}, {"itos", to_text}, {"stoi", to_id}};
  return dump_valid_json(meta, 1) + "\n";
}

}  // namespace trireme
