#include "data/glue/reader.h"
#include "data/glue/table_file.h"

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class GlueReader : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_text(folder_ / name, text);
  }
  std::vector<GlueRow> rows(const std::string& task, GlueSplit split = GlueSplit::train) {
    return read_glue(glue_task(task), folder_.path(), split).at(0).rows;
  }
  TemporaryFolder folder_;
};

TEST_F(GlueReader, TakesQuotesAsTextAndReadsFilesWithoutHeader) {
  file("CoLA/train.tsv", "gj04\t1\t\tHe said \"no.\ncl\t0\t*\tHim said\tno");
  const auto all = rows("cola");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].first, "He said \"no.");
  EXPECT_EQ(all[0].label, 1);
  EXPECT_EQ(all[1].first, "Him said");  // the last line has no line end and an extra field
  file("CoLA/test.tsv", "index\tsentence\n0\tBill whistled.\n");
  EXPECT_EQ(rows("cola", GlueSplit::test).at(0).first, "Bill whistled.");
  EXPECT_EQ(rows("cola", GlueSplit::test).at(0).label, -1);
}

TEST_F(GlueReader, SkipsAByteOrderMarkAndKeepsSpacesAtTheEnd) {
  file("MRPC/train.tsv", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tone \t\" two\r\n");
  const auto all = rows("mrpc");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].first, "one ");
  EXPECT_EQ(all[0].second, "\" two");
  EXPECT_EQ(all[0].label, 1);
}

TEST_F(GlueReader, CutsMrpcFromMicrosoftsFilesByTheIdsOfItsDevSet) {
  const std::string header = "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  file("MRPC/msr_paraphrase_train.txt", header + "1\t1\t2\ta\tb\n0\t3\t4\tc\td\n1\t4\t3\te\tf\n");
  file("MRPC/msr_paraphrase_test.txt", header + "1\t5\t6\tg\th\n");
  file("MRPC/dev_ids.tsv", "3\t4\n");
  EXPECT_EQ(rows("mrpc").size(), 2u);
  ASSERT_EQ(rows("mrpc", GlueSplit::validation).size(), 1u);
  EXPECT_EQ(rows("mrpc", GlueSplit::validation)[0].second, "d");
  EXPECT_EQ(rows("mrpc", GlueSplit::test).at(0).label, -1);  // test labels must not be used for training
}

TEST_F(GlueReader, DropsRowsOfQqpThatLackAField) {
  file("QQP/train.tsv",
       "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta?\tb?\t1\n1\t3\t4\tbroken\n2\t5\t6\tc?\td?\t\n"
       "3\t7\t8\te?\tf?\t0\n");
  const auto set = read_glue(glue_task("qqp"), folder_.path(), GlueSplit::train).at(0);
  EXPECT_EQ(set.rows.size(), 2u);
  EXPECT_EQ(set.dropped, (std::vector<int64_t>{3, 4}));
}

TEST_F(GlueReader, RefusesTestRowsThatLackAField) {
  const std::string header = "id\tquestion1\tquestion2\n";
  file("QQP/test.tsv", header + "0\ta?\tb?\n1\tbroken\n2\tc?\td?\n");
  EXPECT_ERROR(rows("qqp", GlueSplit::test), ErrorKind::data,
               "test.tsv line 3: 2 fields, but the texts are in columns up to 3; predictions are numbered by row");
  file("QQP/test.tsv", header + "0\ta?\tb?\n\n2\tc?\td?\n");
  EXPECT_ERROR(rows("qqp", GlueSplit::test), ErrorKind::data, "test.tsv line 3: 1 field, but");
  file("QQP/test.tsv", header + "0\ta?\t\n1\tc?\td?\r\n\r\n\n");
  const auto all = rows("qqp", GlueSplit::test);
  ASSERT_EQ(all.size(), 2u) << "an empty field is a text; blank lines at the end are not rows";
  EXPECT_EQ(all[0].second, "");
  EXPECT_EQ(all[1].second, "d?");
}

