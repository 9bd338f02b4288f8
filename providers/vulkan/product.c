/* Matrix multiplications (mat_mul.c, integers.c) and convolutions (conv.c): dispatches of shaders/product.comp on CPU
 * drivers, of shaders/tiles.comp and shaders/matrices.comp on GPUs. */
#include "inlay/check.h"
#include "vulkan/region.h"

enum { MAX_TILE_ROWS = 12 };

static bool are_multiples(const int64_t *list, size_t count, int64_t of)
{
    bool are = true;

    for (size_t i = 0; i < count; i++)
        are = are && list[i] % of == 0;
    return are;
}

static bool shuffles(const vulkan_build *build)
{
    return build->device->facts.shuffles && !vulkan_scalar_loads(build);
}

/* The number of rows per strip. The last strip of a line overlaps the strip before, so some rows are computed twice;
 * the overhead of each strip is worth about two rows. */
static uint32_t rows_per_strip(const vulkan_build *build, int64_t line)
{
    const gpu_facts *facts = &build->device->facts;
    const uint32_t most = shuffles(build) ? facts->subgroup : MAX_TILE_ROWS;
    uint32_t best = 1;
    double best_cost = 1e300;

    INLAY_CHECK(line > 0);
    for (uint32_t r = 1; r <= most && r <= line; r++) {
        const double cost = (double)((line + r - 1) / r) * (r + 2);

        if (cost <= best_cost) {
            best = r;
            best_cost = cost;
        }
    }
    return best;
}

vulkan_product vulkan_product_of(int64_t rows, int64_t k, int64_t n)
{
    return (vulkan_product){ .line = rows,
                             .lines = 1,
                             .n = n,
                             .k = k,
                             .taps = 1,
                             .a_row = k,
                             .a_step = 1,
                             .b_step = n,
                             .b_column = 1,
                             .out_row = n,
                             .out_column = 1,
                             .batch = { 1, 1, 1 },
                             .alpha = 1 };
}

void vulkan_product_batches(vulkan_product *product, const int64_t batch[3])
{
    int64_t step = product->line * product->lines * product->n;

    for (uint32_t i = 3; i-- > 0; step *= batch[i]) {
        product->batch[i] = batch[i];
        product->out_batch[i] = step;
    }
}

bool vulkan_merge_batches(uint32_t rank, const int64_t *dims, uint32_t tensors, int64_t *const *strides_of,
                          int64_t *batch, int64_t *const *out)
{
    int64_t sizes[VULKAN_RANK];
    uint32_t merged;

    memcpy(sizes, dims, rank * sizeof *dims);
    merged = vulkan_merge_dims(rank, sizes, tensors, strides_of);
    if (merged > 3)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const bool exists = i + merged >= 3;

        batch[i] = exists ? sizes[i + merged - 3] : 1;
        for (uint32_t t = 0; t < tensors; t++)
            out[t][i] = exists ? strides_of[t][i + merged - 3] : 0;
    }
    return true;
}

/* Products of 8-bit integers: the inputs of the operator that are no factors. */
static void set_integers(const vulkan_op *op, const vulkan_program *program, vulkan_product *product)
{
    const bool is_linear = op->row->number == 3; /* QLinearMatMul and QLinearConv have a scale before a zero point */

    product->integers = true;
    product->int32 = program->arithmetic == VULKAN_INTEGER;
    product->a_zero = vulkan_input_value(op, 2);
    product->b_zero = vulkan_input_value(op, is_linear ? 5 : 3);
    product->bias = is_linear ? vulkan_input_value(op, 8) : INLAY_NONE;
}

/* Adds operand k of a product of integers, unless it is omitted. */
static uint32_t add_integer(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, uint32_t value, uint32_t flag)
{
    if (value != INLAY_NONE)
        vulkan_add_value_operand(build, dispatch, PUSH_OWN + k, value, false);
    return value != INLAY_NONE ? flag : 0;
}

