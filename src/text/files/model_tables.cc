#include "text/files/model_tables.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "text/files/json_cursor.h"
#include "text/unicode.h"

namespace trireme {
namespace {

bool is_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode) return false;
    p += next.length;
  }
  return true;
}

/// Reads a member's text with a cursor; invalid JSON is an error of the file.
template <class Read>
void read_all(std::string_view text, const std::string& place, Read read) {
  require(is_utf8(text), ErrorKind::data, "{}: not valid JSON: bytes that are not UTF-8", place);
  JsonCursor cursor(text);
  try {
    read(cursor);
  } catch (const JsonSyntax& error) {
    fail(ErrorKind::data, "{}: not valid JSON at byte {}: {}", place, cursor.position(), error.what());
  }
}

/// Upper bound of the entries of a list, from the bytes of its text, for reserving memory.
size_t most_entries(std::string_view text, size_t least_bytes) {
  return std::min<size_t>(text.size() / least_bytes, Vocabulary::kLargestId);
}

TokenId read_id(JsonCursor& cursor, std::string_view token, const std::string& place) {
  TokenId id = 0;
  const std::string_view digits = cursor.at_number() ? cursor.number() : std::string_view();
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  require(
      !digits.empty() && error == std::errc() && stop == digits.data() + digits.size() && id <= Vocabulary::kLargestId,
      ErrorKind::data, "{}: the id of \"{}\" must be an integer from 0 to {}", place, token, Vocabulary::kLargestId);
  return id;
}

}  // namespace

TokenizerText split_tokenizer_text(std::string_view json) {
  TokenizerText parts;
  size_t copied = 0;
  try {
    JsonCursor cursor(json);
    const auto part = [&](bool wanted, std::string_view& text) {
      const char bracket = cursor.peek();
      const std::string_view value = cursor.skip();
      if (!wanted || (bracket != '{' && bracket != '[')) return;
      text = value;
      parts.frame.append(json, copied, static_cast<size_t>(value.data() - json.data()) - copied);
      parts.frame += bracket == '{' ? "{}" : "[]";
      copied = cursor.position();
    };
    std::string_view rest;
    cursor.take('{');
    for (bool first = true; cursor.next('}', first);) {
      if (cursor.key() != "model" || cursor.peek() != '{') {
        cursor.skip();
        continue;
      }
      cursor.take('{');
      for (bool first_of_model = true; cursor.next('}', first_of_model);) {
        const std::string key(cursor.key());
        part(key == "vocab" || key == "merges", key == "vocab" ? parts.vocab : key == "merges" ? parts.merges : rest);
      }
    }
  } catch (const JsonSyntax&) {
    parts = {};  // the reader of the frame reports the invalid JSON
    copied = 0;
  }
  parts.frame.append(json, copied);
  return parts;
}

Vocabulary read_vocabulary(std::string_view text, const std::string& place) {
  Vocabulary vocabulary;
  if (text.empty()) return vocabulary;
  vocabulary.reserve(most_entries(text, 16));
  read_all(text, place, [&](JsonCursor& cursor) {
    cursor.take('{');
    for (bool first = true; cursor.next('}', first);) {
      const std::string_view token = cursor.key();
      vocabulary.add(token, read_id(cursor, token, place), place);
    }
  });
  return vocabulary;
}

ScoredVocabulary read_scored_vocabulary(std::string_view text, const JsonObject& model) {
  ScoredVocabulary result;
  if (text.empty()) return result;
  result.vocabulary.reserve(most_entries(text, 16));
  const auto place = [&] { return model.place_of("vocab", result.scores.size()); };
  const auto refuse = [&] { fail(ErrorKind::data, "{}: expected [token, score]", place()); };
  read_all(text, model.place_of("vocab"), [&](JsonCursor& cursor) {
    cursor.take('[');
    for (bool first = true; cursor.next(']', first);) {
      if (cursor.peek() != '[') refuse();
      cursor.take('[');
      if (cursor.peek() != '"') refuse();
      require(result.scores.size() <= Vocabulary::kLargestId, ErrorKind::data,
              "{}: more than {} tokens, the supported maximum", model.place(), Vocabulary::kLargestId);
      result.vocabulary.add(cursor.string(), static_cast<TokenId>(result.scores.size()), model.place());
      if (cursor.peek() != ',') refuse();
      cursor.take(',');
      if (!cursor.at_number()) refuse();
      const std::string_view number = cursor.number();
      double score = 0;
      const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), score);
      require(error == std::errc(), ErrorKind::data, "{}: the score {} is out of range", place(), number);
      if (cursor.peek() != ']') refuse();
      cursor.take(']');
      result.scores.push_back(score);
    }
  });
  return result;
}

