/* Packing and the loops around the tiles, see terms.h. Rows and k are divided so that the terms of a block of A, and a
 * panel of B, stay in the second-level cache. */
#include "cpu/matrix/terms.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(terms_of_cpu, "cpu_product cpu_conv");
OPTIONAL_WITH(terms_run, "cpu_product cpu_conv");
OPTIONAL_WITH(terms_split_b, "cpu_product cpu_conv");
OPTIONAL_WITH(terms_multiply, "cpu_product cpu_conv");

/* NOTES: floats of a pack that describe a panel: whether its columns are in range, whether it has numbers that are not
 * integers, the largest evenness of its columns, and how many of TERMS terms are 0 in all elements. */
enum { NOTES = 16 * TERMS, FITS = 0, BROKEN, PEAK, SPREAD, SPARE };

const terms_set *terms_of_cpu(void)
{
#if defined(__x86_64__) && !defined(SIMD_ONLY)
    return &terms_amx != NULL && cpu_uniform() == CPU_UNIFORM_NO && tile_problem() == NULL ? &terms_amx : NULL;
#else
    return NULL;
#endif
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t terms_panels(int64_t n)
{
    return ceil_div(n, TERMS_WIDTH);
}

static int64_t panel_words(int64_t k, int terms)
{
    return ceil_div(k, TERMS_DEPTH) * terms * TERMS_LOW;
}

/* Words from one tile of a term to the other. */
static int64_t tile_step(int terms)
{
    return terms == 1 ? TERMS_TILE : 2 * TERMS_TILE;
}

/* The notes of the panels follow the panels. */
int64_t terms_pack_floats(int64_t k, int64_t n, int terms)
{
    return terms_panels(n) * (panel_words(k, terms) + NOTES);
}

/* Bits of magnitudes are in the order of the magnitudes. */
static bool in_range(uint32_t top)
{
    const float limits[] = { TERMS_LEAST, TERMS_MOST };
    uint32_t bits[2];

    memcpy(bits, limits, sizeof bits);
    return top == 0 || (top >= bits[0] && top <= bits[1]);
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* How even magnitudes are. */
struct evenness {
    float peak;   /* the largest relative to the mean */
    float spread; /* the mean square relative to the square of the mean */
};

static void join_evenness(struct evenness *to, terms_size size, int64_t k)
{
    const float mean = size.sum / (float)k;

    if (size.sum == 0)
        return;
    to->peak = fmaxf(to->peak, float_of(size.top) / mean);
    to->spread = fmaxf(to->spread, size.squares / (float)k / (mean * mean));
}

/* The bits of the next term of x, and the rest. */
static uint32_t take_term(float *x)
{
    uint32_t bits;

    memcpy(&bits, x, sizeof bits);
    bits = (bits + 0x8000) & 0xffff0000;
    *x -= float_of(bits);
    return bits;
}

/* Row k of `columns` columns from `first` on. */
static void read_row(const terms_matrix *matrix, int64_t k, int64_t first, int64_t columns, float *out)
{
    const int64_t tap = k / matrix->inner;
    const int64_t at = k % matrix->inner * matrix->inner_step + tap % matrix->columns * matrix->column_step +
                       tap / matrix->columns * matrix->row_step + first * matrix->n_step;
    const char *from = (const char *)matrix->data + at * (int64_t)sizeof *out;

    for (int64_t j = 0; j < columns; j++)
        memcpy(out + j, from + j * matrix->n_step * (int64_t)sizeof *out, sizeof *out);
}

/* The upper and the lower halves of the floats of a panel, where their two upper terms will be. Floats of one term have
 * only upper halves. */
static void pack_halves(const terms_matrix *matrix, int terms, int64_t first, uint32_t *out,
                        terms_size sizes[TERMS_WIDTH], bool *out_broken)
{
    const int64_t columns = least_of(matrix->n - first, TERMS_WIDTH), next = tile_step(terms);
    int broken = 0;

    for (int64_t k = 0; k < matrix->k; k++) {
        const int shift = k % TERMS_DEPTH < 16 ? 0 : 16;
        float row[TERMS_WIDTH] = { 0 };

        read_row(matrix, k, first, columns, row);
        for (int half = 0; half < 2; half++) {
            uint32_t *at = out + k / TERMS_DEPTH * 2 * next + half * next + k % 16 * 16;

            for (int j = 0; j < 16; j++) {
                terms_size *size = &sizes[half * 16 + j];
                uint32_t bits;

                memcpy(&bits, &row[half * 16 + j], sizeof bits);
                at[j] |= bits >> 16 << shift;
                if (terms > 1)
                    at[TERMS_TILE + j] |= (bits & 0xffff) << shift;
                size->any |= bits;
                bits &= INT32_MAX;
                size->top = bits > size->top ? bits : size->top;
                size->sum += float_of(bits);
                size->squares += float_of(bits) * float_of(bits);
                broken |= rintf(row[half * 16 + j]) != row[half * 16 + j];
            }
        }
    }
    *out_broken = broken != 0;
}

/* Replaces the halves of a tile of floats by their terms. low: NULL if the lowest ones are 0. */
static void make_terms(uint32_t *restrict high, uint32_t *restrict middle, uint32_t *restrict low)
{
#pragma omp simd
    for (int i = 0; i < TERMS_TILE; i++) {
        float x = float_of(high[i] << 16 | (middle[i] & 0xffff)),
              y = float_of((high[i] & 0xffff0000) | middle[i] >> 16);

        high[i] = take_term(&x) >> 16 | take_term(&y);
        middle[i] = take_term(&x) >> 16 | take_term(&y);
        if (low != NULL)
            low[i] = take_term(&x) >> 16 | take_term(&y);
    }
}

/* A panel that is not in range keeps its halves: tiles do not multiply it. */
static void pack_panel(const terms_matrix *matrix, int terms, int64_t first, uint32_t *out, float *notes)
{
    const int64_t steps = ceil_div(matrix->k, TERMS_DEPTH);
    uint32_t *low = out + steps * TERMS_HIGH, any = 0;
    terms_size sizes[TERMS_WIDTH] = { { 0 } };
    struct evenness even = { 0 };
    bool broken;

    memset(notes, 0, NOTES * sizeof *notes);
    memset(out, 0, (size_t)panel_words(matrix->k, terms) * sizeof *out);
    pack_halves(matrix, terms, first, out, sizes, &broken);
    notes[FITS] = 1;
    for (int j = 0; j < TERMS_WIDTH; j++) {
        notes[FITS] = in_range(sizes[j].top) ? notes[FITS] : 0;
        join_evenness(&even, sizes[j], matrix->k);
        any |= sizes[j].any;
    }
    INLAY_CHECK(terms_of_bits(any) <= terms);
    notes[BROKEN] = broken;
    notes[PEAK] = even.peak;
    notes[SPREAD] = even.spread;
    notes[SPARE] = (float)(TERMS - terms_of_bits(any));
    for (int64_t tile = 0; terms > 1 && notes[FITS] != 0 && tile < 2 * steps; tile++, out += 2 * TERMS_TILE)
        make_terms(out, out + TERMS_TILE, terms == TERMS ? low + tile * TERMS_TILE : NULL);
}

void terms_pack(const terms_matrix *matrix, int terms, int64_t begin, int64_t end, float *target)
{
    const int64_t words = panel_words(matrix->k, terms);
    float *notes = target + terms_panels(matrix->n) * words;

    for (int64_t panel = begin; panel < end; panel++)
        pack_panel(matrix, terms, panel * TERMS_WIDTH, (uint32_t *)(void *)target + panel * words,
                   notes + panel * NOTES);
}

/* The floats of row k of a panel of `terms` terms. fits: it has terms; otherwise halves. */
static void join_row(const uint32_t *panel, int terms, int64_t k, int64_t k_count, bool fits, float out[TERMS_WIDTH])
{
    const int64_t next = tile_step(terms);
    const uint32_t *high = panel + k / TERMS_DEPTH * 2 * next + k % 16 * 16,
                   *low =
                       panel + ceil_div(k_count, TERMS_DEPTH) * TERMS_HIGH + k / TERMS_DEPTH * TERMS_LOW + k % 16 * 16;
    const int shift = k % TERMS_DEPTH < 16 ? 16 : 0;

    for (int j = 0; j < TERMS_WIDTH; j++) {
        const uint32_t *at = high + j / 16 * next + j % 16;
        const uint32_t first = at[0] << shift & 0xffff0000,
                       second = terms > 1 ? at[TERMS_TILE] << shift & 0xffff0000 : 0,
                       third = terms == TERMS ? low[j / 16 * TERMS_TILE + j % 16] << shift & 0xffff0000 : 0;

        out[j] = fits ? float_of(third) + float_of(second) + float_of(first) : float_of(first | second >> 16);
    }
}

/* The number of terms of B that are read. */
static int terms_read(int64_t k, int b_terms, bool strict)
{
    return terms_are_three(k, strict) && b_terms == TERMS ? TERMS - 1 : b_terms;
}

double terms_bytes(int64_t k, int b_terms, bool strict)
{
    return 2.0 * terms_read(k, b_terms, strict);
}

/* The number of products of the terms of A, which may be three, by those of B. */
static int product_count(int64_t k, int b_terms, bool strict)
{
    static const int six[] = { 3, 5, 6 };

    return terms_are_three(k, strict) ? (b_terms == 1 ? 2 : 3) : six[b_terms - 1];
}

/* Sizes are rounded up to those of tiles. Each run makes the terms of A. */
double terms_ns(int64_t m, int64_t n, int64_t k, int b_terms, bool strict, double tile_pace)
{
    const double tiles = terms_are_three(k, strict) ? 1860 : 2100; /* FLOP of one product of terms in a nanosecond */
    const double split = 7, stored = 20;                           /* elements of A and of C */
    const double rows = (double)(ceil_div(m, TERMS_ROWS) * TERMS_ROWS),
                 columns = (double)(terms_panels(n) * TERMS_WIDTH),
                 depth = (double)(ceil_div(k, TERMS_DEPTH) * TERMS_DEPTH);

    return 2 * rows * columns * depth * product_count(k, b_terms, strict) / tiles * tile_pace + rows * depth / split +
           rows * columns / stored;
}

static int64_t row_blocks(const sgemm_job *job)
{
    return ceil_div(job->m, TERMS_BLOCK);
}

void terms_share(sgemm_job *job, uint32_t threads)
{
    const int64_t panels = terms_panels(job->n), shares = row_blocks(job) < 2 * (int64_t)threads ? threads : 1;

    job->width = ceil_div(panels, least_of(shares, panels)) * TERMS_WIDTH;
}

int64_t terms_units(const sgemm_job *job)
{
    return row_blocks(job) * ceil_div(job->n, job->width);
}

/* The most elements of k that are added to one sum in a row. */
static int64_t chain_of(const sgemm_job *job)
{
    return job->chain > 0 ? TERMS_STRICT_CHAIN : TERMS_CHAIN;
}

/* k is divided into `parts` parts of about the same number of tiles. */
static int64_t part_begin(int64_t k, int64_t part, int64_t parts)
{
    return least_of(ceil_div(k, TERMS_DEPTH) * part / parts * TERMS_DEPTH, k);
}

static int64_t block_rows(const sgemm_job *job)
{
    return least_of(ceil_div(job->m, TERMS_ROWS) * TERMS_ROWS, TERMS_BLOCK);
}

/* Scratch: the terms of a block of rows; and either a strip of results, or the floats of a panel. */
static int64_t strip_floats(const sgemm_job *job)
{
    return block_rows(job) / TERMS_ROWS * panel_words(least_of(job->k, chain_of(job)), TERMS);
}

int64_t terms_scratch_floats(const sgemm_job *job)
{
    const int64_t rest = (job->k > TERMS_ROWS ? job->k : TERMS_ROWS) * TERMS_WIDTH;

    return strip_floats(job) + rest;
}

/* The epilogue for `rows` rows and the columns of a panel. */
static void finish(const sgemm_job *job, int64_t row, int64_t rows, int64_t at)
{
    const int64_t cols = least_of(job->n - at, TERMS_WIDTH);
    float *c = job->c + row * job->c_row + at;

    if (job->bias != NULL)
        job->kernel->post(&(sgemm_post){ .fn = SGEMM_ADD, .other = job->bias + at, .col = 1 }, c, job->c_row, rows,
                          cols);
    for (uint32_t i = 0; i < job->post_count; i++) {
        sgemm_post post = job->posts[i];

        if (post.other != NULL)
            post.other += row * post.row + at * post.col;
        job->kernel->post(&post, c, job->c_row, rows, cols);
    }
}

/* The magnitudes of a strip of A. */
struct strip_facts {
    bool fits;
    int terms;            /* of each number, at most */
    struct evenness even; /* the largest of its rows' */
};

static struct strip_facts measure_strip(const terms_set *set, const float *a, int64_t a_row, int64_t rows, int64_t k)
{
    struct strip_facts out = { .fits = true };
    uint32_t any = 0;

    for (int64_t r = 0; r < rows; r++) {
        const terms_size size = set->measure(a + r * a_row, k);

        out.fits = out.fits && in_range(size.top);
        join_evenness(&out.even, size, k);
        any |= size.any;
    }
    out.terms = terms_of_bits(any);
    return out;
}

static const float *notes_of(const sgemm_job *job)
{
    return job->b + terms_panels(job->n) * panel_words(job->k, job->b_terms);
}

static bool matrix_fits(const sgemm_job *job)
{
    for (int64_t panel = 0; panel < terms_panels(job->n); panel++)
        if (notes_of(job)[panel * NOTES + FITS] == 0)
            return false;
    return true;
}

/* True if three products of the terms are enough. */
static bool is_even(const sgemm_job *job, struct evenness rows, int64_t panel)
{
    const float *notes = notes_of(job) + panel * NOTES;
    const float k = (float)job->k;

    return terms_are_three(job->k, job->chain != 0) && notes[BROKEN] != 0 &&
           TERMS_EVEN * rows.spread * notes[SPREAD] <= k && TERMS_PEAKS * rows.peak * notes[PEAK] <= k;
}

/* Multiplies `strips` strips, from row `row` on, by elements [k0, k1) of a panel. A strip or a panel that is cut at the
 * last row or column has its result in scratch memory first. */
static void multiply_strips(const terms_set *set, const sgemm_job *job, const uint32_t *terms, int a_terms, bool three,
                            int64_t row, int64_t strips, int64_t panel, int64_t k0, int64_t k1, float *scratch)
{
    const int64_t at = panel * TERMS_WIDTH, cols = least_of(job->n - at, TERMS_WIDTH),
                  rows = least_of(job->m - row, strips * TERMS_ROWS);
    const int64_t whole = cols == TERMS_WIDTH ? rows / TERMS_ROWS : 0;
    const size_t bytes = (size_t)cols * sizeof(float);
    const int64_t next = tile_step(job->b_terms);
    const uint32_t *b = (const uint32_t *)(const void *)job->b + panel * panel_words(job->k, job->b_terms);
    terms_block block = { .a = terms,
                          .b = b + k0 / TERMS_DEPTH * 2 * next,
                          .b_low = job->b_terms == TERMS
                                       ? b + ceil_div(job->k, TERMS_DEPTH) * TERMS_HIGH + k0 / TERMS_DEPTH * TERMS_LOW
                                       : b,
                          .b_next = next,
                          .strips = whole,
                          .steps = ceil_div(k1 - k0, TERMS_DEPTH),
                          .a_terms = a_terms,
                          .b_terms = TERMS - (int)notes_of(job)[panel * NOTES + SPARE],
                          .three = three,
                          .add = k0 > 0 || job->add,
                          .c = job->c + row * job->c_row + at,
                          .c_row = job->c_row };

    if (whole > 0)
        set->multiply(&block);
    block.c = scratch;
    block.c_row = TERMS_WIDTH;
    block.strips = 1;
    for (int64_t strip = whole; strip < strips; strip++) {
        const int64_t count = least_of(rows - strip * TERMS_ROWS, TERMS_ROWS);
        float *c = job->c + (row + strip * TERMS_ROWS) * job->c_row + at;

        block.a = terms + strip * panel_words(k1 - k0, TERMS);
        for (int64_t r = 0; block.add && r < count; r++)
            memcpy(scratch + r * TERMS_WIDTH, c + r * job->c_row, bytes);
        set->multiply(&block);
        for (int64_t r = 0; r < count; r++)
            memcpy(c + r * job->c_row, scratch + r * TERMS_WIDTH, bytes);
    }
    if (k1 == job->k)
        finish(job, row, rows, at);
}

/* Multiplies a strip whose numbers have no terms by panels [j0, j1). */
static void multiply_floats(const sgemm_job *job, int64_t row, int64_t j0, int64_t j1, float *scratch)
{
    for (int64_t j = j0; j < j1; j++) {
        const int64_t at = j * TERMS_WIDTH;
        sgemm_job some = *job;

        for (int64_t k = 0; k < job->k; k++)
            join_row((const uint32_t *)(const void *)job->b + j * panel_words(job->k, job->b_terms), job->b_terms, k,
                     job->k, notes_of(job)[j * NOTES + FITS] != 0, scratch + k * TERMS_WIDTH);
        some.m = least_of(job->m - row, TERMS_ROWS);
        some.n = least_of(job->n - at, TERMS_WIDTH);
        some.a += row * job->a_row;
        some.b = scratch;
        some.width = some.b_step = TERMS_WIDTH;
        some.b_panel = TERMS_WIDTH * job->k;
        some.c += row * job->c_row + at;
        some.blocks = 0;
        some.bias = NULL; /* finish() adds it */
        some.post_count = 0;
        sgemm_run(&some, 0, sgemm_units(&some));
        finish(job, row, some.m, at);
    }
}

/* Multiplies the rows [i0, i1) of a block by panels [j0, j1). */
static void run_block(const terms_set *set, const sgemm_job *job, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                      float *scratch)
{
    const int64_t parts = ceil_div(job->k, chain_of(job)), count = ceil_div(i1 - i0, TERMS_ROWS);
    uint32_t *terms = (uint32_t *)(void *)scratch;
    float *rest = scratch + strip_floats(job);
    const bool fits = matrix_fits(job);
    struct strip_facts strips[TERMS_BLOCK / TERMS_ROWS];

    INLAY_CHECK(count <= TERMS_BLOCK / TERMS_ROWS);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i0 + i * TERMS_ROWS;

        strips[i] = measure_strip(set, job->a + row * job->a_row, job->a_row, least_of(i1 - row, TERMS_ROWS), job->k);
        strips[i].fits = strips[i].fits && fits;
        if (!strips[i].fits)
            multiply_floats(job, row, j0, j1, rest);
    }
    for (int64_t part = 0; part < parts; part++) {
        const int64_t k0 = part_begin(job->k, part, parts), k1 = part_begin(job->k, part + 1, parts);
        const int64_t words = panel_words(k1 - k0, TERMS);

        for (int64_t i = 0; i < count; i++) {
            const int64_t row = i0 + i * TERMS_ROWS;

            if (strips[i].fits)
                set->split(job->a + row * job->a_row + k0, job->a_row, least_of(i1 - row, TERMS_ROWS), k1 - k0,
                           strips[i].terms, terms + i * words);
        }
        for (int64_t j = j0; j < j1; j++)
            for (int64_t i = 0, end; i < count; i = end) {
                const bool three = is_even(job, strips[i].even, j);

                for (end = i + 1; end < count && strips[end].fits == strips[i].fits &&
                                  strips[end].terms == strips[i].terms && is_even(job, strips[end].even, j) == three;)
                    end++;
                if (strips[i].fits)
                    multiply_strips(set, job, terms + i * words, strips[i].terms, three, i0 + i * TERMS_ROWS, end - i,
                                    j, k0, k1, rest);
            }
    }
}

void terms_run(const terms_set *set, const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    const int64_t chunks = ceil_div(job->n, job->width), chunk = job->width / TERMS_WIDTH;

    INLAY_CHECK(job->width > 0 && job->width % TERMS_WIDTH == 0);
    while (begin < end) {
        const int64_t block = begin / chunks, first = begin % chunks, last = least_of(first + end - begin, chunks);

        run_block(set, job, block * TERMS_BLOCK, least_of((block + 1) * TERMS_BLOCK, job->m), first * chunk,
                  least_of(last * chunk, terms_panels(job->n)), scratch);
        begin += last - first;
    }
}

int64_t terms_b_words(int64_t k, int64_t n)
{
    return terms_panels(n) * panel_words(k, TERMS);
}

bool terms_split_b(const terms_set *set, const float *b, int64_t b_row, int64_t k, int64_t n, uint32_t *out)
{
    bool fits = true;

    for (int64_t j = 0; j < n; j += TERMS_WIDTH, out += panel_words(k, TERMS)) {
        uint32_t top[TERMS_WIDTH];

        set->split_panel(b + j, b_row, k, least_of(n - j, TERMS_WIDTH), out, top);
        for (int i = 0; i < TERMS_WIDTH; i++)
            fits = fits && in_range(top[i]);
    }
    return fits;
}

int64_t terms_room_words(int64_t m, int64_t k)
{
    return ceil_div(m, TERMS_ROWS) * panel_words(least_of(k, TERMS_CHAIN), TERMS);
}

uint32_t terms_multiply(const terms_set *set, const terms_product *product)
{
    const int64_t k = product->k, strips = ceil_div(product->m, TERMS_ROWS),
                  parts = ceil_div(k, product->strict ? TERMS_STRICT_CHAIN : TERMS_CHAIN);
    uint32_t unfit = 0;

    INLAY_CHECK(strips <= TERMS_MOST_STRIPS && k <= product->b_depth);
    for (int64_t part = 0; part < parts; part++) {
        const int64_t k0 = part_begin(k, part, parts), k1 = part_begin(k, part + 1, parts);

        for (int64_t i = 0; i < strips; i++) {
            const float *a = product->a + i * TERMS_ROWS * product->a_row;
            const int64_t rows = least_of(product->m - i * TERMS_ROWS, TERMS_ROWS);

            if (part == 0 && !product->fits && !measure_strip(set, a, product->a_row, rows, k).fits)
                unfit |= (uint32_t)1 << i;
            set->split(a + k0, product->a_row, rows, k1 - k0, TERMS, product->room + i * panel_words(k1 - k0, TERMS));
        }
        for (int64_t j = 0; j < terms_panels(product->n); j++) {
            const uint32_t *b = product->b + j * panel_words(product->b_depth, TERMS);

            set->multiply(&(terms_block){ .a = product->room,
                                          .b = b + k0 / TERMS_DEPTH * TERMS_HIGH,
                                          .b_low = b + ceil_div(product->b_depth, TERMS_DEPTH) * TERMS_HIGH +
                                                   k0 / TERMS_DEPTH * TERMS_LOW,
                                          .b_next = tile_step(TERMS),
                                          .strips = strips,
                                          .steps = ceil_div(k1 - k0, TERMS_DEPTH),
                                          .a_terms = TERMS,
                                          .b_terms = TERMS,
                                          .add = part > 0,
                                          .c = product->c + j * TERMS_WIDTH,
                                          .c_row = product->c_row });
        }
    }
    return unfit;
}
