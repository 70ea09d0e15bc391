#include "train/sft/chat_recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "comm/proof.h"
#include "config/validate.h"
#include "hub/place.h"
#include "model/train_flops.h"
#include "text/chat/chat_files.h"
#include "train/facts.h"
#include "train/sft/data_parts.h"
#include "train/sft/turn_ends.h"
#include "train/start/resume.h"
#include "train/step.h"

namespace trireme {
namespace {

constexpr int64_t kUsualSequence = 1024;
constexpr double kWarmup = 0.03;  // of the steps
constexpr const char* kDate = "%Y-%m-%d";

/// Options that conversations leave without effect.
constexpr const char* kWithoutEffect[] = {"model.preset",
                                          "model.init-scheme",
                                          "data.dir",
                                          "data.test",
                                          "data.split",
                                          "data.index-dir",
                                          "data.tokenizer",
                                          "data.merges",
                                          "data.mask-rate",
                                          "data.whole-words",
                                          "data.verify",
                                          "data.trust",
                                          "evaluation.batches",
                                          "evaluation.next-batches",
                                          "data.mask-end-of-text",
                                          "checkpoint.allow-other-tokenizer"};

/// "messages=dialog, content=text".
std::map<std::string, std::string> assignments(const std::string& option, std::string_view text) {
  std::map<std::string, std::string> made;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    const size_t sign = one.find('=');
    const bool right = sign != std::string_view::npos && sign > 0 && sign + 1 < one.size();
    require(right, ErrorKind::config, "{}: \"{}\" is not NAME=VALUE; expected like messages=dialog, content=text",
            option, one);
    const bool is_new = made.emplace(one.substr(0, sign), one.substr(sign + 1)).second;
    require(is_new, ErrorKind::config, "{}: \"{}\" is given twice", option, one.substr(0, sign));
  }
  return made;
}

chat::ConversationColumns columns_of(const ChatOptions& chat, bool pairs) {
  chat::ConversationColumns columns{assignments("chat.columns", chat.columns), assignments("chat.roles", chat.roles),
                                    pairs};
  check_columns(columns);
  return columns;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32] = {};
  (void)std::strftime(text, sizeof text, kDate, &local);
  return text;
}

/// Noon of a day.
std::tm day(const std::string& date) {
  std::tm made{};
  const char* const end = strptime(date.c_str(), kDate, &made);
  require(end != nullptr && *end == 0, ErrorKind::config, "chat.date is \"{}\", expected a date like 2026-11-26", date);
  made.tm_hour = 12;
  made.tm_isdst = -1;
  (void)std::mktime(&made);  // the day of the week and of the year
  return made;
}

/// Refuses what conversations cannot be trained on with.
void require_conversations(const LoadedConfig& loaded, bool pairs) {
  const std::string& init = loaded.config.model.init;
  require(!init.empty() && init != "scratch", ErrorKind::usage,
          "--model is missing: the folder of the model to train, its name on the Hugging Face hub, or a run");
  require(loaded.given("data.train"), ErrorKind::usage,
          "--data is missing: a file of {} (.jsonl, .json, .csv, .tsv or .parquet), or a data set of the Hugging Face "
          "hub",
          pairs ? "pairs of answers" : "conversations");
  for (const char* option : kWithoutEffect)
    require(!loaded.given(option), ErrorKind::config, "{} has no effect when training on conversations; remove it",
            loaded.where(option));
  const bool both = loaded.given("data.validation") && loaded.given("chat.validation-share") &&
                    loaded.config.chat.validation_share > 0;
  require(!both, ErrorKind::config, "{} and {} both select the validation data; remove one of them",
          loaded.where("data.validation"), loaded.where("chat.validation-share"));
  (void)columns_of(loaded.config.chat, pairs);
  if (!loaded.config.chat.date.empty()) (void)day(loaded.config.chat.date);
}

DataFileFact fact_of(const std::string& path, const chat::TrainingRows& rows, bool packs) {
  const chat::CodedIds& all = rows.conversations;
  const uint64_t codes = xxh3(std::as_bytes(std::span(all.codes))),
                 offsets = xxh3(std::as_bytes(std::span(all.offsets)));
  const uint64_t layout = packs ? 0 : 1;
  return {path, all.codes.size() * sizeof(int32_t), hex64(codes ^ (3 * offsets) ^ layout)};
}