TEST_F(GlueReader, ReadsBothSetsOfMnliWhateverTheirLabelColumns) {
  const std::string columns = "index\tpromptID\tpairID\tgenre\tp1\tp2\tp3\tp4\tsentence1\tsentence2\tlabel1";
  file("MNLI/train.tsv", columns + "\tgold_label\n0\t-\t-\t-\t-\t-\t-\t-\ta\tb\tneutral\tneutral\n");
  file("MNLI/dev_matched.tsv",
       columns + "\tlabel2\tgold_label\n0\t-\t-\t-\t-\t-\t-\t-\ta\tb\tneutral\tneutral\tcontradiction\n");
  file("MNLI/dev_mismatched.tsv", columns + "\tgold_label\n0\t-\t-\t-\t-\t-\t-\t-\tc\td\tneutral\tentailment\n");
  EXPECT_EQ(rows("mnli").at(0).label, 1);
  const auto sets = read_glue(glue_task("mnli"), folder_.path(), GlueSplit::validation);
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].rows.at(0).label, 2);
  EXPECT_EQ(sets[1].name, "mnli-mm");
  EXPECT_EQ(sets[1].rows.at(0).label, 0);
}

TEST_F(GlueReader, ReadsTheOtherTasks) {
  file("QNLI/train.tsv", "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tnot_entailment\n");
  file("WNLI/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n");
  file("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n");
  file("SST-2/train.tsv", "sentence\tlabel\nfine \t1\n");
  file("STS-B/train.tsv",
       "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
       "0\tg\tf\t2012\t1\tn\tn\ta\tb\t3.800\n");
  file("diagnostic/diagnostic.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n");
  EXPECT_EQ(rows("qnli").at(0).first, "Who?");
  EXPECT_EQ(rows("qnli").at(0).label, 1);
  EXPECT_EQ(rows("wnli").at(0).label, 1);
  EXPECT_EQ(rows("rte").at(0).label, 0);
  EXPECT_EQ(rows("SST-2").at(0).first, "fine ");
  EXPECT_DOUBLE_EQ(rows("stsb").at(0).label, 3.8);
  EXPECT_EQ(rows("ax", GlueSplit::test).at(0).second, "b");
  EXPECT_ERROR(rows("ax"), ErrorKind::usage, "it can only be predicted");
}

TEST_F(GlueReader, NamesFileLineAndWhatWasExpected) {
  EXPECT_ERROR(rows("mrpc"), ErrorKind::io,
               "/train.tsv or " + folder_.path() +
                   "/MRPC/train.tsv and train-*.parquet beside it are missing; give the folder of ");
  file("QQP/other.tsv", "");
  EXPECT_ERROR(rows("qqp"), ErrorKind::io,
               (folder_ / "QQP/train.tsv") + " and train-*.parquet beside it are missing; ");
  file("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n");
  EXPECT_ERROR(rows("rte"), ErrorKind::data,
               "train.tsv line 2: label \"maybe\", expected one of entailment, not_entail");
  file("SST-2/train.tsv", "text\tlabel\nfine\t1\n");
  EXPECT_ERROR(rows("sst2"), ErrorKind::data, "column \"sentence\" is missing; its header has text, label");
  file("WNLI/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t2\n");
  EXPECT_ERROR(rows("wnli"), ErrorKind::data, "label \"2\", expected a class from 0 to 1");
  file("QNLI/train.tsv", "index\tquestion\tsentence\tlabel\n");
  EXPECT_ERROR(rows("qnli"), ErrorKind::data, "the file has no rows");
  EXPECT_ERROR(glue_task("squad"), ErrorKind::usage, "\"squad\" is not a GLUE task; the tasks are cola, mnli,");
  EXPECT_ERROR(read_glue(glue_task("rte"), folder_ / "absent", GlueSplit::train), ErrorKind::io,
               "give the folder of the GLUE tasks");
}

TEST_F(GlueReader, NamesFilesThatAreNotTables) {
  file("MRPC/train.tsv", std::string(8 << 20, '\xFF'));
  EXPECT_ERROR(rows("mrpc"), ErrorKind::data, "train.tsv line 1: 8388608 bytes, expected at most 4194304");
  file("MRPC/train.tsv", "\xFF\xFE\x1b[31m\0binary");
  EXPECT_ERROR(rows("mrpc"), ErrorKind::data, "train.tsv: column \"#1 String\" is missing; its header has \\xff\\xfe");
}

