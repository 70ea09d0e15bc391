#include "bench/comm/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "comm/stream_group.h"
#include "tensor/device_network.h"

namespace trireme::comm_bench {
namespace {

constexpr std::string_view kSubjects[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                          "alltoall",   "sendrecv",   "gradient"};

DType dtype_of(Element element) {
  return element == Element::f32 ? DType::f32 : element == Element::f16 ? DType::f16 : DType::bf16;
}

class DeviceCollectives final : public Collectives {
 public:
  DeviceCollectives(Communicator& group, Ops& ops, int64_t bytes)
      : ops_(ops),
        rank_(group.rank()),
        ranks_(group.size()),
        memory_(2 * (static_cast<size_t>(bytes) + 64), ops.device()),
        send_(memory_.take(DType::u8, {std::max<int64_t>(bytes, 1)})),
        receive_(memory_.take(DType::u8, {std::max<int64_t>(bytes, 1)})),
        stream_(ops.device().make_stream()),
        links_(group.devices()->split(0, rank_, LinkUse::tensors)) {}

  void take(const void* send, const void* receive, size_t bytes) override {
    const auto count = static_cast<int64_t>(bytes);
    stream_->copy(ConstView(send, DType::u8, {count}), send_.rows_slice(0, count));
    stream_->copy(ConstView(receive, DType::u8, {count}), receive_.rows_slice(0, count));
    stream_->finish();
  }
  void give(void* receive, size_t bytes) override {
    const auto count = std::min(static_cast<int64_t>(bytes), static_cast<int64_t>(result_.bytes()));
    const ConstView from(result_.data(), DType::u8, {count}, &ops_.device());
    stream_->copy(from, View(receive, DType::u8, {count}));
  }
  void finish() override { wait_watching(stream_->record(), ops_.device()); }
  bool in_place(Collective collective) const override {
    return collective != Collective::send_receive && collective != Collective::all_to_all;
  }

  void run(const CollectiveCall& call, void*, void*) override {
    const DType type = dtype_of(call.element);
    const int64_t n = call.count;
    const auto part = [&](View of, int64_t rank) {
      return View(static_cast<std::byte*>(of.data()) + static_cast<size_t>(rank * n) * size_of(type), type, {n},
                  &ops_.device());
    };
    const auto whole = [&](View of) { return View(of.data(), type, {n * ranks_}, &ops_.device()); };
    const View from = call.in_place ? receive_ : send_;
    switch (call.collective) {
      case Collective::all_reduce:
        result_ = part(receive_, 0);
        return links_->collective(*stream_, DeviceCollective::all_reduce, part(from, 0), result_, 0);
      case Collective::broadcast:
        result_ = part(receive_, 0);
        return links_->collective(*stream_, DeviceCollective::broadcast, part(from, 0), result_, call.root);
      case Collective::all_gather:
        result_ = whole(receive_);
        return links_->collective(*stream_, DeviceCollective::all_gather, part(from, call.in_place ? rank_ : 0),
                                  result_, 0);
      case Collective::reduce_scatter:  // in place the library wants it in the rank's own part
        result_ = part(receive_, call.in_place ? rank_ : 0);
        return links_->collective(*stream_, DeviceCollective::reduce_scatter, whole(from), result_, 0);
      case Collective::send_receive: {
        result_ = part(receive_, 0);
        const int next = (rank_ + 1) % ranks_, last = (rank_ + ranks_ - 1) % ranks_;
        const DeviceLinks::Part parts[] = {{.peer = next, .out = part(send_, 0), .in = {}},
                                           {.peer = last, .out = {}, .in = result_}};
        return links_->exchange(*stream_, parts);
      }
      default: {  // all_to_all
        result_ = whole(receive_);
        std::vector<DeviceLinks::Part> parts;
        for (int r = 0; r < ranks_; ++r)
          if (r != rank_) parts.push_back({.peer = r, .out = part(send_, r), .in = part(receive_, r)});
        stream_->copy(part(send_, rank_), part(receive_, rank_));
        return links_->exchange(*stream_, parts);
      }
    }
  }

 private:
  Ops& ops_;
  const int rank_, ranks_;
  Arena memory_;
  View send_, receive_;  ///< u8
  View result_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceLinks> links_;
};

}  // namespace

std::unique_ptr<Collectives> make_device_collectives(Communicator& group, Ops& ops, int64_t bytes) {
  return std::make_unique<DeviceCollectives>(group, ops, bytes);
}

std::vector<std::string> device_subjects() { return {std::begin(kSubjects), std::end(kSubjects)}; }

void require_device_collectives(const std::vector<Subject>& subjects, const Options& options) {
  for (const Subject& subject : subjects)
    require(std::ranges::find(kSubjects, subject.name) != std::end(kSubjects), ErrorKind::usage,
            "{} is not supported on GPUs, only {}; remove it, or add --device cpu", subject.name,
            fmt::join(kSubjects, ", "));
  for (const Element element : options.elements)
    require(element == Element::f32 || element == Element::f16 || element == Element::bf16, ErrorKind::usage,
            "-d {} is not supported on GPUs, only float, half and bfloat16; choose one of them, or add --device cpu",
            name_of(element));
  for (const ReduceOp op : options.ops)
    require(op == ReduceOp::sum, ErrorKind::usage,
            "-o {} is not supported on GPUs, only sum; remove it, or add --device cpu", name_of(op));
}

}  // namespace trireme::comm_bench
