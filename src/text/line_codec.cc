#include "text/line_codec.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "text/json_node.h"

namespace trireme {
namespace {

constexpr size_t kMostLineBytes = size_t{64} << 20;  // as for one document

/// Calls line(text, number) for each line. A final \n does not begin another line.
void for_each_line(std::FILE* in, const std::string& where, const std::function<void(std::string_view, size_t)>& line) {
  std::string text;
  for (size_t number = 1;; ++number) {
    text.clear();
    errno = 0;
    int c = 0;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
      text.push_back(static_cast<char>(c));
      require(text.size() <= kMostLineBytes, ErrorKind::data,
              "{}, line {}: longer than {} bytes, the most for one line; `trireme prepare` encodes longer texts", where,
              number, kMostLineBytes);
    }
    if (c == EOF) require(std::feof(in) != 0, ErrorKind::io, "cannot read {}: {}", where, std::strerror(errno));
    if (c == EOF && text.empty()) return;
    line(text, number);
  }
}

void write_all(std::FILE* out, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  require(written, ErrorKind::io, "cannot write the output: {}", std::strerror(errno));
}

void flush(std::FILE* out) {
  const bool flushed = std::fflush(out) == 0;  // before strerror(errno): arguments are evaluated in any order
  require(flushed, ErrorKind::io, "cannot write the output: {}", std::strerror(errno));
}

Encoding encode_json_line(const Tokenizer& tokenizer, const EncodeOptions& options, std::string_view line,
                          const std::string& place) {
  const JsonNode root = parse_json_node(line, place);
  const JsonObject object(root, place);
  const std::string text = object.string("text");
  if (!object.has("text_pair")) return tokenizer.encode(text, options);
  return tokenizer.encode_pair(text, object.string("text_pair"), options);
}

}  // namespace

void encode_lines(const Tokenizer& tokenizer, const LineCodecOptions& options, std::FILE* in, std::FILE* out,
                  const std::string& where) {
  std::string text;
  for_each_line(in, where, [&](std::string_view line, size_t number) {
    const Encoding encoding = options.json_lines ? encode_json_line(tokenizer, options.encode, line,
                                                                    fmt::format("{}, line {}", where, number))
                                                 : tokenizer.encode(line, options.encode);
    text.clear();
    text += '[';
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      if (i > 0) text += ", ";
      const fmt::format_int id(encoding.ids[i]);
      text.append(id.data(), id.size());
    }
    text += "]\n";
    write_all(out, text);
  });
  flush(out);
}

void decode_lines(const Tokenizer& tokenizer, const LineCodecOptions& options, std::FILE* in, std::FILE* out,
                  const std::string& where) {
  std::vector<TokenId> ids;
  for_each_line(in, where, [&](std::string_view line, size_t number) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const std::string place = fmt::format("{}, line {}", where, number);
    const JsonNode list = parse_json_node(line, place);
    require(list.is_array(), ErrorKind::data, "{}: a JSON array of ids was expected", place);
    ids.clear();
    for (const JsonNode& id : list.items) {
      require(id.is_integer() && id.integer >= 0 && id.integer <= UINT32_MAX, ErrorKind::data,
              "{}: ids must be whole numbers >= 0", place);
      ids.push_back(static_cast<TokenId>(id.integer));
    }
    write_all(out, tokenizer.decode(ids, options.skip_special_tokens) + "\n");
  });
  flush(out);
}

}  // namespace trireme
