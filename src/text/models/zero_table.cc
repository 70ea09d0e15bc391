#include "text/models/zero_table.h"

#include <sys/mman.h>

#include <new>

namespace trireme {

ZeroPages::ZeroPages(size_t bytes, TablePages pages) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (pages == TablePages::large) madvise(memory, bytes, MADV_HUGEPAGE);  // without it the memory is slower
  pages_ = {memory, Unmap{bytes}};
}

void ZeroPages::Unmap::operator()(void* pages) const { munmap(pages, bytes); }

}  // namespace trireme
