#pragma once
// Rows of the GLUE tasks from their original files, and rows of one's own from csv and json files.

#include <string>
#include <vector>

#include "data/glue/task.h"
#include "data/prepare/encoded_source.h"

namespace trireme {

struct GlueRow {
  std::string first, second;  ///< second: empty for single sentences
  double label = -1;          ///< class, or the number to predict; -1 where the file has none
};

enum class GlueSplit : uint8_t { train, validation, test };

/// One file's rows. MNLI has two of a validation and of a test split.
struct GlueSet {
  std::string name;  ///< of the task, "mnli-mm" for the mismatched one
  std::string path;
  std::vector<GlueRow> rows;
  int64_t dropped = 0;  ///< rows that lacked a field
};

/// `folder`: that of all tasks (with MRPC, CoLA, ... in it) or the task's own. Tab-separated without quoting, columns
/// found by the header (CoLA's train and dev files have none), a byte order mark skipped, rows that lack a field
/// dropped. MRPC without train.tsv is cut from msr_paraphrase_train.txt and dev_ids.tsv. Where a file is not there, the
/// hub's Parquet files of that split are read (parquet_rows.h). Throws Error::io naming the file that is missing,
/// Error::data with file and line.
std::vector<GlueSet> read_glue(const GlueTask& task, const std::string& folder, GlueSplit split);

/// Files of one's own: .csv (quoted as RFC 4180), .tsv or .json (an object per line, or an array of objects, as the
/// file or as its member "data"). Texts are the columns that are asked for; else sentence1 and sentence2; else the
/// first one or two that are not the label, hold text, not numbers, and are not called as ids of rows are (idx, id,
/// guid). Labels of the training file that are all numbers, some of them with a point, mean regression; else its sorted
/// distinct labels are the classes.
struct CustomFiles {
  std::string train, validation, test;  ///< empty: none
  std::vector<std::string> texts = {};  ///< one column or two; empty: as above
  std::string label = "label";
  char separator = 0;  ///< of a csv's fields; 0: by the ending
  InputEncoding encoding = {};
};
struct CustomData {
  GlueTask task;  ///< named "None": what the outputs are called
  std::vector<GlueSet> train, validation, test;
  std::string columns;  ///< in words, which are used for what and which are not
  std::string doubt;    ///< what of the labels may not be meant so; empty: nothing
};
/// Throws Error::io, Error::data with file and row; Error::usage where there is no training or validation file.
CustomData read_custom(const CustomFiles& files);

}  // namespace trireme
