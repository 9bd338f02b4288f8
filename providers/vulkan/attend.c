/* Attention (one node, or the sequence MatMul, Softmax, MatMul), and normalisations of a residual sum. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <float.h>
#include <math.h>

enum { MAX_ATTENTION_ROWS = 4, MAX_ATTENTION_LANES = 64, MAX_ATTENTION_BLOCK = 1024 };

/* What a workgroup keeps in its shared memory. */
typedef struct attend_tile {
    uint32_t rows;  /* rows of the result; 0: the tile of one row does not fit */
    uint32_t block; /* keys at a time; 0: all */
} attend_tile;

/* Chooses the tile that fits into shared memory. It holds all scores of the rows; or, with blocks, the scores of a
 * block and the rows of the result. */
static attend_tile tile_of(const gpu_facts *facts, const vulkan_fused_attention *attend)
{
    const uint64_t fixed = MAX_ATTENTION_ROWS * (MAX_ATTENTION_LANES + (uint64_t)attend->scores.k) + 1,
                   all = facts->max_shared_bytes / sizeof(float), room = all > fixed ? all - fixed : 0;
    const uint64_t keys = (uint64_t)attend->scores.n, width = (uint64_t)attend->width;
    attend_tile tile = { .rows = attend->scores.line < MAX_ATTENTION_ROWS ? (uint32_t)attend->scores.line
                                                                          : MAX_ATTENTION_ROWS };

    while (tile.rows > 0 && tile.rows * keys > room) {
        const uint64_t block = room / tile.rows > width ? (room / tile.rows - width) / 8 * 8 : 0;

        if (block > 0 && attend->empty_row != EMPTY_ROW_GUARDED) {
            tile.block = block < MAX_ATTENTION_BLOCK ? (uint32_t)block : MAX_ATTENTION_BLOCK;
            return tile;
        }
        tile.rows--;
    }
    return tile;
}

static uint32_t lanes_of(const gpu_facts *facts)
{
    return !facts->is_cpu ? MAX_ATTENTION_LANES : facts->subgroup > 0 ? facts->subgroup : 8;
}

static bool can_attend(const vulkan_build *build, const vulkan_fused_attention *attend)
{
    const int64_t keys = attend->scores.n, depth = attend->scores.k, lanes = lanes_of(&build->device->facts);
    const attend_tile tile = tile_of(&build->device->facts, attend);
    const int64_t block = tile.block > 0 ? tile.block : keys, blocks = (keys + block - 1) / (block > 0 ? block : 1);

    return depth > 0 && tile.rows > 0 &&
           vulkan_rounds_fit(build, depth / lanes + 1 +
                                        blocks * ((block / lanes + 1) * (2 + depth / 8 + depth % 8) + 2 * lanes +
                                                  (attend->width / lanes + 1) * (1 + block / 8 + block % 8)));
}

/* The bytes of an element of K if groups of four neighbours start at multiples of four elements; 0: not so. */
static uint32_t k_wide(const vulkan_fused_attention *attend)
{
    const vulkan_product *product = &attend->scores;
    const uint32_t bytes = vulkan_size_of(product->b.dtype);
    const int64_t at[] = { product->b_column, product->b_batch[0], product->b_batch[1], product->b_batch[2],
                           (int64_t)(product->b.place.offset / bytes) };
    bool aligned = product->b_step == 1 && (product->b.dtype == INLAY_FLOAT || product->b.dtype == INLAY_FLOAT16);

    for (size_t i = 0; i < KIT_COUNT(at); i++)
        aligned = aligned && at[i] % 4 == 0;
    return aligned ? bytes : 0;
}

