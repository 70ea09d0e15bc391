#include "text/pipeline/post_processor.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

// Templates in use have up to nine parts, and a few special ids.
constexpr size_t kMostSequences = 8, kMostSpecialIds = 1024;

bool is_id(const JsonNode& node) { return node.is_integer() && node.integer >= 0 && node.integer <= UINT32_MAX; }

/// ["[SEP]", 102]
TokenId read_token_pair(const JsonObject& element, std::string_view key) {
  const auto& items = element.array(key);
  require(items.size() == 2 && items[0].is_string() && is_id(items[1]), ErrorKind::data,
          "{}: \"{}\" must be [token, id]", element.place(), key);
  return static_cast<TokenId>(items[1].integer);
}

std::vector<TokenId> special_ids(const JsonObject& processor, const std::string& name) {
  const JsonObject specials = processor.object("special_tokens");
  require(specials.has(name), ErrorKind::data, "{}: the template uses \"{}\", which it does not define",
          processor.place(), name);
  std::vector<TokenId> ids;
  const JsonObject special = specials.object(name);
  for (const JsonNode& id : special.array("ids")) {
    require(is_id(id), ErrorKind::data, "{}: ids must be integers from 0 to {}", special.place(), UINT32_MAX);
    ids.push_back(static_cast<TokenId>(id.integer));
  }
  return ids;
}

std::vector<TemplatePart> read_template(const JsonObject& processor, std::string_view key) {
  std::vector<TemplatePart> parts;
  const auto& items = processor.array(key);
  size_t sequences = 0, special = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const JsonObject item(items[i], processor.place_of(key, i));
    item.allow_only({"Sequence", "SpecialToken"});
    const bool is_sequence = item.has("Sequence");
    const JsonObject body = item.object(is_sequence ? "Sequence" : "SpecialToken");
    body.allow_only({"id", "type_id"});
    TemplatePart part;
    const std::string id = body.string("id");
    if (is_sequence) {
      require(id == "A" || id == "B", ErrorKind::data, "{}: sequence \"{}\", expected A or B", body.place(), id);
      part.sequence = id == "B";
    } else {
      part.ids = special_ids(processor, id);
    }
    const uint64_t type = body.count("type_id");
    require(type < 256, ErrorKind::data, "{}: type_id is {}, expected at most 255", body.place(), type);
    part.type = static_cast<uint8_t>(type);
    sequences += is_sequence ? 1 : 0;
    special += part.ids.size();
    require(sequences <= kMostSequences && special <= kMostSpecialIds, ErrorKind::data,
            "{}: more than {} texts or {} special ids in one template, the limits", item.place(), kMostSequences,
            kMostSpecialIds);
    parts.push_back(std::move(part));
  }
  return parts;
}

PostProcessor make_template_processing(const JsonObject& element) {
  element.allow_only({"type", "single", "pair", "special_tokens"});
  PostProcessor result;
  result.single = read_template(element, "single");
  result.pair = read_template(element, "pair");
  return result;
}

PostProcessor make_bert_processing(const JsonObject& element) {
  element.allow_only({"type", "sep", "cls"});
  const std::vector<TokenId> sep{read_token_pair(element, "sep")}, cls{read_token_pair(element, "cls")};
  PostProcessor result;
  result.single = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}};
  result.pair = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}, {1, {}, 1}, {-1, sep, 1}};
  return result;
}

PostProcessor make_roberta_processing(const JsonObject& element) {
  element.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const std::vector<TokenId> sep{read_token_pair(element, "sep")}, cls{read_token_pair(element, "cls")};
  PostProcessor result;
  result.single = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}};
  result.pair = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}, {-1, sep, 0}, {1, {}, 0}, {-1, sep, 0}};
  return result;
}

/// ByteLevel only changes offsets, so a sequence equals the one other processor in it.
PostProcessor make_sequence(const JsonObject& element) {
  element.allow_only({"type", "processors"});
  PostProcessor result;
  bool found = false;
  const auto& items = element.array("processors");
  for (size_t i = 0; i < items.size(); ++i) {
    const JsonObject item(items[i], element.place_of("processors", i));
    if (item.string("type") == "ByteLevel") continue;
    require(!found, ErrorKind::data, "{}: a second template in one Sequence is unsupported", item.place());
    result = make_post_processor(item);
    found = true;
  }
  return result;
}

bool read_left(const JsonObject& element) {
  const std::string direction = element.string("direction", "Right");
  require(direction == "Right" || direction == "Left", ErrorKind::data, "{}: direction \"{}\", expected Left or Right",
          element.place(), direction);
  return direction == "Left";
}

}  // namespace

size_t PostProcessor::added(bool is_pair) const {
  size_t count = 0;
  for (const TemplatePart& part : is_pair ? pair : single) count += part.ids.size();
  return count;
}

Encoding PostProcessor::apply(const std::vector<TokenId>& first, const std::vector<TokenId>* second,
                              bool special_tokens) const {
  Encoding result;
  bool typed = false;
  for (const TemplatePart& part : second ? pair : single) {
    if (part.sequence < 0 && !special_tokens) continue;
    const std::vector<TokenId>& ids = part.sequence < 0 ? part.ids : part.sequence == 0 ? first : *second;
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.types.insert(result.types.end(), ids.size(), part.type);
    typed = typed || part.type != 0;
  }
  if (!typed) result.types.clear();
  return result;
}

