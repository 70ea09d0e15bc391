#include "comm/control/message.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

ControlMessage example() {
  ControlMessage message;
  message.kind = ControlKind::loss;
  message.rank = 3;
  message.host = "node3";
  message.text = "no heartbeat";
  message.state = {Phase::save, 57, 1234567890123, 2.5, "the sum of gradients", 1 << 20, 7, 0.25};
  return message;
}

void expect_example(const std::optional<ControlMessage>& message) {
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, ControlKind::loss);
  EXPECT_EQ(message->rank, 3);
  EXPECT_EQ(message->host, "node3");
  EXPECT_EQ(message->text, "no heartbeat");
  EXPECT_EQ(message->state.phase, Phase::save);
  EXPECT_EQ(message->state.step, 57);
  EXPECT_EQ(message->state.moves, 1234567890123u);
  EXPECT_EQ(message->state.collective, "the sum of gradients");
  EXPECT_EQ(message->state.seconds, 0.25);
}

TEST(ControlMessages, ArriveInAnyPieces) {
  const std::string bytes = encode(example()) + encode(example());
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    ControlStream stream;
    int arrived = 0;
    for (size_t i = 0; i < bytes.size(); i += piece) {
      stream.append(std::string_view(bytes).substr(i, piece));
      while (const auto message = stream.next()) {
        expect_example(message);
        ++arrived;
      }
    }
    ASSERT_EQ(arrived, 2) << piece;
  }
}

TEST(ControlMessages, CutTextsThatAreTooLong) {
  ControlMessage message = example();
  message.host = message.text = message.state.collective = std::string(100'000, 'x');
  ControlStream stream;
  stream.append(encode(message));
  const auto got = stream.next();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, std::string(1024, 'x'));
}

TEST(ControlMessages, GarbageIsRefusedAtItsFirstByte) {
  ControlStream stream;
  stream.append("G");
  EXPECT_ERROR(stream.next(), ErrorKind::data, "not a control message");
}

TEST(ControlMessages, ALengthThatNoMessageHasIsRefusedBeforeItsBytesCome) {
  ControlStream stream;
  stream.append(std::string("TRC2\xff\xff\xff\x7f", 8));
  EXPECT_ERROR(stream.next(), ErrorKind::data, "a control message of 2147483647 bytes, but at most 4352 are supported");
}

TEST(ControlMessages, EveryTruncationAndLengtheningIsRefused) {
  const std::string bytes = encode(example());
  for (size_t length = 0; length + 8 < bytes.size(); ++length) {
    std::string shorter = bytes.substr(0, 8 + length);
    shorter[4] = static_cast<char>(length & 0xff);
    shorter[5] = static_cast<char>(length >> 8);
    ControlStream stream;
    stream.append(shorter);
    EXPECT_ERROR(stream.next(), ErrorKind::data, "a control message ends early");
  }
  std::string longer = bytes + "x";
  longer[4] = static_cast<char>(static_cast<unsigned char>(longer[4]) + 1);
  ControlStream stream;
  stream.append(longer);
  EXPECT_ERROR(stream.next(), ErrorKind::data, "a control message is 1 bytes too long");
}

TEST(ControlMessages, ValuesThatNoRankSendsAreRefused) {
  ControlMessage message = example();
  message.state.seconds = std::numeric_limits<double>::quiet_NaN();
  ControlStream stream;
  stream.append(encode(message));
  EXPECT_ERROR(stream.next(), ErrorKind::data, "out of range");
  message = example();
  message.kind = static_cast<ControlKind>(200);
  stream = {};
  stream.append(encode(message));
  EXPECT_ERROR(stream.next(), ErrorKind::data, "out of range");
}

}  // namespace
}  // namespace trireme