/* Emits the dispatch. program: the elementwise operations on the scores before the softmax. */
static inlay_status emit_attend(vulkan_build *build, const vulkan_fused_attention *attend, vulkan_program *program)
{
    const vulkan_product *product = &attend->scores;
    const gpu_facts *facts = &build->device->facts;
    const attend_tile tile = tile_of(facts, attend);
    const uint32_t rows = tile.rows;
    const int64_t batches = product->batch[0] * product->batch[1] * product->batch[2],
                  items = (product->line + rows - 1) / rows * batches;
    const int64_t *const lists[] = { product->batch,  product->a_batch,   product->b_batch,
                                     attend->v_batch, product->out_batch, attend->sink_batch };
    vulkan_dispatch *dispatch = vulkan_add_dispatch(build, SHADER_attend, 32);

    INLAY_CHECK(rows > 0 && product->n > 0);
    dispatch->constants[ID_LOCAL] = lanes_of(facts);
    VULKAN_SET_CONSTANTS(dispatch, rows, rows * (tile.block > 0 ? tile.block : (uint32_t)product->n), attend->empty_row,
                         product->k >= 8, product->k % 8 != 0, tile.block,
                         tile.block > 0 ? rows * (uint32_t)attend->width : 1, (uint32_t)product->k, k_wide(attend),
                         attend->sink.bytes > 0);
    vulkan_expect_flops(build, dispatch,
                        2.0 * (double)(product->line * product->n) * (double)(product->k + attend->width) *
                            (double)batches);
    VULKAN_SET_WORDS(build, dispatch, 0, product->line, product->n, product->k, attend->width, product->a_row,
                     product->a_step, product->b_step, product->b_column, attend->v_row, attend->v_column,
                     product->out_row, product->out_column, vulkan_bits(product->alpha), items);
    for (uint32_t i = 0; i < KIT_COUNT(lists); i++)
        vulkan_set_words(build, dispatch, 14 + 3 * i, 3, lists[i]);
    vulkan_set_input_source(build, dispatch, 0, &product->a);
    vulkan_set_input_source(build, dispatch, 1, &product->b);
    vulkan_set_input_source(build, dispatch, 2, &attend->source);
    if (attend->sink.bytes > 0)
        vulkan_add_operand(build, dispatch, PUSH_OWN + 3, attend->sink.place, attend->sink.bytes, false);
    program->result = attend->result;
    vulkan_finish(build, dispatch, program);
    return vulkan_grid_groups(build, dispatch, (uint64_t)items);
}

/* Sets places and strides of queries, keys, values (values[]) and of the result of `end`, whose last two dimensions
 * are rows and columns. Values may be transposed. keys_transposed: the keys are [K, N] instead of [N, K]. strides[]
 * gets the strides of all dimensions. */
static void place_all(vulkan_build *build, vulkan_fused_attention *attend, const uint32_t values[3],
                      const vulkan_op *end, bool keys_transposed, int64_t strides[4][VULKAN_RANK])
{
    vulkan_source *const sources[] = { &attend->scores.a, &attend->scores.b, &attend->source };
    vulkan_product *product = &attend->scores;
    const uint32_t row = vulkan_output(build, end, 0)->rank - 2, column = row + 1;
    vulkan_program last;

    for (uint32_t i = 0; i < 3; i++) {
        vulkan_strides(build, values[i], strides[i]);
        *sources[i] = vulkan_source_of(build, values[i]);
    }
    vulkan_program_start(build, &last, end->info.outputs[0], VULKAN_SINGLE);
    vulkan_follow_transpose(build, &last, strides[3]);
    attend->result = last.result;
    product->a_row = strides[0][row], product->a_step = strides[0][column];
    product->b_column = strides[1][keys_transposed ? column : row],
    product->b_step = strides[1][keys_transposed ? row : column];
    attend->v_row = strides[2][row], attend->v_column = strides[2][column];
    product->out_row = strides[3][row], product->out_column = strides[3][column];
}

/* Whether all batch dimensions equal those of the result, so that no operand is broadcast. */
static bool has_same_batches(const vulkan_build *build, const uint32_t values[3], const vulkan_tensor *output)
{
    for (uint32_t i = 0; i < 3; i++)
        if (build->tensors[values[i]].rank != output->rank ||
            memcmp(build->tensors[values[i]].dims, output->dims, (output->rank - 2) * sizeof output->dims[0]) != 0)
            return false;
    return true;
}

