#include "text/text_encoding.h"

#include <iconv.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"

namespace trireme {
namespace {

constexpr size_t kHead = size_t{64} << 10;

uint8_t byte(char c) { return static_cast<uint8_t>(c); }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_control(uint8_t c) { return (c < 32 && (c < 9 || c > 13) && c != 27) || c == 127; }

/// Counts bytes, and NULs among them, by their position in words of two or four.
struct Places {
  std::array<uint64_t, 4> zero{};
  uint64_t each = 0;
};

Places places_of(std::string_view head) {
  Places places;
  places.each = head.size() / 4;
  for (size_t i = 0; i < places.each * 4; ++i) places.zero[i % 4] += head[i] == 0;
  return places;
}

unsigned unit_at(std::string_view head, size_t at, bool little) {
  const unsigned first = byte(head[at]), second = byte(head[at + 1]);
  return little ? first | second << 8 : first << 8 | second;
}

/// Nearly all units are not control characters, and surrogates are paired.
bool is_utf16(std::string_view head, bool little) {
  size_t wrong = 0, units = 0;
  for (size_t at = 0; at + 1 < head.size(); at += 2, ++units) {
    const unsigned unit = unit_at(head, at, little);
    const bool first = unit >= 0xD800 && unit < 0xDC00, second = unit >= 0xDC00 && unit < 0xE000;
    const bool follows = at >= 2 && unit_at(head, at - 2, little) >= 0xD800 && unit_at(head, at - 2, little) < 0xDC00;
    wrong += (unit < 256 && is_control(static_cast<uint8_t>(unit))) || second != follows ||
             (first && at + 3 < head.size() && (unit_at(head, at + 2, little) & 0xFC00) != 0xDC00) || unit >= 0xFFFE;
  }
  return units > 0 && wrong * 50 <= units;
}

/// Nearly all units are letters, digits or marks of common writing systems; of arbitrary bytes two thirds are.
bool is_written_in_utf16(std::string_view head, bool little) {
  struct Range {
    unsigned first, last;
  };
  constexpr Range kWritten[] = {{9, 13},          {32, 126},        {160, 0x24F},     {0x370, 0x1FFF}, {0x2000, 0x2BFF},
                                {0x3000, 0x33FF}, {0x3400, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFF00, 0xFFEF}};
  size_t written = 0, units = 0;
  for (size_t at = 0; at + 1 < head.size(); at += 2, ++units) {
    const unsigned unit = unit_at(head, at, little);
    written += std::ranges::any_of(kWritten, [&](const Range& r) { return unit >= r.first && unit <= r.last; });
  }
  return units > 0 && written * 20 >= units * 19;
}

bool is_utf32(std::string_view head, bool little) {
  size_t wrong = 0, units = 0;
  for (size_t at = 0; at + 3 < head.size(); at += 4, ++units) {
    const unsigned high = unit_at(head, little ? at + 2 : at, little),
                   low = unit_at(head, little ? at : at + 2, little);
    wrong += high > 0x10 || (high == 0 && low < 256 && is_control(static_cast<uint8_t>(low)));
  }
  return units > 0 && wrong * 50 <= units;
}

}  // namespace

void EncodingJudge::add(std::string_view text) {
  if (head_.size() < kHead) head_ += text.substr(0, kHead - head_.size());
  std::string joined;
  if (!carry_.empty()) {
    joined = std::exchange(carry_, {});
    joined += text;
    text = joined;
  }
  // Keeps an incomplete character at the end for the next block.
  size_t cut = text.size();
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const uint8_t c = byte(text[text.size() - back]);
    if (c < 0x80) break;
    if (c < 0xC0) continue;
    if ((c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) > back) cut = text.size() - back;
    break;
  }
  carry_ = text.substr(cut);
  text = text.substr(0, cut);
  if (simdjson::validate_utf8(text.data(), text.size())) {
    valid_ += static_cast<uint64_t>(std::ranges::count_if(text, [](char c) { return byte(c) >= 0xC0; }));
    bytes_ += text.size();
    if (of_lines_) {
      const auto ends = static_cast<uint64_t>(std::ranges::count(text, '\n'));
      lines_ += ends;
      if (ends > 0) is_bad_line_ = false;
    }
    if (!text.empty()) last_ = text.back();
    return;
  }
  add_by_character(text);
}

void EncodingJudge::add_by_character(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode) {
      const uint8_t c = byte(*p);
      const char after = p + 1 < end ? p[1] : ' ';
      if (invalid_++ == 0) first_invalid_ = bytes_;
      if (!std::exchange(is_bad_line_, true)) ++bad_lines_;
      upper_ += c >= 0xC0 && c < 0xE0;
      lower_ += c >= 0xE0;
      windows_ += c < 0xA0;
      near_ += is_letter(last_) || is_letter(after);
      const bool unused = c == 0x81 || c == 0x8D || c == 0x8F || c == 0x90 || c == 0x9D;  // of windows-1252
      letters_ += !unused;
    } else {
      valid_ += next.length > 1;
      if (next.code == '\n') ++lines_, is_bad_line_ = false;
      controls_ += next.code < 256 && is_control(static_cast<uint8_t>(next.code));
    }
    last_ = p[next.length - 1];
    p += next.length;
    bytes_ += next.length;
  }
}

