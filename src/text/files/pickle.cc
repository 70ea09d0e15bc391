#include "text/files/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/error.h"

namespace trireme {
namespace {

/// The meaning of a global, for the modules of tensors only.
enum class Meaning : uint8_t { dictionary, size, tensor, parameter, storage };
struct Global {
  std::string_view module, name;
  Meaning meaning;
  std::string_view dtype = {};
};
constexpr Global kGlobals[] = {
    {"collections", "OrderedDict", Meaning::dictionary},        {"torch", "Size", Meaning::size},
    {"torch._utils", "_rebuild_tensor", Meaning::tensor},       {"torch._utils", "_rebuild_tensor_v2", Meaning::tensor},
    {"torch._utils", "_rebuild_parameter", Meaning::parameter}, {"torch", "FloatStorage", Meaning::storage, "F32"},
    {"torch", "HalfStorage", Meaning::storage, "F16"},          {"torch", "BFloat16Storage", Meaning::storage, "BF16"},
    {"torch", "DoubleStorage", Meaning::storage, "F64"},        {"torch", "LongStorage", Meaning::storage, "I64"},
    {"torch", "IntStorage", Meaning::storage, "I32"},           {"torch", "ShortStorage", Meaning::storage, "I16"},
    {"torch", "CharStorage", Meaning::storage, "I8"},           {"torch", "ByteStorage", Meaning::storage, "U8"},
    {"torch", "BoolStorage", Meaning::storage, "BOOL"},
};

constexpr uint32_t kOpaque = std::numeric_limits<uint32_t>::max();  // place of any other global

/// Opcodes that do not occur in pickles of tensors.
struct Refused {
  uint8_t code;
  const char* name;
};
constexpr Refused kRefused[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'d', "DICT"},
    {'g', "GET"},
    {'i', "INST"},
    {'l', "LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8b, "LONG4"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

/// The bytes of a pickle, read in order.
class PickleBytes {
 public:
  PickleBytes(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  size_t at() const { return at_; }
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::data, "{}: pickle byte {}: {}", where_, start_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::byte> take(size_t count) {
    if (count > bytes_.size() - at_) bad("truncated: expected {} bytes, {} are left", count, bytes_.size() - at_);
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  uint8_t take_byte() {
    start_ = at_;
    return static_cast<uint8_t>(take(1)[0]);
  }
  /// Little-endian, up to 8 bytes.
  uint64_t take_integer(size_t count) {
    uint64_t value = 0;
    const auto raw = take(count);
    for (size_t i = 0; i < count; ++i) value |= static_cast<uint64_t>(raw[i]) << (8 * i);
    return value;
  }
  int64_t take_signed(size_t count) {
    if (count > 8) bad("an integer of {} bytes, at most 8 are supported", count);
    uint64_t value = take_integer(count);
    if (count > 0 && count < 8 && value >> (8 * count - 1)) value |= ~uint64_t{0} << (8 * count);
    return static_cast<int64_t>(value);
  }
  double take_real() {  // big-endian
    uint64_t bits = 0;
    for (const std::byte b : take(8)) bits = bits << 8 | static_cast<uint64_t>(b);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  std::string_view take_text(size_t count) {
    const auto raw = take(count);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::string_view take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const size_t end = rest.find('\n');
    if (end == rest.npos) bad("truncated inside a name");
    at_ += end + 1;
    return rest.substr(0, end);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t at_ = 0, start_ = 0;
};

}  // namespace

/// The stack and the memo. A value is an index, so that nothing nests in memory however deep the pickle does.
class PickleStack : protected PickleBytes {
 protected:
  using Kind = Pickle::Kind;
  using Index = Pickle::Index;
  using Value = Pickle::Value;

  PickleStack(Pickle& out, std::span<const std::byte> bytes, std::string_view where)
      : PickleBytes(bytes, where), out_(out) {}

  Value& make(Kind kind, size_t place = 0) {
    if (out_.values_.size() >= Pickle::kMaxValues)
      bad("more than {} values; no dictionary of tensors needs so many", Pickle::kMaxValues);
    stack_.push_back(static_cast<Index>(out_.values_.size()));
    Value& value = out_.values_.emplace_back();
    value.kind = kind;
    value.place = static_cast<uint32_t>(place);
    return value;
  }
  void make_integer(int64_t integer, Kind kind = Kind::integer) { make(kind).integer = integer; }
  void make_text(std::string_view text) { make(Kind::text).text = text; }
  void make_list(std::vector<Index> items) {
    make(Kind::list, out_.lists_.size());
    out_.lists_.push_back(std::move(items));
  }
  void make_dict() {
    make(Kind::dict, out_.dicts_.size());
    out_.dicts_.emplace_back();
  }
  Index pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) bad("pops an empty stack");
    const Index value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Index top() {
    const Index value = pop();
    stack_.push_back(value);
    return value;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) bad("the mark is missing");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Index> pop_some(size_t count) {
    std::vector<Index> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  const Value& need(Index index, Kind kind, const char* what) const {
    const Value& value = out_.values_[index];
    if (value.kind != kind) bad("{} is expected", what);
    return value;
  }
  uint64_t need_count(Index index, const char* what) const {
    const int64_t count = need(index, Kind::integer, what).integer;
    if (count < 0) bad("{} is {}, expected at least 0", what, count);
    return static_cast<uint64_t>(count);
  }

  void open_mark() {
    if (marks_.size() >= Pickle::kMaxMarks) bad("more than {} marks are open", Pickle::kMaxMarks);
    marks_.push_back(stack_.size());
  }
  void push(Index value) { stack_.push_back(value); }
  void memoize() { remember(memo_.size()); }

  void remember(uint64_t name) {
    const Index value = top();
    if (!memo_.contains(name)) count_reference();
    memo_.insert_or_assign(name, value);
  }

  void recall(uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end()) bad("nothing is stored under memo {}", name);
    count_reference();
    stack_.push_back(found->second);
  }

  /// Memory without a new value.
  void count_reference() {
    if (++references_ > Pickle::kMaxReferences)
      bad("stores and reads memo values more than {} times; no dictionary of tensors needs that",
          Pickle::kMaxReferences);
  }

  Pickle& out_;

 private:
  std::vector<Index> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Index> memo_;
  size_t references_ = 0;
};

/// The opcodes.
class PickleReader : private PickleStack {
 public:
  PickleReader(Pickle& out, std::span<const std::byte> bytes, std::string_view where, Pickle::Classes classes)
      : PickleStack(out, bytes, where), opaque_(classes == Pickle::Classes::opaque) {}

  void run() {
    while (step(take_byte())) {
    }
    out_.bytes_ = at();
  }

 private:
  /// False at the end.
  bool step(uint8_t code) {
    switch (code) {
      case '.':
        out_.root_ = pop();
        return false;
      case 0x80:
        if (const uint64_t protocol = take_integer(1); protocol > 5) bad("protocol {}; supported: 0 to 5", protocol);
        return true;
      case 0x95:  // FRAME
        (void)take_integer(8);
        return true;
      case '(':
        return open_mark(), true;
      default:
        break;
    }
    const bool known = make_scalar(code) || make_container(code) || use_memo(code) || use_object(code);
    if (!known && !(opaque_ && use_opaque(code))) refuse(code);
    return true;
  }

  bool make_scalar(uint8_t code) {
    switch (code) {
      case 'N':
        return make(Kind::none), true;
      case 0x88:
        return make_integer(1, Kind::boolean), true;
      case 0x89:
        return make_integer(0, Kind::boolean), true;
      case 'J':
        return make_integer(take_signed(4)), true;
      case 'K':
        return make_integer(static_cast<int64_t>(take_integer(1))), true;
      case 'M':
        return make_integer(static_cast<int64_t>(take_integer(2))), true;
      case 0x8a:  // LONG1
        return make_long(take_integer(1)), true;
      case 'G': {
        const double real = take_real();
        make(Kind::real).real = real;
        return true;
      }
      case 'X':
        return make_text(take_text(take_integer(4))), true;
      case 0x8c:
        return make_text(take_text(take_integer(1))), true;
      default:
        return false;
    }
  }

  bool make_container(uint8_t code) {
    switch (code) {
      case '}':
        return make_dict(), true;
      case ']':
      case ')':
        return make_list({}), true;
      case 't':
        return make_list(pop_to_mark()), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return make_list(pop_some(size_t{code} - 0x84)), true;
      case 'a':
        return append({pop()}), true;
      case 'e':
        return append(pop_to_mark()), true;
      case 's':
        return set_items(pop_some(2)), true;
      case 'u':
        return set_items(pop_to_mark()), true;
      default:
        return false;
    }
  }

  void make_long(size_t count) {
    if (count <= 8 || !opaque_) return make_integer(take_signed(count));
    (void)take(count);
    make_object({.name = "int", .arguments = {}, .state = {}});
  }

  void append(const std::vector<Index>& items) {
    if (is_object(top())) return;  // of a class made from list
    auto& list = out_.lists_[need(top(), Kind::list, "a list").place];
    list.insert(list.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<Index>& items) {
    if (is_object(top())) return;  // of a class made from dict
    auto& dict = out_.dicts_[need(top(), Kind::dict, "a dictionary").place];
    if (items.size() % 2 != 0) bad("a key without a value");
    for (size_t i = 0; i < items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  bool use_memo(uint8_t code) {
    switch (code) {
      case 'q':
        return remember(take_integer(1)), true;
      case 'r':
        return remember(take_integer(4)), true;
      case 0x94:  // MEMOIZE
        return memoize(), true;
      case 'h':
        return recall(take_integer(1)), true;
      case 'j':
        return recall(take_integer(4)), true;
      default:
        return false;
    }
  }

  bool use_object(uint8_t code) {
    switch (code) {
      case 'c': {
        const std::string_view module = take_line();
        return find_global(module, take_line()), true;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto names = pop_some(2);
        return find_global(need(names[0], Kind::text, "a module's name").text,
                           need(names[1], Kind::text, "a global's name").text),
               true;
      }
      case 'Q':
        return find_storage(pop()), true;
      case 'R': {
        const Index arguments = pop(), function = pop();
        return call(function, arguments), true;
      }
      case 'b':
        return set_state(pop()), true;
      default:
        return false;
    }
  }

  void find_global(std::string_view module, std::string_view name) {
    for (size_t i = 0; i < std::size(kGlobals); ++i) {
      if (kGlobals[i].module == module && kGlobals[i].name == name) return (void)make(Kind::global, i);
    }
    if (opaque_) {
      make(Kind::global, kOpaque).text = name;
      return;
    }
    bad("names the global {}.{}, which no dictionary of tensors needs; no code of the file was run. Save the model's "
        "state_dict() alone, or convert it with save_file() of the safetensors package",
        module.substr(0, 100), name.substr(0, 100));
  }

  /// ('storage', class, key, device, count), in old files followed by None.
  void find_storage(Index id) {
    const auto& parts = out_.lists_[need(id, Kind::list, "a storage's description").place];
    if (parts.size() < 5 || parts.size() > 6) bad("a storage is described by {} values, expected 5", parts.size());
    if (parts.size() == 6) need(parts[5], Kind::none, "no view of another storage");
    if (need(parts[0], Kind::text, "the word storage").text != "storage") bad("the word storage is expected");
    const Value& named = need(parts[1], Kind::global, "a storage's class");
    if (named.place == kOpaque) bad("{} is not a known class of storages", named.text.substr(0, 100));
    const Global& type = kGlobals[named.place];
    if (type.meaning != Meaning::storage) bad("{}.{} is not a class of storages", type.module, type.name);
    const Pickle::Storage storage{type.dtype, need(parts[2], Kind::text, "a storage's key").text,
                                  need_count(parts[4], "a storage's size")};
    make(Kind::storage, out_.storages_.size());
    out_.storages_.push_back(storage);
  }

  void call(Index function, Index arguments) {
    const Value& named = need(function, Kind::global, "something to call");
    if (named.place == kOpaque)
      return make_object({.name = named.text, .arguments = list_index(arguments), .state = {}});
    const Global& global = kGlobals[named.place];
    const std::vector<Index>& given = out_.lists_[need(arguments, Kind::list, "arguments").place];
    switch (global.meaning) {
      case Meaning::dictionary:
        if (!given.empty()) bad("an ordered dictionary with {} arguments, expected none", given.size());
        return make_dict();
      case Meaning::size:
      case Meaning::parameter:
        if (given.empty()) bad("{}.{} without arguments", global.module, global.name);
        need(given[0], global.meaning == Meaning::size ? Kind::list : Kind::tensor, "its first argument");
        return push(given[0]);
      case Meaning::tensor:
        return make_tensor(given);
      case Meaning::storage:
        bad("{}.{} is called; a storage's memory is expected in the container", global.module, global.name);
    }
  }

  // ---- objects of unknown classes

  bool is_object(Index value) const { return out_.values_[value].kind == Kind::object; }
  Index list_index(Index value) const { return need(value, Kind::list, "arguments"), value; }

  void make_object(const Pickle::Object& object) {
    make(Kind::object, out_.objects_.size());
    out_.objects_.push_back(object);
  }

  /// Sets an object's attributes, or those of an ordered dictionary: versions of modules.
  void set_state(Index state) {
    const Index value = top();
    if (is_object(value)) {
      out_.objects_[out_.values_[value].place].state = state;
    } else {
      need(value, Kind::dict, "attributes are supported for dictionaries only; one");
    }
  }

  void make_instance(Index type, Index arguments) {
    const Value& named = need(type, Kind::global, "a class");
    const std::string_view name = named.place == kOpaque ? named.text : kGlobals[named.place].name;
    make_object({.name = name, .arguments = list_index(arguments), .state = {}});
  }

  /// Opcodes of pickles with objects. Sets become lists, bytes become texts.
  bool use_opaque(uint8_t code) {
    switch (code) {
      case 0x81: {  // NEWOBJ
        const Index arguments = pop();
        return make_instance(pop(), arguments), true;
      }
      case 0x92: {  // NEWOBJ_EX: with arguments by name
        pop();
        const Index arguments = pop();
        return make_instance(pop(), arguments), true;
      }
      case 0x8b:  // LONG4
        return make_long(take_integer(4)), true;
      case 'B':
        return make_text(take_text(take_integer(4))), true;
      case 'C':
        return make_text(take_text(take_integer(1))), true;
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return make_text(take_text(take_integer(8))), true;
      case 0x8f:  // EMPTY_SET
        return make_list({}), true;
      case 0x90:  // ADDITEMS
        return append(pop_to_mark()), true;
      case 0x91:  // FROZENSET
        return make_list(pop_to_mark()), true;
      default:
        return false;
    }
  }

  /// (storage, offset, shape, strides, ...): the rest concerns training.
  void make_tensor(const std::vector<Index>& given) {
    if (given.size() < 4) bad("a tensor of {} arguments, expected at least 4", given.size());
    Pickle::Tensor tensor;
    need(given[0], Kind::storage, "a tensor's storage");
    tensor.storage = given[0];
    tensor.offset = need_count(given[1], "a tensor's offset");
    tensor.shape = sizes(given[2], "a tensor's shape");
    tensor.strides = sizes(given[3], "a tensor's strides");
    if (tensor.shape.size() != tensor.strides.size())
      bad("a tensor of {} dims has {} strides", tensor.shape.size(), tensor.strides.size());
    make(Kind::tensor, out_.tensors_.size());
    out_.tensors_.push_back(std::move(tensor));
  }

  std::vector<int64_t> sizes(Index list, const char* what) const {
    const auto& items = out_.lists_[need(list, Kind::list, what).place];
    if (items.size() > Pickle::kMaxDims)
      bad("{} has {} values, but at most {} are supported", what, items.size(), Pickle::kMaxDims);
    std::vector<int64_t> out;
    for (const Index item : items) out.push_back(static_cast<int64_t>(need_count(item, what)));
    return out;
  }

  [[noreturn]] void refuse(uint8_t code) const {
    for (const Refused& known : kRefused) {
      if (known.code == code) bad("the opcode {} is unsupported in a dictionary of tensors", known.name);
    }
    bad("0x{:02x} is not an opcode", code);
  }

  const bool opaque_;
};

Pickle::Pickle(std::span<const std::byte> bytes, std::string_view where, Classes classes) {
  PickleReader(*this, bytes.first(std::min(bytes.size(), kMaxBytes)), where, classes).run();
}

}  // namespace trireme
