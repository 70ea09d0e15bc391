// What NCCL is asked, by a library that writes it down, and what the real one answers without a GPU.

#include "cuda/nccl.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/host.h"
#include "base/time.h"
#include "cuda/find_library.h"
#include "cuda/limits.h"
#include "tensor/device.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kParent = " blocking 0 blocks 1 shares 0\n";
constexpr const char* kGroup = " blocking 0 blocks 16 shares 0\n";

class Nccl : public testing::Test {
 protected:
  Nccl() {
    const std::string tests = program_path().substr(0, program_path().rfind('/') + 1);
    opened_ = dlopen((tests + "libfake_nccl.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(opened_, nullptr) << dlerror();
    calls().clear();
  }
  ~Nccl() override {
    EXPECT_THAT(calls(), Not(HasSubstr("WRONG")));
    EXPECT_EQ(communicators(), 0u) << "each one is destroyed or aborted";
    dlclose(opened_);
  }
  size_t communicators() { return reinterpret_cast<size_t (*)()>(dlsym(opened_, "fake_communicators"))(); }
  template <class T>
  T& of(const char* name) {
    return *static_cast<T*>(dlsym(opened_, name));
  }
  std::string& calls() { return of<std::string>("fake_calls"); }
  std::unique_ptr<DeviceNetwork> network(std::chrono::duration<double> limit = std::chrono::seconds(10)) {
    return make_nccl_network(host_device(), nccl::load(opened_), limit);
  }
  std::vector<float> x_ = std::vector<float>(6);
  View view(int64_t first, int64_t n) { return View(std::span(x_), {6}).rows_slice(first, n); }
  void* opened_;
};

TEST_F(Nccl, AGroupsMessagesAreOneCall) {
  const auto network = this->network();
  EXPECT_EQ(network->name(), "NCCL 2.28.9");
  of<int>("fake_polls") = 3;  // it does not block: all calls go on in the background
  const auto links = network->connect(network->make_id(), 1, 3);
  EXPECT_EQ(calls(), std::string("connect 3 1 id 7") + kParent);
  calls().clear();
  of<int>("fake_polls") = 2;
  links->exchange(host_device().stream(), std::array{DeviceLinks::Part{.peer = 2, .out = view(0, 2), .in = view(2, 1)},
                                                     DeviceLinks::Part{.peer = 0, .in = view(3, 3)}});
  EXPECT_EQ(calls(), "begin\nsend 8 of type 0 to 2\nreceive 4 from 2\nreceive 12 from 0\nend\n");
  EXPECT_EQ(of<int>("fake_polls"), 0) << "what follows in the stream waits until the messages are issued";
  links->check();
}

TEST_F(Nccl, GroupsAreSplitFromTheRanksOfTheJob) {
  const auto network = this->network();
  const auto world = network->connect({}, 2, 4);
  calls().clear();
  of<int>("fake_polls") = 3;        // the split goes on, which the parent says
  of<int>("fake_child_polls") = 2;  // and what it made is not ready at once
  const auto axis = world->split(1, 0, LinkUse::splits);
  EXPECT_EQ(of<int>("fake_polls") + of<int>("fake_child_polls"), 0);
  const auto group = axis->split(5, 7, LinkUse::tensors);
  EXPECT_EQ(world->split(std::nullopt, 0, LinkUse::tensors), nullptr);
  EXPECT_EQ(calls(), std::string("split color 1 key 0") + kParent + "split color 5 key 7" + kGroup +
                         "split color -1 key 0" + kGroup);
  EXPECT_EQ(communicators(), 3u);
  network->check();
}

TEST_F(Nccl, ASplitThatFailsEndsItsParentAndWhatItMade) {
  const auto network = this->network();
  const auto world = network->connect({}, 0, 2);
  of<nccl::Result>("fake_state") = static_cast<nccl::Result>(6);
  calls().clear();
  EXPECT_ERROR(world->split(0, 0, LinkUse::tensors), ErrorKind::peer,
               "ncclCommSplit failed between GPUs: remote process exited");
  EXPECT_EQ(calls(), std::string("split color 0 key 0") + kGroup + "abort\nabort of a failed split\n");
  of<nccl::Result>("fake_state") = nccl::kSuccess;
  EXPECT_ERROR(world->split(0, 0, LinkUse::tensors), ErrorKind::comm,
               "the NCCL communicator was aborted after an earlier error");
}

TEST_F(Nccl, AGroupThatDoesNotBecomeReadyIsEnded) {
  const auto network = this->network(std::chrono::milliseconds(20));
  const auto world = network->connect({}, 0, 2);
  of<int>("fake_child_polls") = 1 << 30;
  EXPECT_ERROR(world->split(0, 0, LinkUse::tensors), ErrorKind::peer,
               "ncclCommSplit did not complete within 0.02 s: the other ranks of the group do not answer");
  EXPECT_THAT(calls(), EndsWith("abort\n"));
  of<int>("fake_child_polls") = 0;
  network->check();
}

TEST_F(Nccl, AnAbortByAnotherThreadEndsASplitThatIsUnderWay) {
  const auto network = this->network();
  const auto world = network->connect({}, 0, 2);
  of<int>("fake_polls") = 1 << 30;
  calls().clear();
  std::jthread aborts([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    network->abort_all();
  });
  EXPECT_ERROR(world->split(0, 0, LinkUse::tensors), ErrorKind::comm,
               "the NCCL communicator was aborted after an earlier error");
  aborts.join();
  of<int>("fake_polls") = 0;
  EXPECT_EQ(calls(), std::string("split color 0 key 0") + kGroup + "abort\nabort of a failed split\n");
}

TEST_F(Nccl, AnAbortThatHangsKeepsNoOtherOneWaiting) {
  const auto network = this->network();
  const auto world = network->connect({}, 0, 2);
  const auto one = world->split(0, 0, LinkUse::tensors), other = world->split(1, 0, LinkUse::tensors);
  calls().clear();
  of<std::atomic<bool>>("fake_abort_hangs") = true;
  const auto start = Clock::now();
  network->abort_all();
  EXPECT_GT(seconds_since(start), 1.5);
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_THAT(calls(), HasSubstr("an abort that hangs\n"));
  EXPECT_EQ(communicators(), 1u) << "the other two are aborted";
  of<std::atomic<bool>>("fake_abort_goes_on") = true;
  while (communicators() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for the thread to leave the library
}

TEST_F(Nccl, ItsOwnCollectivesAreCallsOfItsFunctions) {
  const auto network = this->network();
  const auto links = network->connect({}, 1, 3);
  calls().clear();
  DeviceStream& stream = host_device().stream();
  links->collective(stream, DeviceCollective::all_reduce, view(0, 6), view(0, 6), 0);
  links->collective(stream, DeviceCollective::reduce_scatter, view(0, 6), view(2, 2), 0);
  links->collective(stream, DeviceCollective::all_gather, view(2, 2), view(0, 6), 0);
  std::vector<uint16_t> bits(4);
  const View bf16(bits.data(), DType::bf16, {4}), f16(bits.data(), DType::f16, {4});
  links->collective(stream, DeviceCollective::broadcast, bf16, bf16, 2);
  links->collective(stream, DeviceCollective::all_reduce, f16, f16, 0);
  EXPECT_EQ(calls(),
            "begin\nall_reduce 6 of type 7 by 0\nend\nbegin\nreduce_scatter to 2 of type 7 by 0\nend\n"
            "begin\nall_gather of 2 of type 7\nend\nbegin\nbroadcast 4 of type 9 from 2\nend\n"
            "begin\nall_reduce 4 of type 6 by 0\nend\n");
}

TEST_F(Nccl, AGroupEndsItsCommunicator) {
  const auto network = this->network();
  network->connect({}, 0, 2);
  EXPECT_EQ(calls(), std::string("connect 2 0 id 0") + kParent + "finalize\ndestroy\n");
  calls().clear();
  const auto links = network->connect({}, 0, 2);
  links->abort();
  links->abort();
  EXPECT_EQ(calls(), std::string("connect 2 0 id 0") + kParent + "abort\n") << "once";
  EXPECT_ERROR(links->check(), ErrorKind::comm, "the NCCL communicator was aborted after an earlier error");
}

TEST_F(Nccl, AfterAnAbortOfAllGroupsNewOnesAreConnected) {
  const auto network = this->network();
  auto one = network->connect({}, 0, 2), other = network->connect({}, 1, 2);
  network->await({.before = {}, .event = {}, .what = "what nobody waits for any more"});
  calls().clear();
  network->abort();
  EXPECT_EQ(calls(), "abort\nabort\n");
  EXPECT_EQ(network->awaited(), nullptr);
  EXPECT_ERROR(network->check(), ErrorKind::comm, "the NCCL communicator was aborted after an earlier error");
  one.reset();
  other.reset();
  network->check();
  const auto again = network->connect({}, 0, 2);
  again->collective(host_device().stream(), DeviceCollective::all_reduce, view(0, 2), view(0, 2), 0);
  network->check();
}

TEST_F(Nccl, AnErrorIsNamedWithTheLibrarysWords) {
  const auto network = this->network();
  const auto links = network->connect({}, 0, 2);
  of<nccl::Result>("fake_state") = static_cast<nccl::Result>(6);
  of<std::string>("fake_last_error") = "socket closed by node2";
  EXPECT_ERROR(network->check(), ErrorKind::peer, "remote process exited");
  EXPECT_ERROR(links->check(), ErrorKind::peer,
               "a message failed between GPUs: remote process exited: socket closed by node2");
  of<nccl::Result>("fake_state") = static_cast<nccl::Result>(3);
  EXPECT_ERROR(links->check(), ErrorKind::comm, "a message failed between GPUs: some error: socket");
  links->abort();
  of<nccl::Result>("fake_state") = nccl::kSuccess;
  of<std::string>("fake_last_error").clear();
}

TEST_F(Nccl, RanksThatDoNotComeEndTheWait) {
  of<int>("fake_polls") = 1 << 30;
  EXPECT_ERROR(network(std::chrono::milliseconds(20))->connect({}, 0, 2), ErrorKind::peer,
               "ncclCommInitRankConfig did not complete within 0.02 s: the other ranks of the group do not answer");
  EXPECT_THAT(calls(), EndsWith("abort\n"));
  of<int>("fake_polls") = 0;
}

TEST_F(Nccl, OldAndForeignLibrariesAreRefused) {
  of<int>("fake_version") = 21705;
  EXPECT_ERROR(nccl::load(opened_), ErrorKind::usage, "NCCL 2.17.5 was found; version 2.18.0 or newer is needed");
  of<int>("fake_version") = 22809;
  void* self = dlopen(nullptr, RTLD_NOW);
  EXPECT_ERROR(nccl::load(self), ErrorKind::usage,
               "the NCCL that was found lacks ncclGetVersion; version 2.18.0 or newer is needed");
}

TEST(GpuOfRank, IsItsOwn) {
  EXPECT_EQ(gpu_of_rank(0, 0), 0) << "that there is none, the device says";
  EXPECT_EQ(gpu_of_rank(3, 1), 0) << "a launcher hides the others";
  EXPECT_EQ(gpu_of_rank(3, 4), 3);
  EXPECT_ERROR(gpu_of_rank(2, 2), ErrorKind::usage,
               "this host has more ranks than GPUs: CUDA shows 2; start one rank per GPU (CUDA_VISIBLE_DEVICES may "
               "hide some)");
}

/// Where scripts/bootstrap --cuda puts it, or where a job would find it; nullptr: nowhere.
void* real_nccl() {
  std::error_code none;
  for (const auto& version : std::filesystem::directory_iterator(source_dir() + "/.venv-cuda/lib", none)) {
    const std::string path = version.path().string() + "/site-packages/nvidia/nccl/lib/libnccl.so.2";
    if (void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
  }
  try {
    return open_library(nccl_for(13000));
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(RealNccl, HasAllFunctionsAndMakesIds) {
  void* opened = real_nccl();
  if (opened == nullptr) GTEST_SKIP() << "libnccl.so.2 is missing; scripts/bootstrap --cuda brings it";
  const auto network = make_nccl_network(host_device(), nccl::load(opened));
  EXPECT_THAT(network->name(), StartsWith("NCCL 2."));
  const DeviceNetwork::Id one = network->make_id(), other = network->make_id();
  EXPECT_TRUE(one != DeviceNetwork::Id{} && one != other);
}

}  // namespace
}  // namespace trireme