/// UTF-16 and UTF-32, by their mark or their NULs.
std::optional<OtherEncoding> EncodingJudge::wide() const {
  const std::string_view head = head_;
  const auto found = [&](const char* name, uint64_t offset) {
    return OtherEncoding{name, offset, static_cast<uint64_t>(std::ranges::count(head, '\0')), head.size()};
  };
  constexpr size_t kMark = 4;
  if (head.size() < kMark) return std::nullopt;
  if (head.starts_with(std::string_view("\xFF\xFE\0\0", kMark)) && is_utf32(head.substr(kMark), true))
    return found("UTF-32LE", 0);
  if (head.starts_with(std::string_view("\0\0\xFE\xFF", kMark)) && is_utf32(head.substr(kMark), false))
    return found("UTF-32BE", 0);
  // A mark before ASCII is not UTF-16: each unit would be a rare ideograph.
  const auto printable = std::ranges::count_if(head, [](char c) { return c >= 32 || (c >= 9 && c <= 13); });
  if (printable * 10 >= static_cast<ptrdiff_t>(head.size()) * 9) return std::nullopt;
  if (head.starts_with("\xFF\xFE") && is_utf16(head.substr(2), true)) return found("UTF-16LE", 0);
  if (head.starts_with("\xFE\xFF") && is_utf16(head.substr(2), false)) return found("UTF-16BE", 0);
  const Places places = places_of(head);
  constexpr uint64_t kFewest = 4;  // words of four bytes
  if (places.each < kFewest) return std::nullopt;
  const auto nearly_all = [&](size_t place) { return places.zero[place] * 20 >= places.each * 19; };
  const auto many = [&](size_t place) { return places.zero[place] * 10 >= places.each * 6; };
  const auto few = [&](size_t place) { return places.zero[place] * 20 <= places.each; };
  const uint64_t first = head.find('\0');
  if (nearly_all(3) && nearly_all(2) && few(0) && is_utf32(head, true)) return found("UTF-32LE", first);
  if (nearly_all(0) && nearly_all(1) && few(3) && is_utf32(head, false)) return found("UTF-32BE", first);
  if (many(1) && many(3) && few(0) && few(2) && is_utf16(head, true)) return found("UTF-16LE", first);
  if (many(0) && many(2) && few(1) && few(3) && is_utf16(head, false)) return found("UTF-16BE", first);
  // Letters beyond Latin have no NULs; line ends, blanks and digits have, nearly all at the same places.
  const uint64_t even = places.zero[0] + places.zero[2], odd = places.zero[1] + places.zero[3];
  const bool one_sided = even + odd >= 2 && std::min(even, odd) * 4 <= std::max(even, odd), little = even < odd;
  const auto controls =
      std::ranges::count_if(head, [](char c) { return c != 0 && is_control(byte(c)); });  // Cyrillic: 4
  const bool odd_bytes = invalid_ * 20 >= bytes_ || static_cast<size_t>(controls) * 20 >= head.size();
  if (one_sided && odd_bytes && is_utf16(head, little) && is_written_in_utf16(head, little))
    return found(little ? "UTF-16LE" : "UTF-16BE", std::min<uint64_t>(first_invalid_, first));
  return std::nullopt;
}

std::optional<OtherEncoding> EncodingJudge::verdict(bool at_end) const {
  if (bytes() >= kHead || at_end) {
    if (auto found = wide()) return found;
  }
  constexpr uint64_t kFewest = 3, kEnough = 256;  // bytes: one or two may be faults in UTF-8
  constexpr uint64_t kSparse = 20000;             // bytes per byte that is not UTF-8: occasional faults
  // Random, compressed or encrypted bytes: a third of them is not UTF-8, and a tenth of them is control characters. No
  // encoding of text has both.
  constexpr uint64_t kJudged = 256;
  if (bytes_ >= kJudged && invalid_ * 5 >= bytes_ && controls_ * 25 >= bytes_)
    return OtherEncoding{"", first_invalid_, invalid_, bytes_, controls_};
  // Shift_JIS, windows-1250 and others use bytes that windows-1252 leaves out: evidence only where they are frequent.
  const bool fits_1252 = letters_ * 10 >= invalid_ * 9, is_frequent = invalid_ * 20 >= bytes_;
  const bool evident = invalid_ >= kFewest && invalid_ * kSparse >= bytes_ &&
                       (valid_ * 2 <= invalid_ || invalid_ * 5 >= bytes_) && controls_ == 0 &&
                       (fits_1252 || is_frequent) && (!of_lines_ || bad_lines_ * 10 >= lines_ + 1);
  if (!evident || (!at_end && invalid_ < kEnough)) return std::nullopt;
  OtherEncoding found{"", first_invalid_, invalid_, bytes_};
  if (!fits_1252) return found;
  if (near_ * 2 >= invalid_ && invalid_ * 3 < bytes_) {  // in Latin alphabets they are between other letters
    found.name = windows_ > 0 ? "windows-1252" : "ISO-8859-1";
    return found;
  }
  if (invalid_ * 10 < bytes_) return std::nullopt;  // texts in other alphabets have few others
  if ((upper_ + lower_) * 10 >= invalid_ * 9)       // words of another alphabet: Cyrillic ones are mostly small letters
    found.name = lower_ > 3 * upper_ ? "windows-1251" : upper_ > 3 * lower_ ? "KOI8-R" : "";
  return found;
}

