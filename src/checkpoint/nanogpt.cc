#include "checkpoint/nanogpt.h"

#include <filesystem>

#include "base/json_fields.h"
#include "checkpoint/huggingface/family_config.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/torch/value.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

constexpr NameRule kNames[] = {
    {"wte.weight", "embedding.token.weight"},
    {"wpe.weight", "embedding.position.weight"},
    {"h.{}.ln_1.weight", "block.{}.norm1.weight"},
    {"h.{}.ln_1.bias", "block.{}.norm1.bias"},
    {"h.{}.attn.c_attn.weight", "block.{}.attention.qkv.weight", FileLayout::qkv_blocks},
    {"h.{}.attn.c_attn.bias", "block.{}.attention.qkv.bias", FileLayout::qkv_blocks},
    {"h.{}.attn.c_proj.weight", "block.{}.attention.out.weight"},
    {"h.{}.attn.c_proj.bias", "block.{}.attention.out.bias"},
    {"h.{}.ln_2.weight", "block.{}.norm2.weight"},
    {"h.{}.ln_2.bias", "block.{}.norm2.bias"},
    {"h.{}.mlp.c_fc.weight", "block.{}.mlp.in.weight"},
    {"h.{}.mlp.c_fc.bias", "block.{}.mlp.in.bias"},
    {"h.{}.mlp.c_proj.weight", "block.{}.mlp.out.weight"},
    {"h.{}.mlp.c_proj.bias", "block.{}.mlp.out.bias"},
    {"ln_f.weight", "norm.weight"},
    {"ln_f.bias", "norm.bias"},
};
constexpr NameRule kCopies[] = {{"lm_head.weight", "embedding.token.weight"}};
constexpr const char* kIgnored[] = {"h.{}.attn.bias"};  // causal masks, saved by torch before 2.0
constexpr const char* kPrefixes[] = {"transformer."};

Spec read_model_args(const Json& args, HeadKind, std::string_view where) {
  Spec spec;
  spec.layers = size_field(args, "n_layer", where);
  spec.heads = size_field(args, "n_head", where);
  spec.width = size_field(args, "n_embd", where);
  spec.inner_width = 4 * spec.width;
  spec.context = size_field(args, "block_size", where);
  spec.vocabulary = spec.vocabulary_rows = size_field(args, "vocab_size", where);
  const auto bias = json_field<bool>(args, "bias", where);
  spec.biases = {.qkv = bias, .attention_out = bias, .mlp_in = bias, .mlp_out = bias, .norm = bias};
  spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = rate_or(args, "dropout", 0, where);
  return spec;
}

/// Not among families(): no config.json names it.
const Family& family() {
  static const Family nanogpt{.model_type = "nanogpt",
                              .architectures = {},
                              .prefixes = kPrefixes,
                              .names = kNames,
                              .copies = kCopies,
                              .synonyms = {},
                              .ignored = kIgnored,
                              .positions = PositionRule::columns,
                              .has_padding = false,
                              .padding = -1,
                              .gamma_beta = false,
                              .expresses = [](const Spec&) { return false; },
                              .read_config = read_model_args,
                              .write_config = [](const Spec&, Json&) {},
                              .exported = [](const Spec& spec) { return spec; }};
  return nanogpt;
}

Spec spec_from_config_beside(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  require(fs::exists(folder / "config.json"), ErrorKind::data,
          "{} has no model_args with the number of heads; put the config.json of the original model beside it", path);
  const Spec spec = read_huggingface_spec(folder.empty() ? "." : folder.string());
  require(family_for(spec).model_type == gpt2_family().model_type, ErrorKind::data,
          "{}: nanoGPT's models are GPT-2 models, but the config.json beside it is for {}", path,
          family_for(spec).model_type);
  return spec;
}

}  // namespace

std::string find_nanogpt_checkpoint(const std::string& folder) {
  for (const char* name : {"ckpt.pt", "snapshot.pt"}) {
    const fs::path path = fs::path(folder) / name;
    if (fs::is_regular_file(path)) return path.string();
  }
  return {};
}

std::string find_nanogpt_meta(const std::string& path) {
  const TorchArchive archive(path);
  if (!archive.root().is_dict()) return {};
  const auto config = archive.root().find("config");
  const auto dataset = config && config->is_dict() ? config->find("dataset") : std::nullopt;
  if (!dataset) return {};
  const fs::path meta = fs::path("data") / dataset->text() / "meta.pkl";
  for (const fs::path& candidate : {meta, fs::path(path).parent_path() / ".." / meta}) {
    if (fs::is_regular_file(candidate)) return candidate.lexically_normal().string();
  }
  return {};
}

Spec read_nanogpt_spec(const std::string& path) {
  const std::string args = TorchFile(path).model_args();
  const std::string where = path + ": model_args";
  Spec spec = args.empty() ? spec_from_config_beside(path)
                           : family().read_config(parse_json(args, where), HeadKind::language_model, where);
  spec.activation = Activation::gelu_erf;
  try {
    spec.validate();
  } catch (const Error& e) {
    fail(ErrorKind::data, "{}: {}", path, e.what());
  }
  return spec;
}

void load_nanogpt(const std::string& path, const Spec& spec, const ParameterTable& table, TrainingState& state) {
  import_tensors(family(), TensorSource::of_torch_file(path), path, spec, table, MissingHead::refuse, state,
                 spec.tied_head);
}

}  // namespace trireme