/// Whether the lines were added to a file of a run folder. A list is no reason to end a training.
bool appends(const std::string& path, const std::string& lines) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(std::filesystem::path(path).parent_path(), unreadable)) return false;
  std::ofstream file(path, std::ios::app);
  file << lines;
  return file.flush().good();
}

}  // namespace

std::vector<std::string> defaults_with_rate(const std::string& learning_rate) {
  std::vector<std::string> flags;
  for (const std::string& value :
       {std::string("batch.global=8"), "optim.learning-rate=" + learning_rate, std::string("optim.min-learning-rate=0"),
        std::string("optim.beta2=0.999"), std::string("optim.weight-decay=0")})
    flags.insert(flags.end(), {"--default", value});
  return flags;
}

void sum_where_counted(Session& session, std::span<double> values) {
  constexpr size_t kPiece = size_t{1} << 20;
  if (!session.counts_loss()) std::ranges::fill(values, 0);
  for (size_t at = 0; at < values.size(); at += kPiece)
    session.scalars().sum(values.subspan(at, std::min(kPiece, values.size() - at)));
}

ChatRecipe::ChatRecipe(LoadedConfig loaded, bool pairs) : pairs_(pairs) {
  require_conversations(loaded, pairs);
  if (!loaded.given("data.validation")) loaded.config.data.validation = "";  // the default is a token file
  loaded_ = std::move(loaded);
}

std::string ChatRecipe::count_rows(uint64_t rows) const { return count_text(rows, pairs_ ? "pair" : "conversation"); }

int64_t ChatRecipe::validation_steps() const {
  return (std::ssize(validation_.rows) + epochs_.global - 1) / epochs_.global;
}

Resolved ChatRecipe::resolve(const TrainingJob& job) {
  together(job.scalars, [&] {
    validate(loaded_);
    for (const std::string& note : loaded_.notes) log::info("{}", note);
  });
  today_ = job.scalars.broadcast(today());
  Resolved start{.place = find_resume(loaded_, job.scalars), .needs = {}};
  // A resumed run needs the conversations only.
  if (start.place.path.empty()) start.needs.model = loaded_.config.model.init;
  return start;
}

/// The templates of the model; a file of the user's becomes the template that the run's snapshots have.
void ChatRecipe::take_template(Opened& opened) {
  ChatOptions& chat = opened.loaded.config.chat;
  if (chat.date.empty() && opened.resume) chat.date = opened.resumed.chat.date;
  if (chat.date.empty()) chat.date = today_;
  const std::string& where = opened.path();
  if (!chat.eos_token.empty()) {
    tokenizer_ = tokenizer_from_json(opened.tokenizer_json, where + "/tokenizer.json");
    require(tokenizer_->token_to_id(chat.eos_token).has_value(), ErrorKind::config,
            "{} is \"{}\", but {} has no such token; use one that it has", opened.loaded.config.names("chat.eos-token"),
            chat.eos_token, where + "/tokenizer.json");
    opened.generation = with_eos_token(opened.generation, chat.eos_token);
  }
  files_ = chat::chat_files_of(kept_tokenizer_files(opened.generation, where), where);
  if (chat.chat_template.empty() || !std::filesystem::is_regular_file(chat.chat_template)) return;
  const chat::TemplateSource own = chat::open_template(files_, chat.chat_template, false);
  opened.generation = with_tokenizer_file(opened.generation, "chat_template.jinja", own.text);
}