bool vulkan_fuse_attention(vulkan_build *build, const vulkan_op *op, const vulkan_product *product,
                           vulkan_program *program)
{
    const vulkan_op *softmax = vulkan_single_reader(build, program->result);
    const vulkan_op *next =
        softmax != NULL && softmax->row->family == &vulkan_softmax && softmax->row->number == ROW_SOFTMAX
            ? vulkan_single_reader(build, softmax->info.outputs[0])
            : NULL;
    vulkan_fused_attention attend = { .scores = *product };
    const vulkan_tensor *output;
    int64_t strides[4][VULKAN_RANK], *const lists[] = { strides[0], strides[1], strides[2], strides[3] };
    uint32_t values[3], axis;

    if (next == NULL || next->row->family != &vulkan_mat_mul || next->info.inputs[0] != softmax->info.outputs[0])
        return false;
    output = vulkan_output(build, next, 0);
    attend.width = output->rank > 0 ? output->dims[output->rank - 1] : 0;
    values[0] = op->info.inputs[0], values[1] = op->info.inputs[1], values[2] = next->info.inputs[1];
    if (program->rank != output->rank || output->rank < 2 || build->tensors[values[2]].place.buffer == INLAY_NONE ||
        !has_same_batches(build, values, output) ||
        !vulkan_axis(kit_attr_int(&softmax->info, "axis", softmax->info.since_version < 13 ? 1 : -1), output->rank,
                     &axis) ||
        axis + 1 != output->rank || !can_attend(build, &attend))
        return false;
    build->done[vulkan_number_of(build, softmax)] = true;
    build->done[vulkan_number_of(build, next)] = true;
    place_all(build, &attend, values, next, true, strides);
    if (!vulkan_merge_batches(output->rank - 2, output->dims, 4, lists, attend.scores.batch,
                              (int64_t *const[]){ attend.scores.a_batch, attend.scores.b_batch, attend.v_batch,
                                                  attend.scores.out_batch }))
        (void)vulkan_decline(build, op, "its batch dimensions cannot be merged to three");
    else
        (void)emit_attend(build, &attend, program);
    return true;
}

/* Whether the node is Attention of ai.inlay (ops/inlay/attention.c) instead of ONNX. */
static bool is_inlay_attention(const vulkan_operator *row)
{
    return row->number == ATTENTION_INLAY;
}

/* Sets the batch strides of a tensor [batch, heads, rows, columns]. shared: several query heads share one of its heads;
 * otherwise it has one head per query head. */
static void set_strides(const vulkan_fused_attention *attend, int64_t *out, const int64_t *strides, bool shared)
{
    out[0] = strides[0];
    out[1] = (shared ? 1 : attend->scores.batch[2]) * strides[1];
    out[2] = shared ? 0 : strides[1];
}

/* Sets the sink [1, 1 or heads, 1, 1], whose type is that of the queries. false: it has another shape. */
static bool set_sink(const vulkan_build *build, vulkan_fused_attention *attend, uint32_t value, int64_t heads)
{
    const vulkan_tensor *sink = &build->tensors[value];

    if (sink->rank != 4 || (sink->dims[1] != 1 && sink->dims[1] != heads) || sink->count != sink->dims[1])
        return false;
    attend->sink = vulkan_source_of(build, value);
    set_strides(attend, attend->sink_batch, (const int64_t[]){ 0, sink->dims[1] > 1 }, false);
    return true;
}

