#pragma once
// Non-owning, contiguous, row-major tensors of at most four dims. No arithmetic: that is ops/.

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "tensor/dtype.h"

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxDims = 4;
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> sizes) {
    assert(sizes.size() <= kMaxDims);
    for (int64_t s : sizes) sizes_[dims_++] = s;
  }
  constexpr int dims() const { return dims_; }
  constexpr int64_t operator[](int dim) const { return sizes_[dim]; }
  constexpr int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < dims_; ++i) n *= sizes_[i];
    return n;
  }
  /// The same shape with another size of one dim.
  constexpr Shape with(int dim, int64_t size) const {
    assert(dim >= 0 && dim < dims_);
    Shape shape = *this;
    shape.sizes_[dim] = size;
    return shape;
  }
  constexpr bool operator==(const Shape&) const = default;
  std::string to_string() const;  ///< "[4096, 768]"

 private:
  int64_t sizes_[kMaxDims] = {};
  int dims_ = 0;
};

class Device;
namespace detail {
[[noreturn]] void refuse_host_access(const Device& device);
}

/// A view knows the device of its elements; views cut from it are on the same device.
template <bool kConst>
class BasicView {
 public:
  using Pointer = std::conditional_t<kConst, const void*, void*>;
  BasicView() = default;
  /// device: none for the host.
  BasicView(Pointer data, DType dtype, Shape shape, Device* device = nullptr)
      : data_(data), dtype_(dtype), shape_(shape), device_(device) {}
  /// View of a typed array.
  template <class T>
  requires(kConst || !std::is_const_v<T>) BasicView(std::span<T> values, Shape shape)
      : data_(values.data()), dtype_(DTypeOf<std::remove_const_t<T>>::value), shape_(shape) {
    assert(static_cast<int64_t>(values.size()) == shape.count());
  }
  /// A mutable view converts to a const one.
  template <bool kOther>
  requires(kConst && !kOther) BasicView(const BasicView<kOther>& other)
      : data_(other.data()), dtype_(other.dtype()), shape_(other.shape()), device_(other.device()) {}

  bool empty() const { return data_ == nullptr; }
  Pointer data() const { return data_; }      ///< on another device than the host: do not dereference
  Device* device() const { return device_; }  ///< none: the host
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rows() const { return shape_[0]; }                                            ///< first dim
  int64_t width() const { return shape_.dims() > 1 ? shape_.count() / shape_[0] : 1; }  ///< elements per row
  int64_t count() const { return empty() ? 0 : shape_.count(); }
  size_t bytes() const { return static_cast<size_t>(count()) * size_of(dtype_); }

  /// Typed pointer; the type must be the view's. Throws Error::shape if the elements are not on the host.
  template <class T>
  auto as() const {
    assert(DTypeOf<T>::value == dtype_);
    if (device_) detail::refuse_host_access(*device_);
    return static_cast<std::conditional_t<kConst, const T*, T*>>(data_);
  }
  template <class T>
  auto values() const {
    return std::span(as<T>(), static_cast<size_t>(count()));
  }

  /// Rows [first, first + n) of the first dim.
  BasicView rows_slice(int64_t first, int64_t n) const {
    assert(first >= 0 && n >= 0 && first + n <= shape_[0]);
    const int64_t w = width();
    auto* p = static_cast<std::conditional_t<kConst, const char*, char*>>(data_) +
              static_cast<size_t>(first * w) * size_of(dtype_);
    return {p, dtype_, shape_.with(0, n), device_};
  }
  /// Same elements, another shape of equal count.
  BasicView reshape(Shape shape) const {
    assert(shape.count() == shape_.count());
    return {data_, dtype_, shape, device_};
  }
  /// The first elements as a tensor of another shape.
  BasicView first_as(Shape shape) const {
    assert(shape.count() <= shape_.count());
    return {data_, dtype_, shape, device_};
  }

 private:
  Pointer data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
  Device* device_ = nullptr;
};

using View = BasicView<false>;
using ConstView = BasicView<true>;

}  // namespace trireme