/* The flags of a product of integers; adds the operands that they announce. */
static uint32_t integer_flags(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_product *product)
{
    const int64_t a[] = { product->k,          product->a_row,      product->a_batch[0],
                          product->a_batch[1], product->a_batch[2], (int64_t)product->a.place.offset };

    return (product->a.dtype == INLAY_UINT8 ? PRODUCT_A_UNSIGNED : 0) |
           (product->b.dtype == INLAY_UINT8 ? PRODUCT_B_UNSIGNED : 0) | (product->int32 ? PRODUCT_INT32 : 0) |
           (!product->windows && product->a_step == 1 && are_multiples(a, KIT_COUNT(a), 4) ? PRODUCT_A_WIDE : 0) |
           add_integer(build, dispatch, 2, product->a_zero, PRODUCT_A_ZERO) |
           add_integer(build, dispatch, 3, product->b_zero, PRODUCT_B_ZERO) |
           add_integer(build, dispatch, 4, product->bias, PRODUCT_BIAS);
}

/* Sets operand B to a packed constant. */
static void use_panels(vulkan_build *build, vulkan_product *product, const vulkan_constant *constant)
{
    const int64_t width = vulkan_panels_width(&build->device->facts, &constant->panels),
                  panels = (constant->panels.columns + width - 1) / width;

    INLAY_CHECK(constant->packed && constant->panels.columns > 0);
    product->packed = true;
    product->blocks = constant->panels.bits > 0 ? &constant->panels : NULL;
    product->b.bytes = constant->bytes;
    product->b.place = vulkan_constant_place(build, constant);
    product->b_step = width;
    product->b_column = 1;
    product->b_tap = vulkan_panels_rows(&constant->panels) * width;
    product->b_panel = constant->panels.taps * product->b_tap;
    product->b_batch[2] = constant->panels.groups > 1 ? panels * product->b_panel : 0;
}

/* Bytes from an element of B to the next; 0: elements have no addresses. */
static uint32_t b_bytes(const vulkan_product *product)
{
    return product->blocks != NULL ? 0 : vulkan_size_of(product->b.dtype);
}

static void set_blocks(vulkan_dispatch *dispatch, const vulkan_product *product)
{
    const vulkan_panels *blocks = product->blocks;

    if (blocks == NULL)
        return;
    dispatch->constants[ID_LOAD + 1] = EL_BLOCKS;
    dispatch->constants[ID_BLOCK] = blocks->block;
    dispatch->constants[ID_BLOCK + 1] = (uint32_t)product->b_step;
    dispatch->constants[ID_BLOCK + 2] = blocks->bits;
    dispatch->constants[ID_BLOCK + 3] = blocks->zeros != INLAY_NONE;
}

/* The flags that both shaders have. */
static uint32_t common_flags(const vulkan_product *product)
{
    return (product->windows ? PRODUCT_WINDOWS : 0) | (product->padded ? PRODUCT_PADDED : 0) |
           (product->packed ? PRODUCT_PACKED : 0) | (product->sibling_count > 0 ? PRODUCT_SIBLINGS : 0) |
           (product->b.bytes < product->a.bytes ? PRODUCT_STRIPS_LAST : 0);
}

static uint32_t product_flags(const vulkan_build *build, const vulkan_product *product, const vulkan_program *program,
                              uint32_t width)
{
    const gpu_facts *facts = &build->device->facts;
    const bool by_lane = vulkan_scalar_loads(build) && product->b.dtype == INLAY_FLOAT && product->b_column == 1 &&
                         (product->packed || product->n >= width);

    return common_flags(product) | (by_lane ? PRODUCT_LANE_BY_LANE : 0) | (facts->shuffles ? PRODUCT_SUBGROUPS : 0) |
           (product->n % width != 0 && (product->packed || !by_lane) ? PRODUCT_TAIL : 0) |
           (program->slot_count > 4 && build->tensors[program->result].dtype == INLAY_FLOAT ? PRODUCT_LOOPED : 0);
}

