#include "model/head.h"

#include "model/classifier_head.h"
#include "model/decoder_head.h"

namespace trireme {

std::unique_ptr<Head> make_head(const Spec& spec, const ParameterViews& views) {
  if (spec.has_decoder()) return std::make_unique<DecoderHead>(spec, views);
  return std::make_unique<ClassifierHead>(spec, views);
}

}  // namespace trireme
