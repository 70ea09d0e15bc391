#include "text/line_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/write_signals.h"
#include "text/json_node.h"
#include "text/text_encoding.h"

namespace trireme {
namespace {

constexpr size_t kMostLineBytes = size_t{64} << 20;  // as for one document

/// Reads a stream in blocks, as UTF-8.
class TextBlocks {
 public:
  TextBlocks(std::FILE* in, const std::string& where, const LineCodecOptions& options)
      : in_(in), where_(where), judges_(options.judges && options.encoding.empty()), judge_(options.json_lines) {
    if (!options.encoding.empty()) transcoder_.emplace(options.encoding, where);
  }
  /// Appends the next block; false at the end.
  bool next(std::string& text) {
    if (ended_) return false;
    errno = 0;
    const size_t n = std::fread(raw_.data(), 1, raw_.size(), in_);
    ended_ = n < raw_.size();
    if (ended_) require(std::feof(in_) != 0, ErrorKind::io, "cannot read {}: {}", where_, std::strerror(errno));
    const std::string_view block(raw_.data(), n);
    if (transcoder_)
      transcoder_->convert(block, ended_, text);
    else
      text += block;
    if (judges_) {
      judge_.add(block);
      if (const auto found = judge_.verdict(ended_)) fail(ErrorKind::data, "{}", explain(*found, where_));
    }
    return true;
  }

 private:
  std::FILE* in_;
  const std::string& where_;
  bool judges_, ended_ = false;
  EncodingJudge judge_;
  std::optional<Transcoder> transcoder_;
  std::vector<char> raw_ = std::vector<char>(size_t{64} << 10);
};

/// Calls line(text, number) for each line. A final \n does not begin a new line.
void for_each_line(std::FILE* in, const std::string& where, const LineCodecOptions& options,
                   const std::function<void(std::string_view, size_t)>& line) {
  TextBlocks blocks(in, where, options);
  std::string text;
  size_t number = 1, searched = 0;
  while (blocks.next(text)) {
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', std::max(begin, searched))) != std::string::npos; begin = end + 1)
      line(std::string_view(text).substr(begin, end - begin), number++);
    text.erase(0, begin);
    searched = text.size();
    require(text.size() <= kMostLineBytes, ErrorKind::data,
            "{}, line {}: longer than {} bytes, the limit of a line; use `trireme prepare` for longer texts", where,
            number, kMostLineBytes);
  }
  if (!text.empty()) line(text, number);
}

[[noreturn]] void fail_to_write() {
  if (errno == EPIPE) end_by_broken_pipe();
  fail(ErrorKind::io, "cannot write the output: {}", reason_of_write(errno));
}

void write_all(std::FILE* out, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (!written) fail_to_write();
}

void flush(std::FILE* out) {
  if (std::fflush(out) != 0) fail_to_write();
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
  for_each_line(in, where, options, [&](std::string_view line, size_t number) {
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
  LineCodecOptions plain = options;
  plain.judges = false;
  plain.encoding.clear();
  for_each_line(in, where, plain, [&](std::string_view line, size_t number) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return write_all(out, "\n");
    const std::string place = fmt::format("{}, line {}", where, number);
    const JsonNode list = parse_json_node(line, place);
    require(list.is_array(), ErrorKind::data, "{}: expected a JSON array of ids", place);
    ids.clear();
    for (const JsonNode& id : list.items) {
      require(id.is_integer() && id.integer >= 0 && id.integer <= UINT32_MAX, ErrorKind::data,
              "{}: ids must be integers >= 0", place);
      ids.push_back(static_cast<TokenId>(id.integer));
    }
    write_all(out, tokenizer.decode(ids, options.skip_special_tokens) + "\n");
  });
  flush(out);
}

}  // namespace trireme