MergeCollector::MergeCollector(const Vocabulary& vocabulary, size_t expected, size_t prefix_bytes, std::string place)
    : vocabulary_(vocabulary), table_(expected), prefix_bytes_(prefix_bytes), place_(std::move(place)) {}

std::string MergeCollector::place() const { return fmt::format("{}[{}]", place_, rank_); }

TokenId MergeCollector::id_of(std::string_view token, std::string_view left, std::string_view right) const {
  const std::optional<TokenId> id = vocabulary_.find(token);
  require(id.has_value(), ErrorKind::data, "{}: merge \"{} {}\": \"{}\" is missing from the vocabulary", place(), left,
          right, token);
  return *id;
}

/// Files list merges in the order of their results, so a result is mostly the token of the previous merge or the one
/// after it.
TokenId MergeCollector::merged_id(std::string_view left, std::string_view rest, std::string_view right) {
  for (const TokenId guess : {last_, last_ + 1}) {
    const std::string_view token = vocabulary_.token(guess).value_or(std::string_view());
    if (token.size() == left.size() + rest.size() && token.starts_with(left) && token.ends_with(rest)) return guess;
  }
  joined_.assign(left).append(rest);
  return id_of(joined_, left, right);
}

void MergeCollector::add(std::string_view left, std::string_view right) {
  const TokenId left_id = id_of(left, left, right), right_id = id_of(right, left, right);
  last_ = merged_id(left, right.substr(std::min(right.size(), prefix_bytes_)), right);
  require(table_.add(left_id, right_id, rank_, last_), ErrorKind::data, "{}: merge \"{} {}\" appears twice", place(),
          left, right);
  ++rank_;
}

bool MergeCollector::is_known(std::string_view left, std::string_view right) const {
  const std::string merged = std::string(left).append(right.substr(std::min(right.size(), prefix_bytes_)));
  return vocabulary_.find(left) && vocabulary_.find(right) && vocabulary_.find(merged);
}

void MergeCollector::add_joined(std::string_view text) {
  std::vector<size_t> cuts, possible;
  for (size_t at = text.find(' ', 1); at != std::string_view::npos && at + 1 < text.size(); at = text.find(' ', at + 1))
    cuts.push_back(at);
  if (cuts.size() != 1) {
    for (const size_t cut : cuts) {
      if (is_known(text.substr(0, cut), text.substr(cut + 1))) possible.push_back(cut);
    }
    cuts = possible;
  }
  require(cuts.size() == 1, ErrorKind::data, "{}: \"{}\", expected two tokens separated by one space", place(), text);
  add(text.substr(0, cuts[0]), text.substr(cuts[0] + 1));
}

MergeTable read_merges(std::string_view text, const JsonObject& model, const Vocabulary& vocabulary,
                       size_t prefix_bytes) {
  // Some writers use an empty object for "no merges".
  const bool is_empty_object = text.starts_with('{') && text.find_first_not_of(" \t\r\n", 1) == text.size() - 1;
  if (is_empty_object) return MergeTable();
  (void)model.array("merges");  // it exists and is a list
  MergeCollector merges(vocabulary, most_entries(text, 24), prefix_bytes, model.place_of("merges"));
  const auto refuse = [&] { fail(ErrorKind::data, "{}: a merge must be \"a b\" or [\"a\", \"b\"]", merges.place()); };
  read_all(text, model.place_of("merges"), [&](JsonCursor& cursor) {
    std::string left;
    cursor.take('[');
    for (bool first = true; cursor.next(']', first);) {
      if (cursor.peek() == '"') {
        merges.add_joined(cursor.string());
        continue;
      }
      if (cursor.peek() != '[') refuse();
      cursor.take('[');
      if (cursor.peek() != '"') refuse();
      left = cursor.string();
      if (cursor.peek() != ',') refuse();
      cursor.take(',');
      if (cursor.peek() != '"') refuse();
      const std::string_view right = cursor.string();
      if (cursor.peek() != ']') refuse();
      cursor.take(']');
      merges.add(left, right);
    }
  });
  return merges.take();
}

}  // namespace trireme
