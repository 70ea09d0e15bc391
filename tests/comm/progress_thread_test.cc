#include "comm/progress_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/time.h"
#include "comm/heartbeat.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;
using Progress = ProgressThread::Progress;

/// What happened, in order.
class Log {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    text_ += what + " ";
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Begins and ends when it is allowed to.
struct Step {
  std::atomic<bool> may_begin = true, may_end = true;
};

class Logged final : public ProgressThread::Operation {
 public:
  Logged(Log& log, std::string name, Step& step) : log_(log), name_(std::move(name)), step_(step) {}
  bool begin() override {
    if (!step_.may_begin) return false;
    log_.add("begin-" + name_);
    return true;
  }
  Progress advance(const ProgressThread::Turn&) override {
    if (!step_.may_end) return Progress::none;
    log_.add("end-" + name_);
    return Progress::done;
  }
  void abandon() override { log_.add("abandon-" + name_); }

 private:
  Log& log_;
  std::string name_;
  Step& step_;
};

class Failing final : public ProgressThread::Operation {
 public:
  Progress advance(const ProgressThread::Turn&) override { fail(ErrorKind::peer, "rank 3 was lost"); }
};

/// An event that the test reaches.
struct Gate final : Event::State {
  void wait() override {
    while (!open) std::this_thread::sleep_for(100us);
  }
  bool reached() override { return open; }
  std::atomic<bool> open = false;
};

struct ProgressThreadTest : testing::Test {
  Log log;
  Step a, b, c;
  Heartbeat heartbeat;
  ProgressThread thread{&heartbeat, {}, {}};
  const ProgressThread::Lane lane = thread.make_lane(), other = thread.make_lane();

  ~ProgressThreadTest() override { thread.end(); }
  Event post(ProgressThread::Lane to, const char* name, Step& step, Event after = {}) {
    return thread.post(to, std::make_unique<Logged>(log, name, step), std::move(after));
  }
};

TEST_F(ProgressThreadTest, OperationsOfALaneBeginInOrderAndAreDoneInOrder) {
  a.may_end = false;
  const Event first = post(lane, "a", a), second = post(lane, "b", b);
  while (log.text() != "begin-a begin-b end-b ") std::this_thread::sleep_for(100us);
  EXPECT_FALSE(second.reached()) << "the one before is not done";
  a.may_end = true;
  second.wait();
  EXPECT_TRUE(first.reached());
  EXPECT_EQ(log.text(), "begin-a begin-b end-b end-a ");
  EXPECT_TRUE(thread.end());
}

TEST_F(ProgressThreadTest, AnOperationThatCannotBeginHoldsUpItsLaneOnly) {
  a.may_begin = false;
  const Event first = post(lane, "a", a), second = post(lane, "b", b);
  post(other, "c", c).wait();
  EXPECT_EQ(log.text(), "begin-c end-c ");
  a.may_begin = true;
  second.wait();
  EXPECT_EQ(log.text(), "begin-c end-c begin-a begin-b end-a end-b ");
}

TEST_F(ProgressThreadTest, AnOperationBeginsAfterItsEvent) {
  const auto gate = std::make_shared<Gate>();
  const Event gated = post(lane, "a", a, Event(gate));
  post(other, "b", b).wait();
  EXPECT_EQ(log.text(), "begin-b end-b ");
  const Event behind = post(other, "c", c, gated);
  gate->open = true;
  behind.wait();
  EXPECT_EQ(log.text(), "begin-b end-b begin-a end-a begin-c end-c ");
}

TEST_F(ProgressThreadTest, ProgressMovesTheHeartbeat) {
  const uint64_t before = heartbeat.state().moves;
  post(lane, "a", a).wait();
  // The thread may be stopped between the end of the operation and its note of it.
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (heartbeat.state().moves == before && Clock::now() < end) std::this_thread::yield();
  EXPECT_GT(heartbeat.state().moves, before);
}

TEST_F(ProgressThreadTest, EveryEventThrowsTheFirstErrorAndWhatIsUnderWayIsAbandoned) {
  a.may_end = false;
  const Event pending = post(lane, "a", a);
  while (log.text().empty()) std::this_thread::sleep_for(100us);
  const Event failed = thread.post(other, std::make_unique<Failing>());
  EXPECT_ERROR(failed.wait(), ErrorKind::peer, "rank 3 was lost");
  EXPECT_ERROR(pending.wait(), ErrorKind::peer, "rank 3 was lost");
  EXPECT_ERROR(post(lane, "b", b).wait(), ErrorKind::peer, "rank 3 was lost");
  EXPECT_FALSE(thread.end());
  EXPECT_EQ(log.text(), "begin-a abandon-a ");
}

TEST_F(ProgressThreadTest, AnEndCompletesWhatNeedsNobodyAndAbandonsTheRest) {
  a.may_end = false;
  const auto gate = std::make_shared<Gate>();
  post(lane, "b", b, Event(gate));
  gate->open = true;
  const Event pending = post(other, "a", a);
  EXPECT_FALSE(thread.end());
  const std::string text = log.text();
  EXPECT_NE(text.find("end-b"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("abandon-a ")) << text;
  EXPECT_ERROR(pending.wait(), ErrorKind::comm, "the exchange with other ranks was aborted before its end");
}

TEST_F(ProgressThreadTest, WithoutWorkItEndsWell) {
  post(lane, "a", a).wait();
  EXPECT_TRUE(thread.end());
  EXPECT_TRUE(thread.end());
}

}  // namespace
}  // namespace trireme
