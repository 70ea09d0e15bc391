#pragma once
// A model, a tokenizer or a data set where a user gives a path: what is here wins, then what the cache has, then the
// hub is asked.

#include <string>
#include <vector>

#include "hub/fetch.h"

namespace trireme::hub {

struct Place {
  std::string path;     ///< to read: the given one, or one in the cache
  std::string why_not;  ///< nothing is there: the reason, as a sentence behind "; "
};

/// `given` is returned as it is where something is there, or where it can be no name of the hub. A folder that could be
/// meant for the hub's model is named once.
Place place_of_model(
    const std::string& given, const Alive& alive = [] {});
Place place_of_tokenizer(
    const std::string& given, const Alive& alive = [] {});

/// Folder with the files of the task ("mrpc") below it: of the data set nyu-mll/glue, or of glue, as it was called.
Place place_of_glue(
    const std::string& task, const Alive& alive = [] {});

/// Files of a data set: "OWNER/NAME", or "OWNER/NAME/PATTERN" for some of them; "OWNER/NAME@REVISION" and
/// "OWNER/NAME@REVISION/PATTERN", whose revision has no '/' unless it begins with "refs/" and two parts follow. Of the
/// first form those for training, where their names tell train, validation and test apart, which a line says.
struct PlaceOfData {
  Files files;  ///< paths to read
  std::string why_not;
};
/// Throws Error::usage where the data set has several folders to choose from, naming them.
PlaceOfData place_of_data(
    const std::string& given, const Alive& alive = [] {});

/// What of a run is given by names.
struct Named {
  std::string model = {}, tokenizer = {}, glue_task = {};  ///< empty: not asked for
  bool operator==(const Named&) const = default;
};
/// Those that are neither here nor in the cache.
std::vector<std::string> still_to_fetch(const Named& named);
std::vector<std::string> still_to_fetch(const Named& named, const Settings& settings);

/// Whether something would have to be fetched: a name of the hub under which nothing lies here.
bool is_only_a_name(const std::string& given);

/// "glue/mrpc" or "glue" as the repository that has it, with the pattern of the files; else the name itself with no
/// pattern; each with the revision that stands behind an '@'.
struct NamedData {
  Repository repository;
  Files patterns;
  std::string revision = kMainRevision;
};
NamedData named_data(const std::string& given);

/// Behind an error about a name: the nearest one in the cache, and how to bring the files by hand.
std::string advice(const Settings& settings, const Repository& repository, const std::string& revision = kMainRevision);

}  // namespace trireme::hub
