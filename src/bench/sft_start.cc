#include "bench/sft_start.h"

#include <filesystem>
#include <vector>

#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/safetensors/safetensors.h"
#include "optim/training_state.h"

namespace trireme {
namespace {

SafetensorsEntry entry(std::string name, std::string dtype, size_t count) {
  SafetensorsEntry e;
  e.name = std::move(name);
  e.dtype = std::move(dtype);
  e.shape = {static_cast<int64_t>(count)};
  return e;
}

}  // namespace

SftStart::SftStart(const Spec& spec, uint64_t seed, const Trained& trained, const LoraOptions& lora,
                   const chat::CodedIds& conversations) {
  const ParameterTable table(spec, InitScheme::gpt2, {}, trained);
  TrainingState weights(table, DType::f32, false);
  initialize(weights, table, seed);
  export_huggingface(model(), base_of(spec), table, weights, "", DType::f32);
  if (!spec.adapters.empty()) {
    std::filesystem::create_directories(adapter());
    export_adapter(adapter(), table, weights, lora, model(), "");
  }
  SafetensorsWriter writer(
      this->conversations(),
      {entry("codes", "I32", conversations.codes.size()), entry("offsets", "I64", conversations.offsets.size())}, {});
  writer.write(0, std::as_bytes(std::span(conversations.codes)));
  writer.write(1, std::as_bytes(std::span(conversations.offsets)));
  writer.commit();
}

}  // namespace trireme
