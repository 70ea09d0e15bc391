#pragma once
// The fields of transformers' TrainingArguments, for the dialects of programs that extend them.

#include <optional>
#include <span>
#include <string_view>

#include "config/choices.h"
#include "config/dialect.h"

namespace trireme {

std::span<const DialectRow> trainer_rows();

/// The origin of what a file or command line does not give that describes a run as a whole: below every file and flag.
Origin whole_default();

/// Of lr_scheduler_type; nothing for other names.
std::optional<RateCourse> course_of_transformers(std::string_view name);

/// Whether a native file or flag sets the option.
bool is_native(const DialectView& view, std::string_view option);

/// `key`, or the older name of it if only that is given.
std::string_view given_of(const DialectView& view, std::string_view key, std::string_view older);

/// Values of several types become texts; of Dialect::prepare.
void prepare_trainer(std::vector<Setting>& settings);

/// What trainer_rows() leaves to a translator. whole: what is not given has the defaults of TrainingArguments, else it
/// sets nothing.
void translate_trainer(const DialectView& view, bool whole, Translation& out);

}  // namespace trireme
