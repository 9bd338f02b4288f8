/* Gather, Scatter, and operators that generate values from positions. */
#include "vulkan/region.h"

/* Emits a Gather: the result consists of the elements of op's first input that the indexes select. If box->scatters,
 * emits a Scatter: the result is a copy of the input in which updates replace these elements. In both cases the caller
 * fills `box` as for a Gather. */
static inlay_status emit_indexed_move(vulkan_build *build, const vulkan_op *op, vulkan_box *box)
{
    const uint32_t *inputs = op->info.inputs, to = op->info.outputs[0];
    const vulkan_box given = *box;
    int64_t updates = 1;

    if (vulkan_input(build, op, 0)->count == 0 && vulkan_input(build, op, 1)->count > 0)
        return vulkan_decline(build, op, "it indexes an empty tensor");
    box->indexes = inputs[1];
    if (!box->scatters)
        return vulkan_emit_move(build, box, inputs[0], to);
    for (uint32_t d = 0; d < box->rank; d++)
        updates *= box->dims[d];
    if (vulkan_input(build, op, 2)->count != updates)
        return vulkan_decline(build, op, "updates have %lld elements, not %lld",
                              (long long)vulkan_input(build, op, 2)->count, (long long)updates);
    memcpy(box->to, given.from, sizeof box->to);
    memcpy(box->from, given.to, sizeof box->from);
    (void)vulkan_emit_copy(build, inputs[0], to);
    return vulkan_emit_move(build, box, inputs[2], to);
}

/* GatherElements; number 1: ScatterElements and Scatter. Each element has one index along one axis. */
static inlay_status lower_elements(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    vulkan_box box = vulkan_whole_box(vulkan_input(build, op, 1));
    uint32_t axis;

    if (!vulkan_axis_attribute(build, op, 0, input->rank, &axis))
        return build->status;
    vulkan_row_major(input->dims, input->rank, box.from);
    memcpy(box.index, box.to, sizeof box.index);
    box.scatters = op->row->number != 0;
    box.index_count = 1;
    box.axis_size[0] = input->dims[axis];
    box.axis_stride[0] = box.from[axis];
    box.from[axis] = 0;
    return emit_indexed_move(build, op, &box);
}

/* Index tuples of `length` coordinates address the axes after the batches and select slices. shared: all batches use
 * the same tuples. */
static inlay_status move_tuples(vulkan_build *build, const vulkan_op *op, uint32_t batches, int64_t length, bool shared)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0), *tensor = vulkan_input(build, op, 1);
    int64_t strides[VULKAN_RANK];

    if (length + batches > input->rank || length == 0)
        return vulkan_decline(build, op, "tuples of %lld indexes into rank %u", (long long)length, input->rank);
    const int64_t inner = vulkan_dims_product(input, batches + (uint32_t)length, input->rank),
                  batch = vulkan_dims_product(input, 0, batches);
    const int64_t tuples = tensor->count / length / (shared || batch == 0 ? 1 : batch);
    vulkan_box box = { .rank = 3,
                       .dims = { batch, tuples, inner },
                       .from = { batch > 0 ? input->count / batch : 0, 0, 1 },
                       .to = { tuples * inner, inner, 1 },
                       .pad = PAD_NONE,
                       .index = { shared ? 0 : tuples * length, length, 0 },
                       .scatters = op->row->number == 1,
                       .index_count = (uint32_t)length };
    vulkan_row_major(input->dims, input->rank, strides);
    memcpy(box.axis_size, input->dims + batches, (size_t)length * sizeof(int64_t));
    memcpy(box.axis_stride, strides + batches, (size_t)length * sizeof(int64_t));
    return emit_indexed_move(build, op, &box);
}

/* GatherND, ScatterND: the last dimension of the indexes is a tuple. */
static inlay_status lower_tuples(vulkan_build *build, const vulkan_op *op)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0), *tensor = vulkan_input(build, op, 1);
    const uint32_t batches = (uint32_t)kit_attr_int(&op->info, "batch_dims", 0);

    for (uint32_t i = 0; i < batches; i++)
        if (i >= input->rank || i >= tensor->rank || input->dims[i] != tensor->dims[i])
            return vulkan_decline(build, op, "batch axis %u has other sizes in data and indices", i);
    return move_tuples(build, op, batches, tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 0, false);
}

static inlay_status lower_gather(vulkan_build *build, const vulkan_op *op)
{
    uint32_t axis;

    return vulkan_axis_attribute(build, op, 0, vulkan_input(build, op, 0)->rank, &axis)
               ? move_tuples(build, op, axis, 1, true)
               : build->status;
}

static bool index_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    const char *reduction = kit_attr_string(node->info, "reduction", "none");

    if (strcmp(reduction, "none") != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL,
                          "reduction %s is not supported: its result depends on the order of updates", reduction);
    return vulkan_has_types(node, 0, row->types, why) &&
           vulkan_has_types(node, 1, KIT_BIT(INT32) | KIT_BIT(INT64), why);
}

static void generate_range(const vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    const uint32_t start = vulkan_load_at(build, program, op->info.inputs[0], NULL, 0);
    const uint32_t delta = vulkan_load_at(build, program, op->info.inputs[2], NULL, 0);
    const uint32_t steps = vulkan_add_slot(
        program, OP_MUL, vulkan_load_at(build, program, INLAY_NONE, (const int64_t[VULKAN_RANK]){ 1 }, 0), delta, 0);

    (void)vulkan_add_slot(program, OP_ADD, start, steps, 0);
}