std::string explain(const OtherEncoding& found, const std::string& name) {
  if (found.controls > 0)
    return fmt::format(
        "{}: not text: {} of the first {} bytes are not UTF-8, and {} are control characters; give a text file, or use "
        "the bytes unchanged with --encoding utf-8",
        name, found.count, found.bytes, found.controls);
  const bool wide = found.name.starts_with("UTF-");
  return fmt::format(
      "{}: not UTF-8 from byte {} on: {} ({} of the first {} bytes {}); {}, or use the bytes unchanged "
      "with --encoding utf-8",
      name, found.offset,
      found.name.empty() ? "it seems to be text in another encoding" : "it seems to be text in " + found.name,
      found.count, found.bytes, wide ? "are NUL" : "are not UTF-8",
      found.name.empty() ? "name it with --encoding NAME (GB18030, SHIFT_JIS, BIG5, EUC-KR, windows-1250, ...)"
                         : "read it with --encoding " + found.name);
}

std::string known_encoding(const std::string& name) {
  std::string plain;
  for (const char c : name) plain += static_cast<char>(std::toupper(byte(c)));
  if (plain.empty() || plain == "UTF-8" || plain == "UTF8" || plain == "BYTES") return {};
  if (plain == "CP1252" || plain == "WINDOWS-1252") plain = "CP1252";
  const bool fits =
      std::ranges::all_of(plain, [](char c) { return std::isalnum(byte(c)) || c == '-' || c == '_' || c == '.'; });
  const iconv_t state = fits ? iconv_open("UTF-8", plain.c_str()) : reinterpret_cast<iconv_t>(-1);
  require(state != reinterpret_cast<iconv_t>(-1), ErrorKind::usage,
          "--encoding {}: unknown to this system; `iconv --list` shows the names (UTF-16, windows-1252, "
          "ISO-8859-1, GB18030, ...)",
          name);
  iconv_close(state);
  return plain;
}

Transcoder::Transcoder(const std::string& encoding, std::string where)
    : state_(iconv_open("UTF-8", encoding.c_str())), encoding_(encoding), where_(std::move(where)) {
  require(state_ != reinterpret_cast<void*>(-1), ErrorKind::usage, "--encoding {}: unknown to this system", encoding);
}

Transcoder::~Transcoder() { iconv_close(state_); }

void Transcoder::convert(std::string_view text, bool at_end, std::string& out) {
  rest_ += text;
  char* from = rest_.data();
  size_t left = rest_.size();
  std::array<char, 16384> part;
  const size_t begin = out.size();
  while (left > 0) {
    char* to = part.data();
    size_t room = part.size();
    const size_t before = left;
    const size_t result = iconv(state_, &from, &left, &to, &room);
    const int reason = errno;
    out.append(part.data(), part.size() - room);
    done_ += before - left;
    if (result != static_cast<size_t>(-1)) continue;
    if (reason == E2BIG) continue;
    require(reason == EINVAL, ErrorKind::data, "{}: byte {} is not {}; name another encoding with --encoding", where_,
            done_, encoding_);
    require(!at_end, ErrorKind::data, "{}: the text ends within a character of {}, at byte {}", where_, encoding_,
            done_);
    break;
  }
  rest_.erase(0, rest_.size() - left);
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // names with a byte order keep the mark
  if (!began_ && out.size() > begin) {
    began_ = true;
    if (std::string_view(out).substr(begin).starts_with(kMark)) out.erase(begin, kMark.size());
  }
}

std::string as_utf8(std::string text, const std::string& encoding, bool judges, const std::string& where) {
  if (!encoding.empty()) {
    std::string out;
    Transcoder(encoding, where).convert(text, true, out);
    return out;
  }
  if (!judges) return text;
  EncodingJudge judge;
  judge.add(text);
  if (const auto found = judge.verdict(true)) fail(ErrorKind::data, "{}", explain(*found, where));
  return text;
}

}  // namespace trireme