RunPlan ChatRecipe::open_model_to_train(const ResumePlace& place, const TrainingJob& job) {
  Opened opened = with_model(open_start(loaded_, job.mesh, place), 0);
  opened.tokenizer_json = opened.resume ? opened.resume->facts.tokenizer_json : opened.init->tokenizer_json;
  opened.generation = opened.resume ? opened.resume->facts.generation : opened.init->generation;
  require(opened.model.spec.head == HeadKind::language_model, ErrorKind::config,
          "{} does not predict the next token; name a language model with --model", opened.path());
  require(!opened.tokenizer_json.empty(), ErrorKind::config,
          "{} has no tokenizer.json, so conversations cannot become its ids; copy the tokenizer's files into it",
          opened.path());
  take_template(opened);
  LoadedConfig& loaded = opened.loaded;
  const auto given = [&](const char* option) { return loaded.given(option); };
  if (!given("batch.sequence"))
    loaded.derive("batch.sequence", std::min(kUsualSequence, opened.model.spec.context), "default of this command");
  if (loaded.config.chat.packing && !given("batch.micro") && !given("batch.accumulation"))
    loaded.config.batch.micro = 1;  // a full row occupies all cores
  const BatchShape batch = resolve_batch(opened, job.rank.rank());
  require(batch.sequence >= 2, ErrorKind::config, "{} is {}, but a row has at least 2 ids; raise it",
          loaded_.config.names("batch.sequence"), batch.sequence);
  StepSize size = size_of_step(batch);
  size.uneven = true;
  RunPlan plan = plan_run(std::move(opened), batch, size, job.planned());
  plan.of_conversations = true;
  return plan;
}

/// A file, or those of a data set of the hub.
std::vector<std::string> ChatRecipe::files_of(const std::string& given, const char* option,
                                              const TrainingJob& job) const {
  std::vector<std::string> files;
  const auto look = [&] {
    if (std::filesystem::exists(given)) {
      files = std::filesystem::is_directory(given) ? files_in_folder(given) : std::vector<std::string>{given};
      return;
    }
    const hub::PlaceOfData place = hub::place_of_data(given, [&] {
      if (job.rank.heartbeat != nullptr) job.rank.heartbeat->move();
      require(!job.rank.stop_requested(), ErrorKind::stopped, "stopped while {} was fetched: nothing to save", given);
    });
    require(!place.files.empty(), ErrorKind::io, "{} {} does not exist{}", option, given, place.why_not);
    files = place.files;
  };
  together(job.scalars, [&] {
    if (job.rank.local_rank() == 0) look();  // fetches it for its host
  });
  together(job.scalars, [&] {
    if (job.rank.local_rank() != 0) look();
  });
  return files;
}

TokenisedConversations ChatRecipe::tokenise_files(const RunPlan& plan, const std::string& given, const char* option,
                                                  const TrainingJob& job) const {
  const ChatOptions& chat = plan.config().chat;
  const auto start = Clock::now();
  ConversationSource source{.files = files_of(given, option, job),
                            .columns = columns_of(chat, pairs_),
                            .skips = chat.skip_bad_rows,
                            .template_name = chat.chat_template,
                            .template_options = chat.template_options,
                            .loss_on = chat.loss_on,
                            .date = day(chat.date),
                            .cache = ""};
  if (!plan.config().evaluation.only)
    source.cache = chat.cache_dir.empty() ? plan.config().run.dir + "/conversations" : chat.cache_dir;
  TokenisedConversations made = tokenise(source, files_, *tokenizer_, job.rank, job.scalars);
  together(job.scalars, [&] {
    require(made.ids.size() > 0, ErrorKind::data, "{} has no usable {}{}", given, pairs_ ? "pair" : "conversation",
            made.counts.skipped == 0
                ? std::string()
                : fmt::format(": {} skipped; for example {}", count_text(made.counts.skipped, "bad row"),
                              made.counts.first_skipped));
  });
  together(job.scalars, [&] { require_known_ids(plan, made.ids, given); });
  if (job.rank.rank() != 0) return made;
  const size_t each = pairs_ ? 2 : 1;
  if (made.from_cache.empty())
    log::info("tokenised {} of {} on {} in {:.1f} s", count_rows(made.ids.size() / each), given,
              count_text(job.rank.size(), "rank"), seconds_since(start));
  else
    log::info("read {} of {} from {}", count_rows(made.ids.size() / each), given, made.from_cache);
  if (!made.template_note.empty()) log::write_once(log::Level::info, made.template_note);
  if (made.counts.skipped > 0) {
    const std::string list = plan.config().run.dir + "/left-out.txt";
    std::string lines;
    for (const std::string& line : made.counts.list) lines += line + "\n";
    log::warning("{}: {}{}", given, made.counts.skipped_text(),
                 made.from_cache.empty() && appends(list, lines) ? fmt::format("; {} lists them", list) : "");
  }
  for (const auto& [note, rows] : made.notes)
    log::warning("{}: {} of {}: {}", given, rows, count_text(made.ids.size() / each, pairs_ ? "pair" : "conversation"),
                 note);
  if (made.rejected > 0)
    log::info("{}: found {} with a pair of answers; only the chosen ones are trained on", given,
              count_text(made.rejected, "row"));
  return made;
}

