// Which rows a block of a grouped product's kernel has: ops/grouped_mm/grouped_mm.cu.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

struct RunTile {
  std::int64_t run;         // `experts`: the rows behind the last end; one more: there are fewer tiles
  std::int64_t begin, end;  // rows
};

// No run begins a tile in the middle of another, so each may end with a tile that is not full.
RONDO_DEVICE constexpr std::int64_t most_run_tiles(std::int64_t rows, std::int64_t experts,
                                                   std::int64_t tile_rows) {
  return rows / tile_rows + experts + 1;
}

// The index-th tile, of at most `tile_rows` rows, of runs that end at ends[0 .. experts) and of the rows behind them.
RONDO_DEVICE inline RunTile run_tile(const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                                     std::int64_t tile_rows, std::int64_t index) {
  std::int64_t begin = 0;
  for (std::int64_t run = 0; run <= experts; ++run) {
    const std::int64_t end = run < experts ? ends[run] : rows;
    const std::int64_t tiles = (end - begin + tile_rows - 1) / tile_rows;
    if (index < tiles) {
      const std::int64_t first = begin + index * tile_rows;
      return {run, first, first + tile_rows < end ? first + tile_rows : end};
    }
    index -= tiles;
    begin = end;
  }
  return {experts + 1, rows, rows};
}

}  // namespace rondo