TEST(GlueFiles, HaveTheirPublishedNumbersOfRows) {
  TRIREME_NEEDS_TEST_DATA("glue/MRPC/train.tsv");
  const fs::path root = test_data_dir() / "glue";
  std::string compared, absent;
  for (const GlueTask& task : glue_tasks()) {
    for (const auto& [split, file] : {std::pair{GlueSplit::train, "train"},
                                      {GlueSplit::validation, "dev"},
                                      {GlueSplit::test, task.name == "ax" ? "diagnostic" : "test"}}) {
      const std::string name =
          task.folder + "/" + file + (task.name == "mnli" && split != GlueSplit::train ? "_matched" : "");
      if (!fs::exists(root / (name + ".tsv"))) {
        absent += " " + name;
        continue;
      }
      for (const GlueSet& set : read_glue(task, root.string(), split)) {
        EXPECT_EQ(published_rows(set.name, split), static_cast<int64_t>(set.rows.size())) << set.path;
        compared += " " + set.name + "/" + file;
      }
    }
  }
  EXPECT_NE(compared, "");
  std::cout << "compared:" << compared << "\nnot at hand:" << absent << "\n";
}

/// Row counts of tasks with large files, from the authors' tables and the leaderboard's submission format.
TEST(GlueFiles, AreComparedWithThePublishedTestSets) {
  for (const auto& [set, rows] :
       {std::pair{"mnli", 9796}, {"mnli-mm", 9847}, {"qqp", 390965}, {"qnli", 5463}, {"wnli", 146}, {"ax", 1104}})
    EXPECT_EQ(published_rows(set, GlueSplit::test), rows) << set;
  EXPECT_EQ(published_rows("mnli-mm", GlueSplit::train), std::nullopt);
  EXPECT_EQ(published_rows("None", GlueSplit::test), std::nullopt);
}

TEST(GlueFiles, MicrosoftsMrpcGivesTheSameRowsAsGlues) {
  TRIREME_NEEDS_TEST_DATA("glue/MRPC/msr_paraphrase_train.txt");
  const auto from = test_data_dir() / "glue" / "MRPC";
  TemporaryFolder folder;
  fs::create_directories(folder / "MRPC");
  for (const char* name : {"msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"})
    fs::create_symlink(fs::absolute(from / name), folder / (std::string("MRPC/") + name));
  const GlueTask& task = glue_task("mrpc");
  EXPECT_EQ(read_glue(task, folder.path(), GlueSplit::train).at(0).rows.size(), 3668u);
  EXPECT_EQ(read_glue(task, folder.path(), GlueSplit::validation).at(0).rows.size(), 408u);
  EXPECT_EQ(read_glue(task, folder.path(), GlueSplit::test).at(0).rows.size(), 1725u);
}

class CustomFilesTest : public GlueReader {};