TokenisedConversations ChatRecipe::tokenise_parts(const RunPlan& plan, const std::string& given, const char* option,
                                                  const TrainingJob& job) const {
  const size_t each = pairs_ ? 2 : 1;
  const auto seed = static_cast<uint64_t>(plan.config().run.seed);
  std::vector<DataPart> parts;
  together(job.scalars, [&] { parts = data_parts(option, given); });
  TokenisedConversations all;
  for (const DataPart& part : parts) {
    TokenisedConversations one = tokenise_files(plan, part.name, option, job);
    const size_t there = one.ids.size();
    const chat::CodedIds taken = taken_of(std::move(one.ids), part, seed, each);
    if (taken.size() != there && job.rank.rank() == 0)
      log::info("{}: an epoch has {} of {}", part.name, count_rows(taken.size() / each), there / each);
    for (size_t i = 0; i < taken.size(); ++i) all.ids.add(taken.at(i));
  }
  return all;
}

void ChatRecipe::require_known_ids(const RunPlan& plan, const chat::CodedIds& ids, const std::string& given) const {
  int32_t largest = 0;
  for (const int32_t code : ids.codes) largest = std::max(largest, chat::id_of(code));
  require(largest < plan.part.spec.vocabulary, ErrorKind::data,
          "{}: the tokenizer writes id {} (\"{}\"), but the embedding of {} has {} rows: the template or the "
          "conversations use tokens that were added to the tokenizer and not to the model; use the tokenizer that the "
          "model was trained with, or a template without these tokens (--chat-template FILE)",
          given, largest, tokenizer_->id_to_token(static_cast<TokenId>(largest)), plan.path(),
          plan.part.spec.vocabulary);
}

void ChatRecipe::plan_steps(RunPlan& plan) {
  LoadedConfig& loaded = plan.loaded;
  const Config& config = loaded.config;
  epochs_ = {std::ssize(train_.rows), plan.batch.global};
  const auto given = [&](const char* option) { return loaded.given(option); };
  const int64_t epoch = epochs_.steps_per_epoch();
  if (!given("run.steps"))
    loaded.derive("run.steps", epochs_.total_steps(config.chat.epochs, 0),
                  fmt::format("{:g} x the {} of an epoch", config.chat.epochs, count_text(epoch, "step")));
  for (const char* every : {"evaluation.every", "checkpoint.every"})
    if (!given(every)) loaded.derive(every, epoch, "the steps of an epoch");
  if (!given("optim.warmup-steps") && !given("optim.warmup-fraction"))
    loaded.derive("optim.warmup-steps",
                  static_cast<int64_t>(std::ceil(kWarmup * static_cast<double>(config.run.steps))),
                  fmt::format("{:g} of run.steps", kWarmup));
}

void ChatRecipe::warn_of(const chat::TrainingRows& rows, const char* name) const {
  const auto warn = [](const std::string& text) { log::write_once(log::Level::warning, text); };
  const std::string ids = count_text(rows.most, "id");
  if (rows.cut > 0)
    warn(fmt::format("{}: {} of {} cut to {} = {}", name, count_text(rows.cut, pairs_ ? "answer" : "conversation"),
                     rows.conversations.size(), loaded_.config.names("batch.sequence"), rows.most));
  if (rows.uncounted > 0)
    warn(fmt::format("{}: {} left out: none of the first {}{} counts in the loss", name, count_rows(rows.uncounted),
                     ids, pairs_ ? " of an answer with its prompt" : ""));
  if (rows.equal > 0)
    warn(fmt::format("{}: {} left out: the answers are the same in their first {}", name, count_rows(rows.equal), ids));
}

