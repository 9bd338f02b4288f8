/* The kernel byte_tiles (byte_set.h) over the tiles of one implementation (simd/tile.h).
 *
 * A row of the input is a row of a tile; a row of the packed weights, the quads of some columns, is one too. So both
 * are loaded where they are, except the end of an input row that does not fill a tile: it is copied and padded with
 * zeros, so that it does not matter what tiles of weights contain there. */
#include "cpu/quantized/bytes_results.h"
#include "inlay/check.h"
#include "simd/tile.h"

enum {
    QUADS = TILE_BYTES / 4, /* of a row of a tile */
    MOST_ROWS = 2 * TILE_ROWS,
    WIDTH = 64 /* columns of sums */
};

/* The ends of input rows. */
typedef struct row_ends {
    _Alignas(64) uint8_t bytes[MOST_ROWS][TILE_BYTES];
} row_ends;

/* Adds a step of up to QUADS quads: rows of the input from x, `step` bytes apart, by columns of the weights from w.
 * Rows are multiplied by several panels and stay in the first-level cache; the weights pass through it. */
VEC_INLINE void add_step(tile_file *s, const bool tall, const bool wide, const bool is_signed, const uint8_t *x,
                         int64_t step, const int8_t *w, int64_t line)
{
    tile_load(s, 4, x, step);
    tile_load_once(s, 6, w, line);
    if (is_signed)
        tile_dot_ss(s, 0, 4, 6);
    else
        tile_dot_us(s, 0, 4, 6);
    if (wide) {
        tile_load_once(s, 7, w + TILE_BYTES, line);
        if (is_signed)
            tile_dot_ss(s, 1, 4, 7);
        else
            tile_dot_us(s, 1, 4, 7);
    }
    if (tall) {
        tile_load(s, 5, x + TILE_ROWS * step, step);
        if (is_signed)
            tile_dot_ss(s, 2, 5, 6);
        else
            tile_dot_us(s, 2, 5, 6);
    }
    if (tall && wide) {
        if (is_signed)
            tile_dot_ss(s, 3, 5, 7);
        else
            tile_dot_us(s, 3, 5, 7);
    }
}

/* Computes the sums of all rows and of one (not `wide`) or two tiles of columns, which start `column` bytes after the
 * product's first column, and stores them in sums, whose rows are sums_step bytes apart. tall: there are more rows than
 * a tile has. */
VEC_INLINE void multiply_columns(tile_file *s, const bool tall, const bool wide, const bool is_signed,
                                 const byte_product *product, int rows, int column, row_ends *ends, char *sums,
                                 int64_t sums_step)
{
    const char *first = (const char *)product->ending.first + column;
    const int64_t line = product->lines * (int64_t)sizeof(ivec), rest = product->steps % QUADS;
    const int8_t *w = product->weights + column;

    tile_load(s, 0, first, 0);
    if (wide)
        tile_load(s, 1, first + TILE_BYTES, 0);
    if (tall)
        tile_load(s, 2, first, 0);
    if (tall && wide)
        tile_load(s, 3, first + TILE_BYTES, 0);
    for (int64_t tap = 0; tap < product->tap_count; tap++) {
        const uint8_t *x = product->input + product->taps[tap];

        for (int64_t k = QUADS; k <= product->steps; k += QUADS, x += TILE_BYTES, w += QUADS * line)
            add_step(s, tall, wide, is_signed, x, product->x_pixel, w, line);
        if (rest > 0) {
            for (int r = 0; r < rows; r++)
                memcpy(ends->bytes[r], x + r * product->x_pixel, (size_t)rest * 4);
            add_step(s, tall, wide, is_signed, ends->bytes[0], TILE_BYTES, w, line);
            w += rest * line;
        }
    }
    tile_store(s, 0, sums, sums_step);
    if (wide)
        tile_store(s, 1, sums + TILE_BYTES, sums_step);
    if (tall)
        tile_store(s, 2, sums + TILE_ROWS * sums_step, sums_step);
    if (tall && wide)
        tile_store(s, 3, sums + TILE_ROWS * sums_step + TILE_BYTES, sums_step);
}

typedef void columns_fn(tile_file *s, const byte_product *product, int rows, int column, row_ends *ends, char *sums,
                        int64_t sums_step);
#define COLUMNS(name, tall, wide, is_signed)                                                                           \
    static void name(tile_file *s, const byte_product *product, int rows, int column, row_ends *ends, char *sums,      \
                     int64_t sums_step)                                                                                \
    {                                                                                                                  \
        multiply_columns(s, tall, wide, is_signed, product, rows, column, ends, sums, sums_step);                      \
    }
COLUMNS(low_narrow_us, false, false, false)
COLUMNS(low_narrow_ss, false, false, true)
COLUMNS(low_wide_us, false, true, false)
COLUMNS(low_wide_ss, false, true, true)
COLUMNS(tall_narrow_us, true, false, false)
COLUMNS(tall_narrow_ss, true, false, true)
COLUMNS(tall_wide_us, true, true, false)
COLUMNS(tall_wide_ss, true, true, true)
#undef COLUMNS

/* Where registers keep their shapes from one call to the next, no tile of columns is narrow. */
_Static_assert(!TILE_STAYS || sizeof(ivec) == TILE_BYTES, "a line fills a tile");

