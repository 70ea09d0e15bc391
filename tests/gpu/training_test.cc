// Whole training runs on the kernels of src/cuda, run by the executor, against the CPU's.

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "tests/gpu/plain_products.h"
#include "tests/train/mesh_training.h"
#include "tests/train/sft/chat_training.h"

namespace trireme::mesh_training {
namespace {

std::unique_ptr<Ops> make_gpu_ops() {
  gpu::host::set_seed(5);
  return std::make_unique<CudaOps>(host_device(), make_plain_products());
}

struct GpuCase {
  Family family;
  DType dtype;
  bool dropout;
};

void PrintTo(const GpuCase& c, std::ostream* out) { *out << c.family.name; }

class GpuTraining : public testing::TestWithParam<GpuCase> {};

/// bf16: kernels round other intermediate values to bf16 than the CPU does.
TEST_P(GpuTraining, GivesTheLossesOfTheCpu) {
  const auto& [family, dtype, dropout] = GetParam();
  Spec spec = family.spec();
  spec.layers = 2;
  if (!spec.attention_layers.empty()) spec.attention_layers = "WF";
  Layouts layouts{.mesh = {.data = 1}, .dropout = dropout, .dtype = dtype, .global = 4};
  const Outcome want = train(spec, layouts);
  layouts.make_ops = make_gpu_ops;
  const Outcome got = train(spec, layouts);
  const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * want.losses[i]) << "step " << i + 1;
    EXPECT_NEAR(got.norms[i], want.norms[i], 5 * tolerance * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, want.evaluation, tolerance * want.evaluation);
  EXPECT_LT(want.losses.back(), 0.99 * want.losses.front()) << "it learns";
}

std::vector<GpuCase> cases() {
  std::vector<GpuCase> all;
  for (const Family& family : {Family{"gpt2", gpt2}, Family{"neox", neox}, Family{"opt", opt}, Family{"bert", bert},
                               Family{"llama", llama}, Family{"gemma", gemma}})
    for (const DType dtype : {DType::f32, DType::bf16}) all.push_back({family, dtype, false});
  all.push_back({{"gpt2", gpt2}, DType::f32, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, GpuTraining, testing::ValuesIn(cases()), [](const auto& parameter) {
  return std::string(parameter.param.family.name) + "_" + std::string(trireme::name_of(parameter.param.dtype)) +
         (parameter.param.dropout ? "_dropout" : "");
});

/// Rows that conversations share, of which the head computes those that count.
TEST(GpuChatTraining, GivesTheLossesOfTheCpu) {
  for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
    chat_training::Layouts layouts{.micro = 2, .position = Position::rotary, .norm = norm};
    const chat_training::Outcome want = chat_training::train(layouts);
    layouts.make_ops = make_gpu_ops;
    expect_near(chat_training::train(layouts), want, "on the executor", 2e-5);
  }
}

}  // namespace
}  // namespace trireme::mesh_training
