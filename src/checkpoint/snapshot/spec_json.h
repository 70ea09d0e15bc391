#pragma once
// A Spec as JSON, as stored in manifests.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

Json spec_to_json(const Spec& spec);
/// `version`: format of the checkpoint. Throws Error::data naming `where` and the field that is missing, unknown or
/// wrong.
Spec spec_from_json(const Json& json, std::string_view where, int64_t version);

/// A field of two models that is not the same, by its name in a manifest.
struct SpecDifference {
  std::string field, a, b;
};
/// Every one, in the order of the manifest.
std::vector<SpecDifference> spec_differences(const Spec& a, const Spec& b);
/// "rotary_dims is 4, asked for 2; head_dropout is 0.1, asked for 0": the differences between the found and the
/// requested values.
std::string describe_differences(const Spec& found, const Spec& asked);

}  // namespace trireme