/* panels: number of panels or tiles of columns; items: number of workgroups. */
static void set_product_words(const vulkan_build *build, const vulkan_dispatch *dispatch, const vulkan_product *product,
                              uint64_t panels, uint64_t items)
{
    const int64_t *const batches[] = { product->batch, product->a_batch, product->b_batch, product->out_batch };

    VULKAN_SET_WORDS(build, dispatch, 0, product->line, product->lines, product->n, product->k, product->taps,
                     product->a_row, product->a_step, product->b_step, product->b_column, product->b_tap,
                     product->b_panel, product->out_row, product->out_column, vulkan_bits(product->alpha),
                     (int64_t)panels, (int64_t)items);
    for (uint32_t i = 0; i < KIT_COUNT(batches); i++)
        vulkan_set_words(build, dispatch, 16 + 3 * i, 3, batches[i]);
    vulkan_set_window_words(build, dispatch, 28, &product->window);
    VULKAN_SET_WORDS(build, dispatch, 46, product->sibling_count > 0 ? product->siblings[0].program->load_count : 0,
                     product->group);
}

/* Adds the dispatch's grid of row_tiles x column_tiles tiles for each batch. */
static inlay_status set_grid(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_product *product,
                             uint64_t row_tiles, uint64_t column_tiles)
{
    const uint64_t items =
        row_tiles * column_tiles * (uint64_t)(product->batch[0] * product->batch[1] * product->batch[2]);

    set_product_words(build, dispatch, product, column_tiles, items);
    return vulkan_grid_groups(build, dispatch, items);
}

/* A CPU driver: strips of rows, and panels of columns. */
static inlay_status set_strips(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_product *product,
                               const vulkan_program *program)
{
    const gpu_facts *facts = &build->device->facts;
    const uint32_t width = vulkan_panel_width(facts), lanes = vulkan_panel_lanes(facts);
    const uint32_t rows = rows_per_strip(build, product->line);
    const uint64_t strips = (uint64_t)((product->line + rows - 1) / rows * product->lines);
    const uint32_t together = strips >= 64 ? 8 : 1;

    VULKAN_SET_CONSTANTS(dispatch, rows, vulkan_panel_columns(facts), lanes,
                         product_flags(build, product, program, width), vulkan_size_of(product->a.dtype),
                         b_bytes(product));
    dispatch->constants[ID_LOCAL] = lanes * together;
    return set_grid(build, dispatch, product, (strips + together - 1) / together,
                    (uint64_t)(product->n + width - 1) / width);
}

/* Matrix units multiply float16 only; weights of a few bits are rounded to it. A few rows are limited by the loads of
 * B. */
static bool use_matrices(const vulkan_build *build, const vulkan_product *product)
{
    return build->device->facts.matrix_size > 0 && product->a.dtype == INLAY_FLOAT16 &&
           (product->b.dtype == INLAY_FLOAT16 || product->blocks != NULL) && product->line * product->lines > 8;
}

/* Whether operands can be loaded in units of several elements: PRODUCT_A_WIDE and PRODUCT_B_WIDE. how: PRODUCT_ flags.
 * height: of the tile. */