static inlay_status lower_attention(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *query = vulkan_input(build, op, 0), *key = vulkan_input(build, op, 1),
                        *value = vulkan_input(build, op, 2), *mask = vulkan_input(build, op, 3);
    const int64_t heads = query->dims[1], shared = key->dims[1], queries = query->dims[2], keys = key->dims[2],
                  depth = query->dims[3];
    const double scale = kit_attr_float(&op->info, "scale", 0), cap = kit_attr_float(&op->info, "softcap", 0);
    const bool is_inlay = is_inlay_attention(op->row);
    const uint32_t sink = is_inlay ? vulkan_input_value(op, 5) : INLAY_NONE;
    const bool hides = !is_inlay || sink != INLAY_NONE; /* hidden keys take no part */
    vulkan_fused_attention attend = { .empty_row = hides                                        ? EMPTY_ROW_ZERO
                                                   : kit_attr_int(&op->info, "guarded", 0) != 0 ? EMPTY_ROW_GUARDED
                                                                                                : EMPTY_ROW_NAN,
                                      .scores = vulkan_product_of(queries, depth, keys),
                                      .width = value->dims[3] };
    int64_t strides[4][VULKAN_RANK];
    uint32_t score = REG_ACC;
    vulkan_program program;

    INLAY_CHECK(query->rank == 4 && key->rank == 4 && value->rank == 4);
    if (shared == 0 || heads % shared != 0 || value->dims[1] != shared || keys == 0)
        return vulkan_decline(build, op, "the number of query heads is not a multiple of the number of key heads");
    /* ONNX pads a mask with fewer columns with -infinity; one column would be broadcast here. */
    if (mask != NULL && (mask->rank == 0 || mask->dims[mask->rank - 1] != keys))
        return vulkan_decline(build, op, "its mask does not have a column for each key");
    attend.scores.alpha = (float)((scale != 0 ? scale : 1 / sqrt((double)depth)) / (cap > 0 ? cap : 1));
    if (!can_attend(build, &attend))
        return vulkan_decline(build, op, "the scores of %lld keys exceed the device's shared memory", (long long)keys);
    place_all(build, &attend, op->info.inputs, op, false, strides);
    vulkan_product_batches(&attend.scores, (const int64_t[]){ query->dims[0], shared, heads / shared });
    set_strides(&attend, attend.scores.a_batch, strides[0], false);
    set_strides(&attend, attend.scores.b_batch, strides[1], true);
    set_strides(&attend, attend.v_batch, strides[2], true);
    set_strides(&attend, attend.scores.out_batch, strides[3], false);
    if (sink != INLAY_NONE && !set_sink(build, &attend, sink, heads))
        return vulkan_decline(build, op, "its sinks are not one score, or one for each head");
    vulkan_program_start(
        build, &program,
        vulkan_add_temporary(build, INLAY_FLOAT, 4, (const int64_t[]){ query->dims[0], heads, queries, keys }),
        VULKAN_SINGLE);
    if (cap > 0)
        score = vulkan_add_slot(&program, OP_MUL, vulkan_add_slot(&program, OP_TANH, score, 0, 0),
                                vulkan_literal(&program, cap), 0);
    if (is_inlay && vulkan_input(build, op, 4) != NULL)
        score = vulkan_add_slot(&program, OP_WHERE, vulkan_load_value(build, &program, op->info.inputs[4]),
                                vulkan_literal(&program, 0), score);
    if (mask != NULL) {
        const uint32_t added = vulkan_load_value(build, &program, op->info.inputs[3]);

        score = vulkan_add_slot(&program, OP_ADD, score, added, 0);
        if (hides) /* even if its score is NaN (ops/onnx/attention.c) */
            score = vulkan_add_slot(
                &program, OP_WHERE,
                vulkan_add_slot(&program, OP_LESS_EQUAL, added, vulkan_literal(&program, -(double)FLT_MAX), 0), added,
                score);
    }
    if (kit_attr_int(&op->info, "is_causal", 0) != 0) {
        const uint32_t ahead =
            vulkan_load_at(build, &program, INLAY_NONE, (const int64_t[VULKAN_RANK]){ 0, 0, -1, 1 }, 0);

        (void)vulkan_add_slot(&program, OP_WHERE,
                              vulkan_add_slot(&program, OP_LESS_EQUAL, ahead, vulkan_literal(&program, 0), 0), score,
                              vulkan_literal(&program, -(double)INFINITY));
    }
    if (program.overflow)
        return vulkan_decline(build, op, "its mask does not have the shape of the scores");
    return emit_attend(build, &attend, &program);
}

static bool attention_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const uint32_t inputs = is_inlay_attention(row) ? 6 : 4;

    for (uint32_t i = 0; i < 3; i++)
        if (kit_input(node, i) == NULL || kit_input(node, i)->rank != 4)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "queries, keys and values must have four dimensions");
    for (uint32_t i = 0; i < inputs; i++)
        if (!vulkan_has_types(node, i, i == 4 ? VULKAN_BOOL : VULKAN_FLOATS, why))
            return false;
    for (uint32_t i = inputs; i < node->info->input_count; i++)
        if (kit_input(node, i) != NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "past keys or key lengths are not supported");
    if (kit_attr_int(node->info, "left_window_size", -1) >= 0 || kit_attr_int(node->info, "right_window_size", -1) >= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "attention windows are not supported");
    return true;
}

