#pragma once
// SentencePiece's precompiled normalization table, as in files of T5 and XLM-R.

#include "text/pipeline/normalizer.h"

namespace trireme {

std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonObject& element);

}  // namespace trireme
