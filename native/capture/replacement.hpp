// What runs in the place of a captured kernel, as the collector says it; and which dispatches the variant is for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "capture/messages.hpp"
#include "capture/selection.hpp"

namespace kerncap::capture {

// A variable of the program that the variant uses.
struct ProgramVariable {
  std::string name;           // in the program's module
  std::string variant_name;
  std::uint64_t bytes = 0;
  bool is_const = false;
  std::vector<messages::AddressWord> words;
};

struct Replacement {
  std::string variant;    // paths
  std::string captured;   // empty: whatever code object has the kernel
  std::string symbol;
  std::uint32_t max_block_work_items = 0;
  std::array<std::uint32_t, 3> required_block{};
  std::array<std::uint32_t, 3> grid_blocks{};
  std::array<std::uint32_t, 3> block_work_items{};
  std::uint32_t dynamic_group_bytes = k_no_bytes;
  std::vector<messages::Patch> patches;
  std::vector<ProgramVariable> variables;

  explicit Replacement(const messages::Replacement& sent)
      : variant(sent.variant), captured(sent.captured), symbol(sent.symbol),
        max_block_work_items(sent.max_block_work_items), required_block(sent.required_block),
        grid_blocks(sent.grid_blocks), block_work_items(sent.block_work_items),
        dynamic_group_bytes(sent.dynamic_group_bytes), patches(sent.patches) {}

  void add(const messages::ProgramVariable& sent) {
    if (variables.empty() || variables.back().name != sent.name) {
      variables.push_back({std::string(sent.name), std::string(sent.variant_name), sent.size_bytes,
                           (sent.flags & k_variable_is_const) != 0, {}});
    }
    std::vector<messages::AddressWord>& words = variables.back().words;
    words.insert(words.end(), sent.words.begin(), sent.words.end());
  }
  // The launch of the variant where the program launches the kernel in this shape.
  [[nodiscard]] Shape launch(Shape shape) const noexcept {
    for (int axis = 0; axis < 3; ++axis) {
      const std::uint32_t blocks = grid_blocks[axis] != 0 ? grid_blocks[axis] : shape.blocks(axis);
      const bool as_it_is = grid_blocks[axis] == 0 && block_work_items[axis] == 0;
      if (block_work_items[axis] != 0) shape.block[axis] = block_work_items[axis];
      // A last block that is not whole stays so where nothing is asked for.
      if (!as_it_is) shape.grid_work_items[axis] = std::uint64_t{blocks} * shape.block[axis];
    }
    return shape;
  }
  // Whether the variant's code allows blocks of this shape.
  [[nodiscard]] bool allows(const Shape& shape) const noexcept {
    std::uint64_t work_items = 1;
    for (int axis = 0; axis < 3; ++axis) {
      work_items *= shape.block[axis];
      if (required_block[axis] != 0 && required_block[axis] != shape.block[axis]) return false;
    }
    return max_block_work_items == 0 || work_items <= max_block_work_items;
  }
};

// Counts a dispatch for which no variant ran.
inline void keep_captured(Control& control, std::size_t rule, const Shape& shape) noexcept {
  control.kept[rule].fetch_add(1, std::memory_order_relaxed);
  control.other_grid[rule].store(shape.packed_blocks(), std::memory_order_relaxed);
  control.other_block[rule].store(shape.packed_block(), std::memory_order_relaxed);
}

}  // namespace kerncap::capture