void Truncation::apply(size_t added, std::vector<TokenId>& first, std::vector<TokenId>* second) const {
  const size_t room = length > added ? length - added : 0;
  size_t n1 = first.size(), n2 = second ? second->size() : 0;
  if (n1 + n2 <= room) return;
  const auto shorten = [this](std::vector<TokenId>& ids, size_t to) {
    if (to >= ids.size()) return;
    if (left)
      ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(to));
    else
      ids.resize(to);
  };
  if (room == 0) {
    first.clear();
    if (second) second->clear();
    return;
  }
  const bool longest = strategy == Strategy::longest_first || strategy == Strategy::longest_one_by_one;
  if (longest && !second) return shorten(first, room);
  if (strategy == Strategy::longest_one_by_one) {
    while (n1 + n2 > room) --(n1 > n2 ? n1 : n2);
    shorten(first, n1);
    return shorten(*second, n2);
  }
  if (strategy == Strategy::longest_first) {
    // Shortens the longer one until both are equal; then they share the length, and the longer one gets the odd id.
    const bool swapped = n1 > n2;
    if (swapped) std::swap(n1, n2);
    n2 = n1 > room ? n1 : std::max(n1, room - n1);
    if (n1 + n2 > room) {
      n1 = room / 2;
      n2 = n1 + room % 2;
    }
    if (swapped) std::swap(n1, n2);
    shorten(first, n1);
    shorten(*second, n2);
    return;
  }
  std::vector<TokenId>* target = strategy == Strategy::only_first ? &first : second;
  require(target != nullptr, ErrorKind::data, "truncation applies to the second text only, which is missing");
  const size_t excess = n1 + n2 - room;
  require(target->size() > excess, ErrorKind::data, "truncation to {} ids would remove the complete {} text", length,
          strategy == Strategy::only_first ? "first" : "second");
  shorten(*target, target->size() - excess);
}

void Padding::apply(Encoding& encoding) const {
  const size_t n = encoding.ids.size();
  const size_t least = length > 0 ? length : n, to = (least + multiple - 1) / multiple * multiple;
  if (to <= n) return;
  if (encoding.types.empty() && type != 0) encoding.types.assign(n, 0);
  const auto at = [this](auto& list) { return left ? list.begin() : list.end(); };
  encoding.ids.insert(at(encoding.ids), to - n, id);
  if (!encoding.types.empty()) encoding.types.insert(at(encoding.types), to - n, type);
}

PostProcessor make_post_processor(const JsonObject& element) {
  const std::string type = element.string("type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return make_template_processing(element);
  if (type == "BertProcessing") return make_bert_processing(element);
  if (type == "RobertaProcessing") return make_roberta_processing(element);
  if (type == "Sequence") return make_sequence(element);
  fail(ErrorKind::data, "{}: unsupported post-processor \"{}\"", element.place(), type);
}

Truncation make_truncation(const JsonObject& element) {
  element.allow_only({"direction", "max_length", "strategy", "stride"});
  Truncation result;
  result.length = element.count("max_length");
  result.left = read_left(element);
  const std::string strategy = element.string("strategy");
  if (strategy == "OnlyFirst")
    result.strategy = Truncation::Strategy::only_first;
  else if (strategy == "OnlySecond")
    result.strategy = Truncation::Strategy::only_second;
  else
    require(strategy == "LongestFirst", ErrorKind::data, "{}: unsupported truncation strategy \"{}\"", element.place(),
            strategy);
  return result;
}

Padding make_padding(const JsonObject& element) {
  element.allow_only({"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  Padding result;
  const JsonNode* strategy = element.node().find("strategy");
  require(strategy != nullptr, ErrorKind::data, "{}: \"strategy\" is missing", element.place());
  if (strategy->is_object()) {
    const JsonObject body(*strategy, element.place_of("strategy"));
    body.allow_only({"Fixed"});
    result.length = body.count("Fixed");
  } else {
    require(strategy->text == "BatchLongest", ErrorKind::data, "{}: unsupported padding strategy \"{}\"",
            element.place(), strategy->text);
  }
  result.multiple = std::max<uint64_t>(1, element.count("pad_to_multiple_of", 1));
  require(result.multiple <= (1u << 20) && result.length <= (1u << 20), ErrorKind::data,
          "{}: padding to {} ids or a multiple of {} exceeds the limit of 1048576", element.place(), result.length,
          result.multiple);
  result.left = read_left(element);
  const uint64_t id = element.count("pad_id");
  require(id <= UINT32_MAX, ErrorKind::data, "{}: pad_id is {}, expected a 32-bit number", element.place(), id);
  result.id = static_cast<TokenId>(id);
  const uint64_t type = element.count("pad_type_id", 0);
  require(type < 256, ErrorKind::data, "{}: pad_type_id is {}, expected at most 255", element.place(), type);
  result.type = static_cast<uint8_t>(type);
  return result;
}

}  // namespace trireme
