#include "comm/collectives.h"

namespace trireme {

size_t size_of(Element element) {
  switch (element) {
    case Element::i8:
    case Element::u8:
      return 1;
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::i32:
    case Element::u32:
    case Element::f32:
      return 4;
    default:
      return 8;
  }
}

}  // namespace trireme