/* EyeLike and Trilu: the last two dimensions are matrices. */
static void generate_matrix(const vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    int64_t k = kit_attr_int(&op->info, "k", 0), strides[VULKAN_RANK] = { 0 };
    const bool upper = kit_attr_int(&op->info, "upper", 1) != 0;
    uint32_t along, diagonal;

    if (vulkan_input(build, op, 1) != NULL && vulkan_known_ints(build, op, 1, &k, 1) != 1)
        program->overflow = true;
    strides[program->rank - 2] = -1;
    strides[program->rank - 1] = 1;
    along = vulkan_load_at(build, program, INLAY_NONE, strides, 0);
    diagonal = vulkan_literal(program, (double)k);
    if (op->row->number == GENERATE_EYE)
        (void)vulkan_add_slot(program, OP_EQUAL, along, diagonal, 0);
    else
        (void)vulkan_add_slot(
            program, OP_WHERE,
            vulkan_add_slot(program, OP_LESS_EQUAL, upper ? diagonal : along, upper ? along : diagonal, 0),
            vulkan_load_value(build, program, op->info.inputs[0]), vulkan_literal(program, 0));
}

/* Negative indexes count from the end; float indexes are truncated towards 0. */
static void generate_one_hot(const vulkan_build *build, const vulkan_op *op, vulkan_program *program)
{
    const vulkan_tensor *input = vulkan_input(build, op, 0);
    int64_t own[VULKAN_RANK], strides[VULKAN_RANK] = { 0 }, place[VULKAN_RANK] = { 0 };
    uint32_t axis, index, negative, hit;

    if (!vulkan_axis(kit_attr_int(&op->info, "axis", -1), program->rank, &axis)) {
        program->overflow = true;
        return;
    }
    vulkan_row_major(input->dims, input->rank, own);
    for (uint32_t d = 0; d < input->rank; d++)
        strides[d + (d >= axis)] = own[d];
    place[axis] = 1;
    index = vulkan_load_at(build, program, op->info.inputs[0], strides, 0);
    negative = vulkan_add_slot(program, OP_LESS, index, vulkan_literal(program, 0), 0);
    if (program->arithmetic == VULKAN_SINGLE && vulkan_is_float(input->dtype))
        index = vulkan_add_slot(program, OP_WHERE, negative, vulkan_add_slot(program, OP_CEIL, index, 0, 0),
                                vulkan_add_slot(program, OP_FLOOR, index, 0, 0));
    index = vulkan_add_slot(
        program, OP_WHERE, negative,
        vulkan_add_slot(program, OP_ADD, index, vulkan_literal(program, (double)program->dims[axis]), 0), index);
    hit = vulkan_add_slot(program, OP_EQUAL, index, vulkan_load_at(build, program, INLAY_NONE, place, 0), 0);
    (void)vulkan_add_slot(program, OP_WHERE, hit, vulkan_load_at(build, program, op->info.inputs[2], NULL, 1),
                          vulkan_load_at(build, program, op->info.inputs[2], NULL, 0));
}

/* Lowers the operator GENERATE_* that the row's number gives. */
static inlay_status lower_generated(vulkan_build *build, const vulkan_op *op)
{
    static void (*const generators[])(const vulkan_build *, const vulkan_op *,
                                      vulkan_program *) = { [GENERATE_RANGE] = generate_range,
                                                            [GENERATE_EYE] = generate_matrix,
                                                            [GENERATE_TRILU] = generate_matrix,
                                                            [GENERATE_ONE_HOT] = generate_one_hot };
    vulkan_program program;

    vulkan_program_start(build, &program, op->info.outputs[0],
                         vulkan_arithmetic_of(vulkan_output(build, op, 0)->dtype));
    generators[op->row->number](build, op, &program);
    return vulkan_emit_program(build, op, &program);
}

static bool generated_supports(const kit_node *node, const vulkan_operator *row, kit_refusal *why)
{
    if (row->number == GENERATE_TRILU && !vulkan_is_known(node, 1, why))
        return false;
    if (row->number == GENERATE_ONE_HOT)
        return vulkan_has_types(node, 0, VULKAN_INTS | KIT_BIT(FLOAT), why);
    return row->number != GENERATE_TRILU || kit_input(node, 0)->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the input is not a matrix");
}

/* ConstantOfShape: all elements equal attribute `value`. */
static inlay_status lower_constant(vulkan_build *build, const vulkan_op *op)
{
    const inlay_attr_info *value = kit_attr(&op->info, "value");
    const inlay_dtype dtype = vulkan_output(build, op, 0)->dtype;
    const uint32_t unused = 64 - 8 * vulkan_size_of(dtype);
    uint64_t bits = 0;
    vulkan_program program;

    if (value != NULL && value->tensor != NULL && value->tensor->bytes <= sizeof bits)
        memcpy(&bits, value->tensor->data, value->tensor->bytes);
    if ((KIT_SIGNED & INLAY_DTYPE_BIT(dtype)) != 0)
        bits = (uint64_t)((int64_t)(bits << unused) >> unused);
    vulkan_program_start(build, &program, op->info.outputs[0], vulkan_arithmetic_of(dtype));
    (void)vulkan_add_slot(&program, OP_MOVE, vulkan_literal_bits(&program, bits), 0, 0);
    return vulkan_emit_program(build, op, &program);
}

const vulkan_family vulkan_constant_of_shape = { .lower = lower_constant, .typed_output = true };
#define INDEXES .supports = index_supports, .checks_types = true, .min_rank = 1
const vulkan_family vulkan_gather = { INDEXES, .lower = lower_gather };
const vulkan_family vulkan_elements = { INDEXES, .lower = lower_elements };
const vulkan_family vulkan_tuples = { INDEXES, .lower = lower_tuples };
const vulkan_family vulkan_generated = { .supports = generated_supports,
                                         .lower = lower_generated,
                                         .checks_types = true,
                                         .typed_output = true,
                                         .is_sized_by_inputs = true };
