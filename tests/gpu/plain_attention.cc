#include "tests/gpu/plain_attention.h"

#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

/// A tensor of 16-bit floats or f32 as f64, for the reference.
class Wide {
 public:
  explicit Wide(ConstView x) : values_(static_cast<size_t>(x.count())), shape_(x.shape()) {
    for (int64_t i = 0; i < x.count(); ++i)
      values_[static_cast<size_t>(i)] = x.dtype() == DType::bf16  ? to_float(x.as<bf16_t>()[i])
                                        : x.dtype() == DType::f16 ? to_float(x.as<f16_t>()[i])
                                                                  : x.as<float>()[i];
  }
  View view() { return View(std::span(values_), shape_); }
  void narrow_to(View y) const {
    for (int64_t i = 0; i < y.count(); ++i) {
      const auto value = static_cast<float>(values_[static_cast<size_t>(i)]);
      if (y.dtype() == DType::bf16) {
        y.as<bf16_t>()[i] = to_bf16(value);
      } else if (y.dtype() == DType::f16) {
        y.as<f16_t>()[i] = to_f16(value);
      } else {
        y.as<float>()[i] = value;
      }
    }
  }

 private:
  std::vector<double> values_;
  Shape shape_;
};

class PlainAttention final : public AttentionLibrary {
 public:
  std::string name() const override { return "plain loops"; }
  int capability() const override { return 90; }
  std::optional<size_t> workspace_bytes(const AttentionCall& call) override {
    return static_cast<size_t>(call.sequences * call.heads) * (call.backward ? 100 : 0);
  }
  void forward(gpu::Stream, const AttentionCall& call, ConstView qkv, View out, View lse, View workspace) override {
    const Rows rows(call);
    use(call, workspace);
    Wide all(qkv), to(out), sums(lse);
    reference_->attention(context_, all.view(), rows.shape, {}, to.view(), sums.view());
    to.narrow_to(out);
    sums.narrow_to(lse);
  }
  void backward(gpu::Stream, const AttentionCall& call, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                View dqkv, View workspace) override {
    const Rows rows(call);
    use(call, workspace);
    Wide from(dout), all(qkv), of(out), sums(lse), to(dqkv);
    reference_->attention_backward(context_, from.view(), all.view(), of.view(), sums.view(), rows.shape, {},
                                   to.view());
    to.narrow_to(dqkv);
  }

 private:
  struct Rows {
    std::vector<int32_t> ends;
    AttentionShape shape;
    explicit Rows(const AttentionCall& call) {
      for (int64_t i = 0; i <= call.sequences; ++i) ends.push_back(static_cast<int32_t>(i * call.length));
      shape = {.kv_heads = call.heads,
               .head_dim = call.head_dim,
               .causal = call.causal,
               .scale = call.scale,
               .offsets = View(std::span(ends), {call.sequences + 1})};
    }
  };
  void use(const AttentionCall& call, View workspace) {
    const size_t bytes = *workspace_bytes(call);
    require(workspace.bytes() >= bytes, ErrorKind::shape, "the workspace has {} bytes, {} are needed",
            workspace.bytes(), bytes);
    if (bytes > 0) std::memset(workspace.data(), 0xFF, bytes);
  }

  std::unique_ptr<Ops> reference_ = make_reference_ops();
  Context context_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> make_plain_attention() { return std::make_unique<PlainAttention>(); }

}  // namespace trireme
