#pragma once
// The normalizer of BERT: clean text, spaces around CJK characters, accents removed, lower case; each can be off.

#include "text/pipeline/normalizer.h"

namespace trireme {

std::unique_ptr<Normalizer> make_bert_normalizer(const JsonObject& element);

}  // namespace trireme
