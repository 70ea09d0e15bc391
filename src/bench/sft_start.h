#pragma once
// What TRL needs to begin as our measured fine-tuning does: the weights, the adapter, and the conversations as ids.

#include <cstdint>
#include <string>

#include "base/private_folder.h"
#include "config/config.h"
#include "data/chat/training_rows.h"
#include "model/spec.h"
#include "model/trained.h"

namespace trireme {

/// A temporary folder, which goes with the object.
class SftStart {
 public:
  /// The f32 weights of initialize() with this seed as a Hugging Face folder, those of spec's adapters as a folder of
  /// PEFT, and a safetensors file with the I32 "codes" and the I64 "offsets" of the conversations. trained: of
  /// the run; lora: of the adapters, if there are any. Throws Error::io, and Error::config for a model that no Hugging
  /// Face family describes.
  SftStart(const Spec& spec, uint64_t seed, const Trained& trained, const LoraOptions& lora,
           const chat::CodedIds& conversations);

  std::string model() const { return folder_.file("model"); }
  std::string adapter() const { return folder_.file("adapter"); }  ///< exists if the spec has adapters
  std::string conversations() const { return folder_.file("conversations.safetensors"); }

 private:
  PrivateFolder folder_{"sft"};
};

}  // namespace trireme
