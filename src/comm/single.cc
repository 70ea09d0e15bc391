// A group of one: collectives are copies; messages to oneself meet in a mailbox.

#include <cstring>
#include <list>

#include "comm/check.h"
#include "comm/communicator.h"

namespace trireme {
namespace {

void copy(ConstView from, View to) {
  if (from.data() != to.data() && from.bytes() > 0) std::memcpy(to.data(), from.data(), from.bytes());
}

/// A send or receive that waits for its counterpart.
struct Posted {
  int tag;
  ConstView source;
  View target;
  std::shared_ptr<bool> done;
};

class SelfMessage final : public Handle::Operation {
 public:
  explicit SelfMessage(std::shared_ptr<bool> done) : done_(std::move(done)) {}
  bool test() override { return *done_; }

 private:
  std::shared_ptr<bool> done_;
};

class Single final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return "single"; }

  Handle all_reduce(View x, Reduction) override {
    comm_check::reducible("all_reduce", x);
    return {};
  }
  Handle all_gather(ConstView x, View y) override { return copied("all_gather", x, y); }
  Handle broadcast(View, int root) override {
    comm_check::rank("broadcast", root, 1);
    return {};
  }
  Handle barrier() override { return {}; }
  std::unique_ptr<Communicator> split(int, int) override { return make_single(); }

  Handle send(ConstView x, int to, int tag) override {
    comm_check::rank("send", to, 1);
    comm_check::tag("send", tag);
    return meet(sends_, receives_, {tag, x, {}, std::make_shared<bool>(false)});
  }
  Handle receive(View x, int from, int tag) override {
    comm_check::rank("receive", from, 1);
    comm_check::tag("receive", tag);
    return meet(receives_, sends_, {tag, {}, x, std::make_shared<bool>(false)});
  }

 private:
  static Handle copied(std::string_view call, ConstView x, View y) {
    comm_check::parts(call, x, y, 1);
    copy(x, y);
    return {};
  }

  /// Completes the oldest counterpart of the same tag, or waits for one.
  static Handle meet(std::list<Posted>& own, std::list<Posted>& other, Posted posted) {
    for (auto it = other.begin(); it != other.end(); ++it) {
      if (it->tag != posted.tag) continue;
      const ConstView source = posted.source.empty() ? it->source : posted.source;
      const View target = posted.target.empty() ? it->target : posted.target;
      comm_check::parts("receive", source, target, 1);
      copy(source, target);
      *it->done = true;
      other.erase(it);
      return {};
    }
    auto operation = std::make_unique<SelfMessage>(posted.done);
    own.push_back(std::move(posted));
    return Handle(std::move(operation));
  }

  std::list<Posted> sends_, receives_;
};

}  // namespace

std::unique_ptr<Communicator> make_single() { return std::make_unique<Single>(); }

}  // namespace trireme
