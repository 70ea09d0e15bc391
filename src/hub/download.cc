#include "hub/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "base/text.h"
#include "hub/cache.h"
#include "hub/digest.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

uint64_t size_on_disk(const std::string& path) {
  std::error_code none;
  const uint64_t bytes = fs::file_size(path, none);
  return none ? 0 : bytes;
}

/// Reads "bytes FROM-TO/TOTAL" of a part; false for another format.
bool read_range(const std::string& text, uint64_t& from, uint64_t& total) {
  const char* const end = text.data() + text.size();
  if (!text.starts_with("bytes ")) return false;
  const auto [dash, first] = std::from_chars(text.data() + 6, end, from);
  const size_t slash = text.find('/');
  if (first != std::errc() || dash == end || *dash != '-' || slash == text.npos) return false;
  const auto [last, second] = std::from_chars(text.data() + slash + 1, end, total);
  return second == std::errc() && last == end;
}

/// The file HASH.incomplete, which grows over attempts.
class PartialFile final : public Receiver {
 public:
  PartialFile(std::string path, const RemoteFile& file, Meter& meter)
      : path_(std::move(path)), file_(file), meter_(meter), fd_(open_for_writing(path_, O_RDWR | O_CREAT)) {
    require(fd_ >= 0, ErrorKind::io, "cannot create {}: {}", path_, std::strerror(errno));
    have_ = size_on_disk(path_);
    if (have_ > file_.bytes) restart();
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() override {
    if (fd_ >= 0) close(fd_);
  }

  uint64_t have() override { return have_; }

  void begin(const Answer& answer) override {
    uint64_t total = 0, from = 0;
    if (answer.status == 206) {
      const std::string range = answer.header("content-range");
      const bool good = read_range(range, from, total) && from == have_;
      require(good, ErrorKind::data, "{} was asked for bytes from {} on but answers \"{}\"", answer.url.shown(), have_,
              range);
    } else {
      if (have_ > 0) restart();  // it does not support ranges
      const std::string length = answer.header("content-length");
      if (length.empty()) return;  // counted on arrival
      std::from_chars(length.data(), length.data() + length.size(), total);
    }
    require(total == file_.bytes, ErrorKind::data, "{}: {} bytes, expected {} as announced by the hub",
            answer.url.shown(), total, file_.bytes);
  }

  void take(std::span<const std::byte> bytes) override {
    require(bytes.size() <= file_.bytes - have_, ErrorKind::data, "{}: more bytes than the {} that the hub announced",
            file_.path, file_.bytes);
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(have_));
      if (written < 0 && errno == EINTR) continue;
      require(written > 0, ErrorKind::io, "cannot write {} after {}: {}; the same command resumes from these bytes",
              path_, human_bytes(have_), reason_of_write(errno));
      have_ += static_cast<uint64_t>(written);
      meter_.add(static_cast<uint64_t>(written));
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  bool whole() override { return have_ == file_.bytes; }

  void restart() {
    meter_.take_back(have_);
    have_ = 0;
    require(ftruncate(fd_, 0) == 0, ErrorKind::io, "cannot truncate {}: {}", path_, std::strerror(errno));
  }

  std::string hash() const {
    Digest digest(file_.hash, file_.bytes);
    std::vector<std::byte> buffer(std::min<uint64_t>(kReadBytes, std::max<uint64_t>(file_.bytes, 1)));
    for (uint64_t at = 0; at < have_;) {
      const ssize_t got = pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(at));
      require(got > 0, ErrorKind::io, "cannot read {}: {}", path_,
              got < 0 ? std::strerror(errno) : "unexpected end of file");
      digest.add(std::span(buffer).first(static_cast<size_t>(got)));
      at += static_cast<uint64_t>(got);
    }
    return digest.finish();
  }

  void publish(const std::string& path) {
    const bool done = fsync(fd_) == 0 && std::rename(path_.c_str(), path.c_str()) == 0;
    require(done, ErrorKind::io, "cannot publish {}: {}", path, std::strerror(errno));
    sync_folder(fs::path(path).parent_path().string());
  }

 private:
  std::string path_;
  const RemoteFile& file_;
  Meter& meter_;
  int fd_;
  uint64_t have_ = 0;
};

/// Fetches all bytes of the file without checking them.
void fill(const Transfer& transfer, const Url& url, const RemoteFile& file, PartialFile& partial) {
  for (bool anew = false; !partial.whole();) {
    const Answer answer = transfer.http.get(url, partial);
    if (answer.status == 416 && !anew) {  // it is shorter than the bytes fetched before
      partial.restart();
      anew = true;
      continue;
    }
    require_success(answer, transfer.settings, transfer.repository, file.path);
  }
}

}  // namespace

uint64_t missing_bytes(const Cache& cache, const RemoteFile& file) {
  std::error_code none;
  if (fs::exists(cache.blob(file.hash), none)) return 0;
  const uint64_t begun = size_on_disk(cache.incomplete(file.hash));
  return begun > file.bytes ? file.bytes : file.bytes - begun;
}

void download(const Transfer& transfer, const std::string& commit, const RemoteFile& file, Meter& meter,
              const std::function<void()>& waiting) {
  const std::string blob = transfer.cache.blob(file.hash);
  std::error_code none;
  if (fs::exists(blob, none)) return;
  make_cache_folder(fs::path(blob).parent_path().string());
  const FileLock lock(transfer.cache.lock(file.hash), waiting);
  if (fs::exists(blob, none)) return;
  meter.set_file(file.path);
  const std::string incomplete = transfer.cache.incomplete(file.hash);
  const Url url = file_url(transfer.settings, transfer.repository, commit, file.path);
  for (int wrong = 0;;) {
    PartialFile partial(incomplete, file, meter);
    const uint64_t begun = partial.have();
    if (begun > 0) log::info_all("{}: resuming after {} of {}", file.path, human_bytes(begun), human_bytes(file.bytes));
    fill(transfer, url, file, partial);
    const std::string hash = partial.hash();
    if (hash == file.hash) return partial.publish(blob);
    partial.restart();
    fs::remove(incomplete, none);
    if (begun == 0) ++wrong;  // bytes of an earlier attempt may be wrong
    require(wrong < 2, ErrorKind::data,
            "{}: the contents have the hash {}, but the hub announced {}; fetched twice, both discarded", url.shown(),
            hash, file.hash);
    log::warning("{}: the contents have the hash {}, but the hub announced {}; fetching it again", file.path, hash,
                 file.hash);
  }
}

}  // namespace trireme::hub