TEST_F(CustomFilesTest, CsvTakesQuotedFieldsAndSortsItsLabels) {
  file("t.csv", "id,sentence1,label,sentence2\n1,\"a, \"\"b\"\"\nc\",yes,d\n2,e,no,f\n");
  const CustomData data = read_custom({.train = folder_ / "t.csv", .validation = "", .test = ""});
  EXPECT_EQ(data.task.labels, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(data.train.at(0).rows.at(0).first, "a, \"b\"\nc");
  EXPECT_EQ(data.train.at(0).rows.at(0).second, "d");
  EXPECT_EQ(data.train.at(0).rows.at(0).label, 1);
}

TEST_F(CustomFilesTest, JsonNumbersWithAPointMeanRegression) {
  file("t.json", "{\"text\": \"a\", \"label\": 1.5}\n{\"text\": \"b\", \"label\": 2}\n");
  file("v.json", "{\"data\": [{\"text\": \"c\", \"label\": 0.25}]}");
  const CustomData data = read_custom({.train = folder_ / "t.json", .validation = folder_ / "v.json", .test = ""});
  EXPECT_TRUE(data.task.regression());
  EXPECT_EQ(data.task.second, "");
  EXPECT_EQ(data.train.at(0).rows.at(1).label, 2);
  EXPECT_EQ(data.validation.at(0).rows.at(0).label, 0.25);
}

TEST_F(CustomFilesTest, WholeNumbersAreClassesInTheirOrder) {
  file("t.json", "[{\"a\": \"x\", \"b\": \"y\", \"label\": 10}, {\"a\": \"z\", \"b\": \"w\", \"label\": 9}]");
  file("p.csv", "a,b\nu,v\n");
  const CustomData data = read_custom({.train = folder_ / "t.json", .validation = "", .test = folder_ / "p.csv"});
  EXPECT_EQ(data.task.labels, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(data.test.at(0).rows.at(0).second, "v");
  EXPECT_EQ(data.test.at(0).rows.at(0).label, -1);
}

TEST_F(CustomFilesTest, BinaryFilesAreNamed) {
  const std::pair<std::string, const char*> files[] = {
      {std::string("PK\3\4\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\5\0\0\0\5\0\0\0\5\0\0\0a.xml", 35),
       "t.csv: is a zip archive (as PyTorch's files and .npz are), not text; give the text that it contains"},
      {"PAR1 sentence1,label\na,0\n PAR1", "t.csv: is a Parquet file, not text"},
      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 sentence1,label\na,0\n", "is a document of older Office programs, not text"}};
  for (const auto& [content, said] : files) {
    file("t.csv", content);
    EXPECT_ERROR(read_custom({.train = folder_ / "t.csv", .validation = "", .test = ""}), ErrorKind::data, said);
  }
}

TEST_F(CustomFilesTest, RefusesRowsThatNoTableHas) {
  write_text(folder_ / "a.csv", std::string(100'000, ','));
  EXPECT_ERROR(read_text_table(folder_ / "a.csv"), ErrorKind::data, "a.csv record 1: more than 1024 fields");
  write_text(folder_ / "b.csv", "a,b\n\"" + std::string(8 << 20, 'x'));
  EXPECT_ERROR(read_text_table(folder_ / "b.csv"), ErrorKind::data,
               "b.csv record 2: a quoted field does not end within");
  write_text(folder_ / "c.csv", "a,b\n" + std::string(8 << 20, 'x') + ",1\n");
  EXPECT_ERROR(read_text_table(folder_ / "c.csv"), ErrorKind::data, "c.csv record 2: a field of 8388608 bytes");
  write_text(folder_ / "d.json", "{\"a\":1}\n{\"a\":\"" + std::string(8 << 20, 'x') + "\"}\n");
  EXPECT_ERROR(read_text_table(folder_ / "d.json"), ErrorKind::data, "d.json row 2: 8388616 bytes, expected at most");
}

TEST_F(CustomFilesTest, RefusesABlankLineWhoseRowWouldBeMissingInThePredictions) {
  file("t.csv", "text,label\nx,1\n\ny,0\n");
  const auto read = [&](const std::string& test) {
    file("p.csv", test);
    return read_custom({.train = folder_ / "t.csv", .validation = "", .test = folder_ / "p.csv"}).test.at(0).rows;
  };
  EXPECT_ERROR(read("text\na\n\nb\n"), ErrorKind::data, "p.csv record 3: a blank line; predictions are numbered by");
  EXPECT_ERROR(read("text\r\na\r\n\r\nb\r\n"), ErrorKind::data, "p.csv record 3: a blank line");
  const auto rows = read("text\na\n\"\"\nb\n\n\n");
  ASSERT_EQ(rows.size(), 3u) << "a quoted empty text is a row, blank lines at the end are not";
  EXPECT_EQ(rows[1].first, "");
  EXPECT_EQ(rows[2].first, "b");
  EXPECT_EQ(read("text,id\na,1\n\nb,2\n").size(), 2u) << "no row of two columns is a blank line";
}

TEST_F(CustomFilesTest, SaysWhatIsWrongWithARow) {
  const auto read = [&](const std::string& name) {
    return read_custom({.train = folder_ / name, .validation = "", .test = ""});
  };
  file("short.csv", "sentence1,label\na,1\nb\n");
  EXPECT_ERROR(read("short.csv"), ErrorKind::data, "short.csv record 3: 1 fields, but the header has 2");
  file("open.csv", "sentence1,label\n\"a,1\n");
  EXPECT_ERROR(read("open.csv"), ErrorKind::data, "record 2: a quoted field does not end");
  file("none.csv", "sentence1,class\na,1\n");
  EXPECT_ERROR(read("none.csv"), ErrorKind::data, "column \"label\" is missing");
  file("hole.json", "{\"a\": \"x\", \"label\": 1}\n{\"label\": 1}\n");
  EXPECT_ERROR(read("hole.json"), ErrorKind::data, "hole.json row 2: \"a\" is missing or neither text nor number");
  file("one.csv", "a,label\nx,1\ny,1\n");
  EXPECT_ERROR(read("one.csv"), ErrorKind::data, "every label is \"1\"; at least two classes are needed");
  EXPECT_ERROR(read("t.txt"), ErrorKind::usage, "data files are .csv or .json");
  EXPECT_ERROR(read_custom({}), ErrorKind::usage, "--train-file or --validation-file");
  file("t.csv", "a,label\nx,1\ny,0\n");
  file("v.csv", "a,label\nx,2\n");
  EXPECT_ERROR(read_custom({.train = folder_ / "t.csv", .validation = folder_ / "v.csv", .test = ""}), ErrorKind::data,
               "v.csv row 1: label \"2\" does not occur in the training file");
}

/// The columns for training, for any order and format.
TEST_F(CustomFilesTest, NumbersAndNamesOfRowsAreNotText) {
  struct Case {
    const char *name, *content, *first, *second, *said;
  };
  const Case cases[] = {
      {"idx.csv", "idx,sentence1,label\n0,good a,0\n1,null,1\n", "sentence1", "", "not used: idx (numbers)"},
      {"last.csv", "sentence,label,score\ngood a,0,0.5\nbad,1,1.5\n", "sentence", "", "not used: score (numbers)"},
      {"pandas.csv", ",text,label\n0,good a,0\n1,bad,1\n", "text", "", "not used:  (numbers)"},
      {"hole.csv", "score,text,label\n0.5,good a,0\n,bad,1\n", "text", "", "not used: score (numbers)"},
      {"na.csv", "score,a,n,b,label\nNA,x y,1e3,u,0\n-2.5,z,7,v w,1\n", "a", "b", "score (numbers), n (numbers)"},
      {"guid.csv", "guid,text,label\ndev-1,good a,0\ndev-2,bad,1\n", "text", "", "not used: guid (names of rows)"},
      {"only.csv", "id,label\nx one,0\ny,1\n", "id", "", "text \"id\""},
      {"idx.tsv", "index\tquestion\tsentence\tlabel\n0\tis it\tyes, \"so\"\t0\n1\twhy\tno\t1\n", "question", "sentence",
       "not used: index (numbers)"},
      {"idx.json",
       "{\"label\": 0, \"idx\": 0, \"sentence\": \"good a\"}\n{\"label\": 1, \"idx\": 1, \"sentence\": \"bad\"}\n",
       "sentence", "", "not used: idx (numbers)"},
      {"text-of-numbers.json",
       "{\"id\": \"0\", \"s\": \"good a\", \"label\": 0}\n{\"id\": \"1\", \"s\": \"bad\", \"label\": 1}\n", "s", "",
       "not used: id (numbers)"},
      {"bools.jsonl",
       "{\"is\": true, \"s\": \"good a\", \"label\": 0}\n{\"is\": false, \"s\": \"bad\", \"label\": 1}\n", "s", "",
       "not used: is (dates, amounts, true or false)"},
      {"values.csv",
       "day,time,part,price,count,flag,text,label\n2020-01-01,2020-01-01 10:00:00,12%,$3.50,\"1,000\",True,good a,0\n"
       "2021-12-31,2021-12-31T23:59:59Z,7.5%,$12,\"2,500\",False,bad,1\n",
       "text", "", "day (dates, amounts, true or false), time (dates, amounts, true or false), part (dates"},
      {"dates-in-text.csv", "text,label\n2020-01-01 it rained,0\n2021-12-31 it snowed,1\n", "text", "",
       "text \"text\""},
      {"words-with-numbers.csv", "text,label\n7,0\n8 of 9,1\n", "text", "", "text \"text\""},
      {"lists.json",
       "{\"tokens\": [1], \"s\": \"good a\", \"label\": 0}\n{\"tokens\": [], \"s\": \"bad\", \"label\": 1}\n", "s", "",
       "not used: tokens (not text in every row)"},
      {"pair.csv", "idx,sentence2,label,sentence1\n0,a b,0,c\n1,d,1,e\n", "sentence1", "sentence2",
       "not used: idx (numbers)"},
      {"three.csv", "a,b,c,label\nu,v,w,0\nx,y,z,1\n", "a", "b",
       "texts \"a\" and \"b\", label \"label\": 2 classes (0, 1); not used: c"},
  };
  for (const Case& c : cases) {
    file(c.name, c.content);
    const CustomData data = read_custom({.train = folder_ / c.name, .validation = "", .test = ""});
    EXPECT_EQ(data.task.first, c.first) << c.name;
    EXPECT_EQ(data.task.second, c.second) << c.name;
    EXPECT_THAT(data.columns, testing::HasSubstr(c.said)) << c.name;
  }
}

TEST_F(CustomFilesTest, ColumnsThatAreAskedForAreTaken) {
  file("t.csv", "idx,b,a,class\n0,x,y,no\n1,z,w,yes\n");
  const CustomData data =
      read_custom({.train = folder_ / "t.csv", .validation = "", .test = "", .texts = {"a", "idx"}, .label = "class"});
  EXPECT_EQ(data.train.at(0).rows.at(1).first, "w");
  EXPECT_EQ(data.train.at(0).rows.at(1).second, "1");
  EXPECT_EQ(data.train.at(0).rows.at(1).label, 1);
  EXPECT_THAT(data.columns,
              testing::HasSubstr("texts \"a\" and \"idx\", label \"class\": 2 classes (no, yes); not used: b"));
  const auto asked = [&](const std::vector<std::string>& texts) {
    return read_custom({.train = folder_ / "t.csv", .validation = "", .test = "", .texts = texts, .label = "class"});
  };
  EXPECT_ERROR(asked({"c"}), ErrorKind::data, "column \"c\" is missing; it has idx, b, a, class");
  EXPECT_ERROR(asked({"class"}), ErrorKind::usage, "both name \"class\"");
  file("numbers.csv", "idx,value,label\n0,1.5,0\n1,2.5,1\n");
  EXPECT_ERROR(read_custom({.train = folder_ / "numbers.csv", .validation = "", .test = ""}), ErrorKind::data,
               "text columns are missing: idx (numbers), value (numbers); select one with --text-columns");
  file("pair.csv", "sentence1,sentence2,label\na,1,0\nb,2,1\n");
  EXPECT_ERROR(read_custom({.train = folder_ / "pair.csv", .validation = "", .test = ""}), ErrorKind::data,
               "column \"sentence2\" has numbers, expected text");
}

TEST_F(CustomFilesTest, OtherSeparatorsAreNamedAndCanBeGiven) {
  const std::tuple<char, const char*, const char*> cases[] = {
      {';', "semicolon", "t.csv"}, {'\t', "tab", "t.csv"}, {'|', "pipe", "t.csv"}, {',', "comma", "t.tsv"}};
  for (const auto& [separator, name, path] : cases) {
    const std::string s(1, separator);
    file(path, "sentence1" + s + "label\ngood, a" + s + "0\nnull" + s + "1\n");
    const auto read = [&, path = path](char given) {
      return read_custom({.train = folder_ / path, .validation = "", .test = "", .separator = given});
    };
    EXPECT_ERROR(read(0), ErrorKind::data,
                 fmt::format("seem to be separated by a {}; use --csv-separator {}", name, name));
    if (separator == ',') continue;
    EXPECT_EQ(read(separator).train.at(0).rows.at(0).first, "good, a") << name;
  }
}

TEST_F(CustomFilesTest, ValuesThatDifferInNearlyEveryRowAreNotLabels) {
  std::string rows = "s,label\n", classes = "s,label\n";
  for (int i = 0; i < 2500; ++i) {
    rows += fmt::format("x y{},text {}\n", i, i);
    classes += fmt::format("x y{},class {}\n", i, i % 1200);
  }
  file("rows.csv", rows);
  EXPECT_ERROR(
      read_custom({.train = folder_ / "rows.csv", .validation = "", .test = ""}), ErrorKind::data,
      "rows.csv: 2500 rows have 2500 different values in \"label\", such as \"text 0\", which are too many for");
  file("classes.csv", classes);
  EXPECT_EQ(read_custom({.train = folder_ / "classes.csv", .validation = "", .test = ""}).task.labels.size(), 1200u);
}

TEST_F(CustomFilesTest, LongNamesAreShortenedInTheLineOfTheLog) {
  const std::string name(100'000, 'x');
  file("t.csv", "text," + name + "," + name + "b\na b," + name + "1,c d\ne," + name + "2,f g\n");
  const CustomData data =
      read_custom({.train = folder_ / "t.csv", .validation = "", .test = "", .texts = {"text"}, .label = name});
  EXPECT_LT(data.columns.size(), 1000U);
  EXPECT_EQ(data.task.labels.size(), 2U);
}

TEST_F(CustomFilesTest, LabelsThatMayBeNumbersAreDoubted) {
  std::string strings, scores = "s,label\n", classes = "s,label\n";
  for (int i = 0; i < 40; ++i) {
    strings += fmt::format("{{\"s\": \"x{}\", \"label\": \"{}.{}\"}}\n", i, i / 10, i % 10);
    scores += fmt::format("x{},{}\n", i, 3 * i % 100);
    classes += fmt::format("x{},{}\n", i, i % 3);
  }
  const auto doubt = [&](const char* name, const std::string& content) {
    file(name, content);
    return read_custom({.train = folder_ / name, .validation = "", .test = ""}).doubt;
  };
  EXPECT_THAT(doubt("strings.json", strings),
              testing::HasSubstr("labels like \"3.9\" are text, so they are 40 classes"));
  EXPECT_THAT(doubt("scores.csv", scores), testing::HasSubstr("40 rows have 40 distinct integers as labels"));
  EXPECT_EQ(doubt("classes.csv", classes), "");
  EXPECT_EQ(doubt("words.csv", "s,label\nx,1.0 star\ny,2.0 stars\n"), "");
}

TEST(GlueOfTheHub, IsReadFromParquetFiles) {
  const std::string folder = source_dir() + "/tests/golden/parquet/glue";
  const auto sets = read_glue(glue_task("mrpc"), folder, GlueSplit::train);
  ASSERT_EQ(sets.size(), 1u);
  ASSERT_EQ(sets[0].rows.size(), 96u);  // of two files
  for (size_t i = 0; i < 96; ++i) {
    EXPECT_EQ(sets[0].rows[i].first, fmt::format("w{} w{}", i % 24, i * 7 % 24));
    EXPECT_EQ(sets[0].rows[i].second, fmt::format("{}w{}", i % 2 == 1 ? "good " : "", i * 5 % 24));
    EXPECT_EQ(sets[0].rows[i].label, static_cast<double>(i % 2));
  }
  EXPECT_EQ(read_glue(glue_task("mrpc"), folder + "/mrpc", GlueSplit::validation).at(0).rows.size(), 20u);
  const auto test = read_glue(glue_task("mrpc"), folder, GlueSplit::test);
  ASSERT_EQ(test.at(0).rows.size(), 7u);
  EXPECT_EQ(test[0].rows[3].label, -1);
  const auto mnli = read_glue(glue_task("mnli"), folder, GlueSplit::validation);
  ASSERT_EQ(mnli.size(), 2u);
  EXPECT_EQ(mnli[0].name, "mnli");
  EXPECT_EQ(mnli[0].rows.size(), 18u);
  EXPECT_EQ(mnli[1].name, "mnli-mm");
  EXPECT_EQ(mnli[1].rows.size(), 21u);
  EXPECT_EQ(mnli[1].rows[2].label, 2);
}

TEST(GlueOfTheHub, NamesFileAndRowOfAWrongLabelAndMissingColumns) {
  const TemporaryFolder folder;
  const std::string samples = source_dir() + "/tests/golden/parquet/";
  std::filesystem::create_directory(folder / "mrpc");
  std::filesystem::copy_file(samples + "glue/mrpc/test-00000-of-00001.parquet",
                             folder / "mrpc/train-00000-of-00001.parquet");
  EXPECT_ERROR(read_glue(glue_task("mrpc"), folder.path(), GlueSplit::train), ErrorKind::data,
               "mrpc/train-00000-of-00001.parquet row 1: label -1, expected a class from 0 to 1");
  std::filesystem::create_directory(folder / "cola");
  std::filesystem::copy_file(samples + "empty.parquet", folder / "cola/train.parquet");
  EXPECT_ERROR(read_glue(glue_task("cola"), folder.path(), GlueSplit::train), ErrorKind::data,
               "cola/train.parquet: column \"sentence\" is missing; it has text (byte_array), label (int64)");
}

}  // namespace
}  // namespace trireme