static uint32_t wide_flags(const vulkan_product *product, uint32_t how, int64_t unit, int64_t height)
{
    const inlay_dtype a_type = product->a.dtype, b_type = product->b.dtype;
    const int64_t rows = product->line * product->lines;
    const bool a_by_rows = (how & PRODUCT_A_BY_ROWS) != 0, b_by_k = (how & PRODUCT_B_BY_K) != 0;
    const int64_t a[] = { a_by_rows ? rows : product->k, a_by_rows ? product->a_step : product->a_row,
                          product->a_batch[0],           product->a_batch[1],
                          product->a_batch[2],           (int64_t)(product->a.place.offset / vulkan_size_of(a_type)) };
    const int64_t b[] = { b_by_k ? product->k : product->n,
                          b_by_k ? product->b_column : product->b_step,
                          product->b_batch[0],
                          product->b_batch[1],
                          product->b_batch[2],
                          (int64_t)(product->b.place.offset / vulkan_size_of(b_type)) };
    const bool a_wide = (a_type == INLAY_FLOAT || a_type == INLAY_FLOAT16) && !product->windows &&
                        (!a_by_rows || height % unit == 0) && (a_by_rows ? product->a_row : product->a_step) == 1 &&
                        are_multiples(a, KIT_COUNT(a), unit);
    const bool b_wide = (b_type == INLAY_FLOAT || b_type == INLAY_FLOAT16) && product->blocks == NULL &&
                        (product->packed ||
                         ((b_by_k ? product->b_step : product->b_column) == 1 && are_multiples(b, KIT_COUNT(b), unit)));

    return (a_wide ? PRODUCT_A_WIDE : 0) | (b_wide ? PRODUCT_B_WIDE : 0);
}

/* The tiles that are measured and those of the self-test are not logged. */
static void log_tile(const vulkan_build *build, const vulkan_product *product, const vulkan_tiling *tile,
                     vulkan_tile_kind kind, uint32_t parts)
{
    const vulkan_state *state = build->compiled->state;
    const gpu_facts *facts = &build->device->facts;
    char text[192];

    if (state->gpu == NULL)
        return;
    (void)snprintf(text, sizeof text, "vulkan: product of %lld x %lld x %lld in tiles of %lld x %lld%s%s",
                   (long long)(product->line * product->lines), (long long)(product->k * product->taps),
                   (long long)product->n, (long long)vulkan_tile_height(facts, kind, tile),
                   (long long)vulkan_tile_width(facts, kind, tile), vulkan_are_matrices(kind) ? " of matrices" : "",
                   tile->ahead > 1    ? ", two chunks ahead"
                   : tile->ahead == 0 ? ", not shared"
                                      : "");
    if (parts > 1)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), ", %u parts of k", parts);
    state->host->log(state->host->ctx, INLAY_LOG_DEBUG, text);
}

static const vulkan_tiling *choose_tile(const vulkan_build *build, vulkan_tile_kind kind, const vulkan_product *product,
                                        uint32_t *out_parts, double *out_time)
{
    return vulkan_choose_tile(&build->device->facts, kind,
                              build->tile_times != NULL ? build->tile_times(build, kind) : NULL, product, out_parts,
                              out_time);
}

/* By measured times; without them, from nine rows on. */
static bool byte_matrices_are_faster(const vulkan_build *build, const vulkan_product *product)
{
    const gpu_facts *facts = &build->device->facts;
    double time, other_time;
    uint32_t parts;

    if (facts->is_cpu || facts->byte_matrix_size == 0)
        return false;
    if (product->tile != NULL)
        return product->kind == VULKAN_TILES_BYTE_MATRICES;
    if (build->tile_times == NULL || build->tile_times(build, VULKAN_TILES_BYTE_MATRICES) == NULL ||
        build->tile_times(build, VULKAN_TILES_BYTES) == NULL)
        return product->line * product->lines > 8;
    (void)choose_tile(build, VULKAN_TILES_BYTE_MATRICES, product, &parts, &time);
    (void)choose_tile(build, VULKAN_TILES_BYTES, product, &parts, &other_time);
    return time < other_time;
}

