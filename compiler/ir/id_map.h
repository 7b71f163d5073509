// A vector with an element for each value (ValueId), node (NodeIndex), input or block of a graph.
// It takes indices of any integral type, so no caller casts. REQUIRES: an index is not negative;
// callers check for kNoValue and kNoNode first.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace rondo::ir {

template <class T>
class IdMap : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  IdMap(Base elements) : Base(std::move(elements)) {}

  decltype(auto) operator[](std::integral auto id) { return Base::operator[](static_cast<std::size_t>(id)); }
  decltype(auto) operator[](std::integral auto id) const {
    return Base::operator[](static_cast<std::size_t>(id));
  }
};

}  // namespace rondo::ir