/* Emits sum = x + bias + skip. */
static void emit_sum(vulkan_build *build, const vulkan_op *op, uint32_t bias, uint32_t sum)
{
    vulkan_program program;
    uint32_t total;

    vulkan_program_start(build, &program, sum, VULKAN_SINGLE);
    total = vulkan_load_value(build, &program, op->info.inputs[0]);
    if (bias != INLAY_NONE)
        total = vulkan_add_slot(&program, OP_ADD, total, vulkan_load_value(build, &program, bias), 0);
    (void)vulkan_add_slot(&program, OP_ADD, total, vulkan_load_value(build, &program, op->info.inputs[1]), 0);
    (void)(program.overflow ? vulkan_decline(build, op, "its inputs have different sizes")
                            : vulkan_emit_elements(build, &program));
}

/* Whether a value has this number of elements of this type. */
static bool has_elements(const vulkan_build *build, uint32_t value, int64_t count, inlay_dtype dtype)
{
    return build->tensors[value].count == count && build->tensors[value].dtype == dtype;
}

/* Whether the row shader adds the inputs: floats of one type and size. */
static bool adds_in_rows(const vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const uint32_t bias = vulkan_input_value(op, op->row->number == ROW_RMS ? 3 : 4);

    return (input->dtype == INLAY_FLOAT || input->dtype == INLAY_FLOAT16) &&
           has_elements(build, op->info.inputs[1], input->count, input->dtype) &&
           (bias == INLAY_NONE || has_elements(build, bias, input->dims[input->rank - 1], input->dtype));
}

static bool adds_parts(const vulkan_build *build, const vulkan_op *op, uint32_t value)
{
    return op->info.inputs[0] != op->info.inputs[1] && (op->info.inputs[0] == value || op->info.inputs[1] == value) &&
           adds_in_rows(build, op) && build->tensors[op->info.inputs[0]].parts == 0 &&
           build->tensors[op->info.inputs[1]].parts == 0;
}

/* The row shader adds the two inputs, and stores the sum if another node reads it. A separate dispatch adds inputs of
 * several types or sizes. */
static inlay_status lower_skip_norm(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    const uint32_t skip = op->info.inputs[1];
    const bool simple = op->row->number == ROW_RMS;
    const uint32_t bias = vulkan_input_value(op, simple ? 3 : 4);
    vulkan_rows rows = vulkan_rows_of(build, op, op->row->number, input->rank - 1);
    uint32_t sum = vulkan_output_value(op, 3);

    for (uint32_t i = 1; i < 5; i++) {
        const uint32_t value = vulkan_input_value(op, i);
        const vulkan_tensor *tensor = value != INLAY_NONE ? &build->tensors[value] : NULL;

        if (tensor != NULL && (tensor->rank == 0 || tensor->dims[tensor->rank - 1] != rows.length))
            return vulkan_decline(build, op, "input %u has not %lld elements along its last axis", i,
                                  (long long)rows.length);
    }
    rows.scale = op->info.inputs[2];
    rows.bias = simple ? INLAY_NONE : vulkan_input_value(op, 3);
    rows.epsilon = (float)kit_attr_float(&op->info, "epsilon", 1e-12);
    if (adds_in_rows(build, op)) {
        const bool is_skip_in_parts = build->tensors[skip].parts > 0;

        rows.skip = is_skip_in_parts ? op->info.inputs[0] : skip;
        rows.skip_bias = bias;
        rows.sum = sum;
        return vulkan_emit_rows(build, op, &rows, is_skip_in_parts ? skip : op->info.inputs[0]);
    }
    if (sum == INLAY_NONE)
        sum = vulkan_add_temporary(build, input->dtype, input->rank, input->dims);
    emit_sum(build, op, bias, sum);
    return vulkan_emit_rows(build, op, &rows, sum);
}

static bool skip_norm_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    (void)row;
    if (kit_output(node, 1) != NULL || kit_output(node, 2) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "mean outputs are not supported");
    return true;
}

const vulkan_family vulkan_attention = { .supports = attention_supports,
                                         .lower = lower_attention,
                                         .strided_inputs = 3 };
const vulkan_family vulkan_skip_norm = { .supports = skip_norm_supports,
                                         .lower = lower_skip_norm,
                                         .adds_parts = adds_parts,
                                         .multiple_outputs = true,
                                         .min_rank = 1 };