/* The tile of the product: a GPU, and products of integers. */
static inlay_status set_tiles(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_product *product)
{
    const gpu_facts *facts = &build->device->facts;
    const vulkan_tile_kind kind = vulkan_tile_kind_of(dispatch->shader);
    const bool with_matrices = vulkan_are_matrices(kind);
    const vulkan_tiling *tile = product->tile;
    const int64_t height = vulkan_tile_height(facts, kind, tile), width = vulkan_tile_width(facts, kind, tile);
    const uint32_t how = common_flags(product) | (product->windows || product->a_step != 1 ? PRODUCT_A_BY_ROWS : 0) |
                         (product->b_column != 1 ? PRODUCT_B_BY_K : 0) |
                         (product->out_column != 1 ? PRODUCT_OUT_BY_ROWS : 0) |
                         (product->integers ? integer_flags(build, dispatch, product) : 0);
    const uint32_t invocations = tile->side_rows * tile->side_columns * tile->slices;

    INLAY_CHECK(!product->packed || product->b_step % width == 0);
    INLAY_CHECK(!with_matrices || invocations <= GPU_MATRIX_SUBGROUPS);
    VULKAN_SET_CONSTANTS(dispatch, tile->rows, tile->columns, tile->side_rows,
                         product->integers ? how : how | wide_flags(product, how, with_matrices ? 8 : 4, height),
                         with_matrices ? vulkan_matrix_size(facts, kind) : vulkan_size_of(product->a.dtype),
                         with_matrices ? facts->subgroup : b_bytes(product), tile->side_columns, tile->slices,
                         tile->steps, vulkan_matrix_depth(facts, kind), tile->ahead);
    dispatch->constants[ID_LOCAL] = with_matrices ? invocations * facts->subgroup : invocations;
    if (product->integers)
        VULKAN_SET_WORDS(build, dispatch, 48,
                         product->b_zero != INLAY_NONE && build->tensors[product->b_zero].count > 1);
    return set_grid(build, dispatch, product, (uint64_t)((product->line * product->lines + height - 1) / height),
                    (uint64_t)((product->n + width - 1) / width));
}

static bool has_tiles(const vulkan_build *build, const vulkan_product *product)
{
    return product->integers || !build->device->facts.is_cpu;
}

static gpu_shader shader_of(const vulkan_build *build, const vulkan_product *product)
{
    const gpu_facts *facts = &build->device->facts;

    if (product->integers)
        return byte_matrices_are_faster(build, product) ? SHADER_integers_matrices
               : facts->dots && !facts->is_cpu          ? SHADER_integers_dot
                                                        : SHADER_integers;
    if (!has_tiles(build, product))
        return shuffles(build) ? SHADER_product_shuffled : SHADER_product;
    return use_matrices(build, product) ? SHADER_matrices : SHADER_tiles;
}

static inlay_status emit_dispatch(vulkan_build *build, gpu_shader shader, const vulkan_product *product,
                                  const vulkan_program *program)
{
    const double terms = (double)product->line * (double)product->lines * (double)product->n * (double)product->k *
                         (double)product->taps;
    vulkan_dispatch *dispatch = vulkan_add_dispatch(build, shader, 49);

    vulkan_expect_flops(build, dispatch,
                        2 * terms * (double)(product->batch[0] * product->batch[1] * product->batch[2]));
    vulkan_set_input_source(build, dispatch, 0, &product->a);
    vulkan_set_input_source(build, dispatch, 1, &product->b);
    set_blocks(dispatch, product);
    vulkan_finish(build, dispatch, program);
    for (uint32_t i = 0; i < product->sibling_count; i++) {
        const vulkan_program *other = product->siblings[i].program;

        vulkan_allocate_value(build, other->result);
        vulkan_add_operand(build, dispatch, PUSH_OWN + 2 + i, product->siblings[i].place, product->b.bytes, false);
        vulkan_add_value_operand(build, dispatch, PUSH_OWN + 4 + i, other->result, true);
        for (uint32_t k = 0; k < other->load_count; k++)
            vulkan_add_value_operand(build, dispatch, PUSH_INPUT + (i + 1) * other->load_count + k,
                                     other->loads[k].value, false);
    }
    return has_tiles(build, product) ? set_tiles(build, dispatch, product)
                                     : set_strips(build, dispatch, product, program);
}

/* Each part of k is a product of its own, with a result of floats. The epilogue follows their sum, which a
 * normalisation computes itself. */
