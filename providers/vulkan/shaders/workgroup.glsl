// The tile of a workgroup: what tiles.comp and matrices.comp share. They define TILE_ROWS and TILE_COLUMNS, A_BYTES and
// B_BYTES, SUM, the type of a sum, PACK, the number of k that are neighbours in a panel of B, CHUNK_K, the number of k in
// a chunk, and AHEAD, the number of chunks that are loaded before they are needed, each into its own set of registers.

// Copies of parameters, which compilers may not keep in registers across barriers.
uint rows, columns, k_size, taps, a_row, a_step, b_step, b_column, b_tap, out_row, out_column;
uint first_row, first_column; // of the tile
uint panel_at;                // elements from b_base to the panel of the tile
uint64_t a_base, b_base;      // addresses of the batch
uint out_base, out_push;      // element of the result, and the push constant of its address
uint group_column;            // number of columns in the groups before this one

void find_tile()
{
    rows = word(LINE) * word(LINES), columns = word(N), k_size = word(K), taps = word(TAPS);
    a_row = word(A_ROW), a_step = word(A_STEP), b_step = word(B_STEP), b_column = word(B_COLUMN), b_tap = word(B_TAP);
    out_row = word(OUT_ROW), out_column = word(OUT_COLUMN);
    const uint row_tiles = (rows + TILE_ROWS - 1u) / TILE_ROWS, column_tiles = word(PANELS);
    const uint item = min(workgroup(), word(ITEMS) - 1u), z = item / row_tiles / column_tiles;
    BATCHES(BATCH)
    const uint sibling = HAS(PRODUCT_SIBLINGS) ? z0 : 0u;

    first_row = TILE_ROWS * (HAS(PRODUCT_STRIPS_LAST) ? item / column_tiles % row_tiles : item % row_tiles);
    first_column = TILE_COLUMNS * (HAS(PRODUCT_STRIPS_LAST) ? item % column_tiles : item / row_tiles % column_tiles);
    panel_at = HAS(PRODUCT_PACKED) ? first_column / b_step * word(B_PANEL) + first_column % b_step * PACK : 0u;
    a_base = packUint2x32(at[PUSH_OWN]) + uint64_t(BATCH_AT(3u)) * A_BYTES;
    b_base = packUint2x32(at[PUSH_OWN + 1u + sibling]) + uint64_t(BATCH_AT(6u)) * B_BYTES;
    out_base = BATCH_AT(9u);
    out_push = sibling != 0u ? PUSH_OWN + 3u + sibling : PUSH_OUT;
    input_shift = sibling * word(INPUTS);
    group_column = z2 * word(GROUP);
}

// Sets `at_row` to the distance of a row of A from a_base, in elements. False: the row is in the padding at this tap.
bool find_row(uint row, uint tap, out uint at_row)
{
    at_row = row * a_row;
    if (!HAS(PRODUCT_WINDOWS))
        return true;
    const uint line = row / word(LINE), oy = line % word(OUT_SIZE + 1u), oz = line / word(OUT_SIZE + 1u);
    const uint kx = tap % word(WINDOW + 2u), ky = tap / word(WINDOW + 2u) % word(WINDOW + 1u),
               kz = tap / word(WINDOW + 2u) / word(WINDOW + 1u);
    const int x = int(row % word(LINE) * word(STRIDE + 2u) + kx * word(DILATION + 2u)) - iword(PAD_BEGIN + 2u);
    const int y = int(oy * word(STRIDE + 1u) + ky * word(DILATION + 1u)) - iword(PAD_BEGIN + 1u);
    const int z = int(oz * word(STRIDE) + kz * word(DILATION)) - iword(PAD_BEGIN);
    const bool there = x >= 0 && x < iword(IN_SIZE + 2u) && y >= 0 && y < iword(IN_SIZE + 1u) && z >= 0 &&
                       z < iword(IN_SIZE);

    at_row = there ? uint((z * iword(IN_SIZE + 1u) + y) * iword(IN_SIZE + 2u) + x) : 0u;
    return there;
}

// Loads elements k to k + CHUNK_K of a tap into a set of registers; those beyond K are 0.
void fetch(uint set, uint tap, uint k);

uint next_tap = 0u, next_k = 0u;

// Loads the next chunk, if there is one.
void fetch_next(uint set)
{
    if (next_tap >= taps)
        return;
    fetch(set, next_tap, next_k);
    next_k += CHUNK_K;
    if (next_k >= k_size) {
        next_k = 0u;
        next_tap++;
    }
}

uint count_chunks()
{
    return taps * ((k_size + CHUNK_K - 1u) / CHUNK_K);
}

// Applies the epilogue to an element of the sum and stores it, unless it is beyond the result.
void finish_sum(uint row, uint column, SUM sum)
{
    const uint i = out_base + row * out_row + column * out_column;

    program_column = group_column + column;
    if (row >= rows || column >= columns)
        return;
#ifdef BYTES
    sum += own_terms(program_column);
    if (HAS(PRODUCT_INT32)) {
        I32(at[out_push]).v[i] = sum;
        return;
    }
#endif
    store_out(at[out_push], i, program(i, float(sum) * fword(ALPHA)));
}
