#include "base/error.h"
#include "data/prepare/parquet_source.h"

namespace trireme {

std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>&) {
  fail(ErrorKind::usage,
       "{}: this build reads no Parquet: the Arrow C++ library was not found when it was configured; install it and "
       "configure again (docs/data.md says how), or convert the file to jsonl",
       path);
}

}  // namespace trireme