void ChatRecipe::take_end_of_turns(RunPlan& plan, const chat::CodedIds& conversations) {
  const std::optional<TokenId> turn = end_of_counted_turns(conversations, *tokenizer_);
  std::vector<TokenId> ends;
  if (turn) ends.push_back(*turn);
  // As transformers' Trainer, which has every token that the tokenizer calls the end among the model's.
  if (const auto named = files_.tokens.find("eos_token"); named != files_.tokens.end()) {
    const auto id = tokenizer_->token_to_id(named->second);
    if (id && id != turn) ends.push_back(*id);
  }
  const std::vector<TokenId> before = generation_settings(plan.generation, plan.path()).end;
  std::erase_if(ends, [&](TokenId id) { return std::ranges::find(before, id) != before.end(); });
  if (ends.empty()) return;
  plan.generation = with_end_tokens(plan.generation, ends, tokenizer_->end_of_text());
  std::vector<std::string> names;
  for (const TokenId id : ends) names.push_back(fmt::format("{} ({})", tokenizer_->id_to_token(id), id));
  log::info("texts of this model will also end at {}, {}, in samples and exports", fmt::join(names, " and "),
            turn == ends.front() ? "which ends the turns that are trained on" : "the tokenizer's eos_token");
}

void ChatRecipe::read_rows(RunPlan& plan, const TrainingJob& job) {
  const Config& config = plan.config();
  const DataOptions& data = config.data;
  const auto seed = static_cast<uint64_t>(config.run.seed);
  const auto sequence = static_cast<size_t>(plan.batch.sequence);
  const bool has_file = !data.validation.empty();
  together(job.scalars, [&] { tokenizer_ = tokenizer_from_json(plan.tokenizer_json, "the model's tokenizer.json"); });
  TokenisedConversations all = tokenise_parts(plan, data.train, "--data", job);
  together(job.scalars, [&] { take_end_of_turns(plan, all.ids); });
  chat::CodedIds measured;
  if (has_file)
    measured = tokenise_parts(plan, data.validation, "--validation", job).ids;
  else
    measured = chat::take_share(all.ids, config.chat.validation_share, seed, pairs_ ? 2 : 1);
  together(job.scalars, [&] {
    train_ = rows_of(std::move(all.ids), sequence);
    validation_ = rows_of(std::move(measured), sequence);
    warn_of(train_, "training");
    warn_of(validation_, "validation");
    require(!train_.rows.empty() || pairs_, ErrorKind::data,
            "{}: none of the first {} of any conversation counts in the loss; raise {}", data.train,
            count_text(train_.most, "id"), loaded_.config.names("batch.sequence"));
    require(!train_.rows.empty(), ErrorKind::data,
            "{}: no pair is left to train on: no id of an answer counts in {}, and the answers are the same in {}; "
            "raise {} (now {})",
            data.train, count_rows(train_.uncounted), count_rows(train_.equal), loaded_.config.names("batch.sequence"),
            train_.most);
    plan.data_files.push_back(fact_of(data.train, train_, config.chat.packing));
    if (!validation_.rows.empty())
      plan.data_files.push_back(fact_of(has_file ? data.validation : data.train, validation_, config.chat.packing));
    for (const auto& [option, is_set] : {std::pair("evaluation.only", config.evaluation.only),
                                         {"evaluation.patience", config.evaluation.patience > 0}})
      require(!is_set || !validation_.rows.empty(), ErrorKind::config,
              "{} is set, but there is no validation data; name --validation FILE or set --validation-share",
              plan.loaded.where(option));
    take_rows(plan, job);
    plan_steps(plan);
    if (plan.resume) check_resume(plan);
  });
}

RunPlan ChatRecipe::open(const Resolved& start, const TrainingJob& job) {
  RunPlan plan;
  together(job.scalars, [&] { plan = open_model_to_train(start.place, job); });
  read_rows(plan, job);
  std::string facts;
  for (const DataFileFact& file : plan.data_files)
    facts += fmt::format("{}: {} bytes of ids with XXH3 {}\n", file.path, file.bytes, file.hash);
  prove_same_text(job.scalars, job.rank.host, facts, "have the same ids of the conversations",
                  "remove chat.cache-dir on that host, and copy the files to it again");
  return plan;
}

