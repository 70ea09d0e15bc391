#include "cuda/product_choices.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme {
namespace {

template <class Array>
Array array_of(const Json& line, const char* name) {
  const Json& values = line.at(name);
  Array array{};
  require(values.is_array() && values.size() == array.size(), ErrorKind::data, "\"{}\" is not an array of {} numbers",
          name, array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    require(values[i].is_number_integer(), ErrorKind::data, "value {} of \"{}\" is not an integer", i, name);
    array[i] = values[i].get<typename Array::value_type>();
  }
  return array;
}

}  // namespace

ProductChoices::ProductChoices(std::string path, std::string gpu, int64_t library)
    : path_(std::move(path)), gpu_(std::move(gpu)), library_(library) {
  if (!std::filesystem::exists(path_)) return;
  std::istringstream text(read_text(path_, size_t{64} << 20));
  for (std::string line; std::getline(text, line);) {
    lines_.push_back(line);
    const auto refuse = [&](const char* reason) {
      fail(ErrorKind::data, "{}: line {} cannot be read: {}; delete the file, then products are timed again", path_,
           lines_.size(), reason);
    };
    try {
      const Json json = parse_json(line, "the line");
      const auto product = array_of<ProductKey>(json, "product");
      const auto algorithm = array_of<ProductAlgorithm>(json, "algorithm");
      const bool ours = json.at("gpu").get<std::string>() == gpu_ && json.at("library").get<int64_t>() == library_;
      if (ours) choices_[product] = algorithm;
    } catch (const Error& e) {
      refuse(e.what());
    } catch (const Json::exception& e) {
      refuse(e.what());
    }
  }
}

const ProductAlgorithm* ProductChoices::find(const ProductKey& product) const {
  const auto at = choices_.find(product);
  return at == choices_.end() ? nullptr : &at->second;
}

void ProductChoices::add(const ProductKey& product, const ProductAlgorithm& algorithm) {
  choices_[product] = algorithm;
  lines_.push_back(
      dump_json(Json{{"gpu", gpu_}, {"library", library_}, {"product", product}, {"algorithm", algorithm}}));
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  write_text(path_, text);
}

}  // namespace trireme