static inlay_status emit_parts(vulkan_build *build, gpu_shader shader, const vulkan_product *product, uint32_t parts,
                               const vulkan_program *program)
{
    const int64_t count = build->tensors[program->result].count;
    const uint32_t results = vulkan_add_temporary(build, INLAY_FLOAT, 1, (const int64_t[]){ parts * count });
    const vulkan_op *reader = program->slot_count == 0 ? vulkan_single_reader(build, program->result) : NULL;
    vulkan_program of_part, of_sum = *program;
    vulkan_product part = *product;

    INLAY_CHECK(part.k % parts == 0 && part.batch[0] == 1);
    part.k /= parts;
    part.batch[0] = parts;
    part.a_batch[0] = part.k * part.a_step;
    part.b_batch[0] = part.k * part.b_step;
    part.out_batch[0] = count;
    vulkan_program_start(build, &of_part, results, VULKAN_SINGLE);
    (void)emit_dispatch(build, shader, &part, &of_part);
    if (reader != NULL && reader->row->family->adds_parts != NULL &&
        reader->row->family->adds_parts(build, reader, program->result)) {
        build->tensors[program->result].place = build->tensors[results].place;
        build->tensors[program->result].parts = parts;
        return build->status;
    }
    of_sum.has_columns = false;
    return vulkan_emit_part_sums(build, parts, results, &of_sum);
}

inlay_status vulkan_emit_product(vulkan_build *build, const vulkan_product *product, const vulkan_program *program)
{
    const gpu_shader shader = shader_of(build, product);
    const vulkan_tile_kind kind = vulkan_tile_kind_of(shader);
    vulkan_product tiled = *product;
    uint32_t parts = 1;
    double time;

    if (product->tile == NULL && has_tiles(build, product)) {
        tiled.tile = choose_tile(build, kind, product, &parts, &time);
        log_tile(build, product, tiled.tile, kind, parts);
    }
    return parts > 1 ? emit_parts(build, shader, &tiled, parts, program)
                     : emit_dispatch(build, shader, &tiled, program);
}

/* Swaps A and B if the result has a single column: neighbouring invocations compute neighbouring columns, so the rows
 * must become columns. */
static void swap_operands(vulkan_product *product, vulkan_program *program)
{
    vulkan_product swapped = *product;

    if (product->n != 1 || product->line == 1 || product->windows || product->packed || product->integers)
        return;
    program->has_columns = false;
    swapped.line = 1, swapped.n = product->line;
    swapped.a = product->b, swapped.a_row = 0, swapped.a_step = product->b_step;
    swapped.b = product->a, swapped.b_step = product->a_step, swapped.b_column = product->a_row;
    swapped.out_row = product->out_column, swapped.out_column = product->out_row;
    memcpy(swapped.a_batch, product->b_batch, sizeof swapped.a_batch);
    memcpy(swapped.b_batch, product->a_batch, sizeof swapped.b_batch);
    *product = swapped;
}

const vulkan_constant *vulkan_panels_of(const vulkan_build *build, const vulkan_op *op)
{
    const uint32_t second = vulkan_second_factor(op);
    const vulkan_tensor *weights = vulkan_input(build, op, second);
    vulkan_panels panels;

    return vulkan_wants_panels(op, second, weights->rank, weights->dims, &panels)
               ? vulkan_find_constant(build->compiled, op->info.inputs[second], &panels)
               : NULL;
}

inlay_status vulkan_finish_product(vulkan_build *build, const vulkan_op *op, uint32_t a, vulkan_product *product,
                                   vulkan_program *program)
{
    const vulkan_constant *constant = vulkan_panels_of(build, op);

    product->a = vulkan_source_of(build, a);
    product->b = vulkan_source_of(build, op->info.inputs[vulkan_second_factor(op)]);
    if (vulkan_is_integer_product(op))
        set_integers(op, program, product);
    if (constant != NULL)
        use_panels(build, product, constant);
    swap_operands(product, program);
    vulkan_require_rounds(build, op, product->taps * (1 + product->k / 8 + product->k % 8));
    return vulkan_emit_product(build, product, program);
}