/* Sets the shapes for these rows and a pair of tiles of columns, of which the second has `second` bytes in a row. */
static void set_shapes(tile_shapes *shapes, int rows, int first, int second)
{
    const int upper = rows < TILE_ROWS ? rows : TILE_ROWS, lower = rows > TILE_ROWS ? rows - TILE_ROWS : TILE_ROWS;

    second = second > 0 ? second : TILE_BYTES;
    tile_shape(shapes, 0, upper, first);
    tile_shape(shapes, 1, upper, second);
    tile_shape(shapes, 2, lower, first);
    tile_shape(shapes, 3, lower, second);
    tile_shape(shapes, 4, upper, TILE_BYTES);
    tile_shape(shapes, 5, lower, TILE_BYTES);
    tile_shape(shapes, 6, QUADS, first);
    tile_shape(shapes, 7, QUADS, second);
}

/* Stores the results of sums[rows][WIDTH], in vectors of one row, or of as many rows as fill a vector of bytes. */
VEC_INLINE void store_all(const byte_kind kind, const int lines, const byte_product *product, int rows,
                          const int32_t *sums)
{
    const int step = kind != BYTE_BYTES ? 1 : lines == 1 ? 4 : lines == 2 ? 2 : 1;
    byte_product part = *product;

    for (int r = 0; r < rows; r += step) {
        ivec sum[4][BYTE_LINES];

        VEC_UNROLL
        for (int i = 0; i < step; i++)
            VEC_UNROLL
        for (int v = 0; v < lines; v++)
            sum[i][v] = int_load(sums + (r + i) * WIDTH + v * VEC_LANES);
        if (r + step <= rows)
            store_results(kind, step, lines, &part, sum);
        else
            for (int i = 0; r + i < rows; i++, part.output = (char *)part.output + part.y_pixel)
                store_results(kind, 1, lines, &part, sum + i);
        part.output = (char *)part.output + step * part.y_pixel;
    }
}

typedef void store_fn(const byte_product *product, int rows, const int32_t *sums);
#define STORES(kind, lines)                                                                                            \
    static void store_##kind##_##lines(const byte_product *product, int rows, const int32_t *sums)                     \
    {                                                                                                                  \
        store_all(kind, lines, product, rows, sums);                                                                   \
    }
#if INT_LINES == 4
#define LINES(X, kind) X(kind, 1) X(kind, 2) X(kind, 3) X(kind, 4)
#else
#define LINES(X, kind) X(kind, 1) X(kind, 2)
#endif
LINES(STORES, BYTE_BYTES)
LINES(STORES, BYTE_FLOATS)
LINES(STORES, BYTE_SUMS)

/* Stores the results of all lines, INT_LINES of them at once. */
static void store(const byte_product *product, int rows, const int32_t *sums)
{
#define STORE(kind, lines) [kind][lines - 1] = store_##kind##_##lines,
    static store_fn *const table[][INT_LINES] = { LINES(STORE, BYTE_BYTES) LINES(STORE, BYTE_FLOATS)
                                                      LINES(STORE, BYTE_SUMS) };
#undef STORE
    const int64_t element = product->ending.kind == BYTE_BYTES ? 1 : 4;

    for (int64_t line = 0; line < product->lines; line += INT_LINES) {
        const int64_t column = line * VEC_LANES;
        byte_product part = *product;

        part.lines = product->lines - line < INT_LINES ? product->lines - line : INT_LINES;
        part.columns -= column;
        part.output = (char *)part.output + column * element;
        part.ending.scale += column;
        part.ending.shift += product->ending.kind == BYTE_FLOATS ? column : 0;
        table[part.ending.kind][part.lines - 1](&part, rows, sums + column);
    }
}

static void multiply(const byte_product *product, int rows, int *shaped)
{
    static columns_fn *const table[2][2][2] = { { { low_narrow_us, low_narrow_ss }, { low_wide_us, low_wide_ss } },
                                                { { tall_narrow_us, tall_narrow_ss },
                                                  { tall_wide_us, tall_wide_ss } } };
    _Alignas(64) int32_t sums[MOST_ROWS + 3][WIDTH]; /* the last rows: undefined sums, which store_all() reads */
    const int row_bytes = (int)product->lines * (int)sizeof(ivec);
    const bool in_place = product->ending.kind == BYTE_SUMS && product->columns * 4 == row_bytes;
    tile_shapes shapes = { 0 };
    row_ends ends;
    tile_file s;

    INLAY_CHECK(rows >= 1 && rows <= MOST_ROWS && row_bytes >= 1 && row_bytes <= WIDTH * 4);
    if (product->steps % QUADS != 0)
        memset(&ends, 0, sizeof ends);
    for (int column = 0; column < row_bytes; column += 2 * TILE_BYTES) {
        const int left = row_bytes - column, first = left < TILE_BYTES ? left : TILE_BYTES;
        const int second = left <= TILE_BYTES ? 0 : left < 2 * TILE_BYTES ? left - TILE_BYTES : TILE_BYTES;
        char *to = (in_place ? (char *)product->output : (char *)sums) + column;

        if (!TILE_STAYS || *shaped != rows) {
            set_shapes(&shapes, rows, first, second);
            tile_begin(&s, &shapes);
            *shaped = rows;
        }
        table[rows > TILE_ROWS][second > 0][product->flip](&s, product, rows, column, &ends, to,
                                                           in_place ? product->y_pixel : (int64_t)sizeof sums[0]);
    }
    if (!in_place)
        store(product, rows, sums[0]);
}

static void end(int *shaped)
{
    tile_file s;

    if (*shaped > 0)
        tile_end(&s);
    *shaped = 0;
}

const byte_tiles
    KERNEL(byte_tiles) = { .lanes = VEC_LANES, .width = WIDTH, .rows = MOST_ROWS, .multiply = multiply, .end = end };
