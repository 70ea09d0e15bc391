// A frame: "TRC2", u32 length of what follows, then the fields in the order of visit(), little-endian as on every
// machine that this program supports; texts as u16 length and bytes.

#include "comm/control/message.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "TRC2";
constexpr size_t kHead = kMagic.size() + sizeof(uint32_t);
constexpr uint32_t kLongest = 4 * kLongestControlText + 256;  // four texts and the numbers

template <class Message, class Visitor>
void visit(Message& m, Visitor& v) {
  v(m.kind), v(m.rank), v(m.other), v(m.host), v(m.text), v(m.other_host);
  v(m.state.phase), v(m.state.step), v(m.state.moves), v(m.state.cpu_seconds), v(m.state.collective);
  v(m.state.bytes), v(m.state.chunks), v(m.state.seconds);
}

struct Writer {
  std::string out;
  void operator()(const std::string& text) {
    const auto length = static_cast<uint16_t>(std::min(text.size(), kLongestControlText));
    (*this)(length);
    out.append(text, 0, length);
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(const T& value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
};

struct Reader {
  std::string_view in;
  std::string_view take(size_t n) {
    require(n <= in.size(), ErrorKind::data, "a control message ends early");
    const std::string_view part = in.substr(0, n);
    in.remove_prefix(n);
    return part;
  }
  void operator()(std::string& text) {
    uint16_t length = 0;
    (*this)(length);
    text = take(length);
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); }
};

ControlMessage decode(std::string_view body) {
  ControlMessage message;
  Reader reader{body};
  visit(message, reader);
  require(reader.in.empty(), ErrorKind::data, "a control message is {} bytes too long", reader.in.size());
  require(message.kind <= ControlKind::bye && message.state.phase <= Phase::save &&
              std::isfinite(message.state.seconds) && std::isfinite(message.state.cpu_seconds),
          ErrorKind::data, "a control message holds values out of range");
  return message;
}

}  // namespace

ControlMessage message_of(const Loss& loss) {
  return {.kind = ControlKind::loss,
          .rank = loss.rank,
          .other = loss.other,
          .state = loss.last,
          .host = loss.host,
          .text = loss.reason,
          .other_host = loss.other_host};
}

Loss loss_in(const ControlMessage& message) {
  return {.rank = message.rank,
          .host = message.host,
          .last = message.state,
          .reason = message.text,
          .other = message.other,
          .other_host = message.other_host};
}

Handshake handshake_of(const ControlMessage& hello) {
  return {.secret = {},
          .server_nonce = {},
          .client_nonce = hello.text.substr(0, hello.text.find(' ')),
          .said = fmt::format("{} {} {}", hello.rank, hello.other, hello.host)};
}

std::string hello_text(const std::string& client_nonce, const std::string& proof) { return client_nonce + " " + proof; }

std::string proof_in(const ControlMessage& hello) {
  const size_t end = hello.text.find(' ');
  return end == std::string::npos ? "" : hello.text.substr(end + 1);
}

std::string encode(const ControlMessage& message) {
  Writer body, frame;
  visit(message, body);
  frame.out = kMagic;
  frame(static_cast<uint32_t>(body.out.size()));
  return frame.out + body.out;
}

std::optional<ControlMessage> ControlStream::next() {
  const size_t known = std::min(buffer_.size(), kMagic.size());
  require(buffer_.compare(0, known, kMagic, 0, known) == 0, ErrorKind::data, "not a control message");
  if (buffer_.size() < kHead) return {};
  uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + kMagic.size(), sizeof length);
  require(length <= kLongest, ErrorKind::data, "a control message of {} bytes, but at most {} are supported", length,
          kLongest);
  if (buffer_.size() < kHead + length) return {};
  ControlMessage message = decode(std::string_view(buffer_).substr(kHead, length));
  buffer_.erase(0, kHead + length);
  return message;
}

}  // namespace trireme
