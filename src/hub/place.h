#pragma once
// Finds a model, a tokenizer or a data set that a user names by a path: locally first, then in the cache, then on the
// hub.

#include <string>
#include <vector>

#include "hub/fetch.h"

namespace trireme::hub {

struct Place {
  std::string path;     ///< to read: the given path, or one in the cache
  std::string why_not;  ///< if nothing was found: the reason, as a clause after "; "
};

/// Returns `given` if it exists or cannot be a name of the hub; of RUN/best and RUN/latest the step folder. Logs once
/// if a local folder hides a model of the hub.
Place place_of_model(
    const std::string& given, const Alive& alive = [] {});
/// For a run folder its newest step's place, which holds the tokenizer.
Place place_of_tokenizer(
    const std::string& given, const Alive& alive = [] {});

/// Folder with the files of the task ("mrpc") below it: of the data set nyu-mll/glue, or of glue, its former name.
Place place_of_glue(
    const std::string& task, const Alive& alive = [] {});

/// Files of a data set: "OWNER/NAME", or "OWNER/NAME/PATTERN" for some of them; "OWNER/NAME@REVISION" and
/// "OWNER/NAME@REVISION/PATTERN", whose revision has no '/' unless it begins with "refs/" and two parts follow. The
/// first form selects those for training if the names distinguish train, validation and test; a log line says so.
struct PlaceOfData {
  Files files;  ///< paths to read
  std::string why_not;
};
/// Throws Error::usage if the data set has several folders to choose from, naming them.
PlaceOfData place_of_data(
    const std::string& given, const Alive& alive = [] {});

/// Inputs of a run given by name.
struct Named {
  std::string model = {}, tokenizer = {}, glue_task = {};  ///< empty: not requested
  bool operator==(const Named&) const = default;
};
/// Those that are neither local nor in the cache.
std::vector<std::string> still_to_fetch(const Named& named);
std::vector<std::string> still_to_fetch(const Named& named, const Settings& settings);

/// Whether something must be fetched: a name of the hub without a local file or folder.
bool is_only_a_name(const std::string& given);

/// "glue/mrpc" or "glue" as its repository with the pattern of the files; else the name itself without a pattern; each
/// with the revision after an '@'.
struct NamedData {
  Repository repository;
  Files patterns;
  std::string revision = kMainRevision;
};
NamedData named_data(const std::string& given);

/// Appended to an error about a name: the nearest one in the cache, and how to copy the files by hand.
std::string advice(const Settings& settings, const Repository& repository, const std::string& revision = kMainRevision);

}  // namespace trireme::hub
