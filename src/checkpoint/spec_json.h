#pragma once
// A Spec as JSON, as stored in manifests.

#include <string_view>

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

Json spec_to_json(const Spec& spec);
/// `version`: format of the checkpoint. Throws Error::data naming `where` and the field that is missing, unknown or
/// wrong.
Spec spec_from_json(const Json& json, std::string_view where, int64_t version);
/// "language-model", "masked-language-model", "classifier".
const char* head_name(HeadKind head);

}  // namespace trireme
