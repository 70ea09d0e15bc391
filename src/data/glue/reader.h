#pragma once
// Rows of the GLUE tasks from their original files, and of user data from csv and json files.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/glue/task.h"
#include "data/prepare/byte_source.h"

namespace trireme {

struct GlueRow {
  std::string first, second;  ///< second: empty for single sentences
  double label = -1;          ///< class, or the number to predict; -1 if the file has none
};

enum class GlueSplit : uint8_t { train, validation, test };

/// One file's rows. MNLI has two files for validation and for test.
struct GlueSet {
  std::string name;  ///< of the task, "mnli-mm" for the mismatched one
  std::string path;
  std::vector<GlueRow> rows;
  std::vector<int64_t> dropped = {};  ///< lines (in Parquet: rows) that lacked a field
};

/// `folder`: that of all tasks (with MRPC, CoLA, ... in it) or the task's own. Tab-separated without quoting, columns
/// found by the header (CoLA's train and dev files have none), a byte order mark and blank lines at the end skipped.
/// Rows that lack a field are dropped from train and validation; in test they are an error, since predictions are
/// numbered by their rows. MRPC without train.tsv is made from msr_paraphrase_train.txt and dev_ids.tsv. If a file is
/// missing, reads the hub's Parquet files of that split (parquet_rows.h). Throws Error::io naming the missing file,
/// Error::data with file and line.
std::vector<GlueSet> read_glue(const GlueTask& task, const std::string& folder, GlueSplit split);

/// User data: .csv (quoted as in RFC 4180), .tsv or .json (an object per line, or an array of objects, as the file or
/// as its member "data"). Texts are the requested columns; else sentence1 and sentence2; else the first one or two
/// columns that are not the label, have text and not numbers, and are not named like row ids (idx, id, guid). If the
/// training file's labels are all numbers, some with a point, the task is regression; otherwise its sorted distinct
/// labels are the classes.
struct CustomFiles {
  std::string train, validation, test;  ///< empty: none
  std::vector<std::string> texts = {};  ///< one column or two; empty: as above
  std::string label = "label";
  char separator = 0;  ///< of a csv's fields; 0: by the ending
  InputEncoding encoding = {};
};
struct CustomData {
  GlueTask task;  ///< named "None", which names the outputs
  std::vector<GlueSet> train, validation, test;
  std::string columns;  ///< for the log: the use of each column
  std::string doubt;    ///< a warning about the labels; empty: none
};
/// Throws Error::io, Error::data with file and row; Error::usage without a training or validation file.
CustomData read_custom(const CustomFiles& files);

// Numbers of rows in the published files of GLUE.

/// For a set by its name ("mrpc", "mnli-mm"), without rows that lack a field; empty if the file does not exist. Source:
/// the tables of Wang et al. 2018 and of the files that the authors distribute.
std::optional<int64_t> published_rows(std::string_view set, GlueSplit split);

}  // namespace trireme