RunFacts ChatRecipe::report_facts(const RunPlan& plan, const TrainingJob& job, const PeakRate& peak) const {
  RunFacts facts = plan_facts(plan, job.rank, job.backend, peak, sequence_length()), own = facts_of(plan);
  const auto describe = [&](const chat::TrainingRows& rows) {
    const size_t used = pairs_ ? rows.size() : rows.conversations.size() - rows.uncounted;
    return fmt::format("{} with {} ids, {} counted", count_rows(used), rows.ids(), rows.counted_ids());
  };
  own.insert(own.begin(), {"data", fmt::format("{}: {}{}", plan.config().data.train, describe(train_),
                                               validation_.rows.empty() ? std::string(", no validation")
                                                                        : ", validation " + describe(validation_))});
  own.emplace_back(
      "batch", fmt::format("{} per step: {} x {} of {}", count_text(epochs_.global, pairs_ ? "pair" : "row"),
                           count_text(plan.batch.ranks, "rank"), count_text(plan.batch.micro_batches, "micro-batch"),
                           plan.batch.largest_micro()));
  own.emplace_back("steps", fmt::format("{}, {} per epoch", plan.config().run.steps, epochs_.steps_per_epoch()));
  facts.insert(facts.begin() + 1, own.begin(), own.end());  // behind the model
  return facts;
}

bool ChatRecipe::evaluate_rows(Work& work) {
  if (validation_.rows.empty()) return true;
  const auto start = Clock::now();
  const RunCounters& progress = work.run.progress;
  NamedValues measures;
  const auto loss = measure(work, measures);
  if (!loss) return false;
  record_evaluation(work, {.step = progress.step,
                           .train_loss = {},
                           .validation_loss = *loss,
                           .seconds = seconds_since(start),
                           .unit = pairs_ ? LossUnit::pair : LossUnit::token,
                           .epoch = static_cast<double>(progress.samples) / static_cast<double>(epochs_.rows),
                           .values = std::move(measures)});
  return true;
}

void ChatRecipe::close(const Run& run) const {
  std::string model = run.config().run.dir;
  std::error_code unreadable;
  if (run.progress.best_step >= 0 && std::filesystem::exists(model + "/best", unreadable)) model += "/best";
  const auto word = [](const std::string& path) { return path.find(' ') == path.npos ? path : "'" + path + "'"; };
  const std::string name = word(model), output = word(run.config().run.dir + "-model");
  log::info("talk with it   trireme sample --model {} --chat --interactive", name);
  log::info("export it      trireme export --model {} --output {}", name, output);
  log::info(
      "serve it       trireme export --model {} --output {} --gguf q8_0   for llama.cpp and ollama (docs/serving.md)",
      name, output);
}

Task ChatRecipe::begin(Work& work, const TrainingJob& job) {
  const RunPlan& plan = work.run.plan;
  const double rows = static_cast<double>(epochs_.rows) / static_cast<double>(epochs_.steps_per_epoch());
  Task task;
  task.batches = batches_of(work);
  task.unit = pairs_ ? LossUnit::pair : LossUnit::token;
  task.cost = {.tokens = row_length() * rows,
               .flops = train_flops_per_token(plan.part.table->whole(), sequence_length()) * row_length() * rows,
               .samples = rows};
  task.tokens = [this](uint64_t samples) {
    return static_cast<uint64_t>(std::llround(row_length() * static_cast<double>(samples)));
  };
  task.epoch = [this](uint64_t samples) { return static_cast<double>(samples) / static_cast<double>(epochs_.rows); };
  task.is_finished = [&run = work.run] { return is_patience_over(run); };
  task.facts = [this, &plan, &job](const PeakRate& peak) { return report_facts(plan, job, peak); };
  task.evaluates_first = task.evaluates_last = !validation_.rows.empty();
  task.saves_first = plan.extra_snapshots.contains(0);
  task.due = [this, &plan](const RunCounters& progress) {
    Due due = due_by_options(plan, progress);
    due.evaluation = due.evaluation && !validation_.rows.empty();
    return due;
  };
  task.evaluate = [this](Work& of) { return evaluate_rows(of); };
  task.measures = [this](Work& of) { return measures_of_steps(of); };
  return task;
}

}  // namespace trireme
