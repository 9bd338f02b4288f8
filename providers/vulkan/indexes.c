/* Gather, Scatter, and what is made of positions. */
#include "region.h"

/* ------------------------------------------------------------------ Gather and Scatter */

/* Indexes choose among the elements of op's first input: its result is made of those, or, where box->scatters, of a
 * copy in which updates take their places. box is written for a Gather. */
static inlay_status move_chosen(vr_build *build, const vr_op *op, vr_box *box)
{
    const uint32_t *in = op->info.inputs, to = op->info.outputs[0];
    const vr_box there = *box;

    if (vr_in(build, op, 0)->count == 0 && vr_in(build, op, 1)->count > 0)
        return vr_decline(build, op, "its indexes choose from nothing");
    box->indexes = in[1];
    if (!box->scatters)
        return vr_move(build, box, in[0], to);
    memcpy(box->to, there.from, sizeof box->to);
    memcpy(box->from, there.to, sizeof box->from);
    (void)vr_copy_flat(build, in[0], to);
    return vr_move(build, box, in[2], to);
}

/* number: 1 = Scatter. An index an element, along one axis. */
static inlay_status lower_elements(vr_build *build, const vr_op *op)
{
    const vr_tensor *input = vr_in(build, op, 0);
    vr_box box = vr_whole_box(vr_in(build, op, 1));
    uint32_t axis;

    if (!vr_axis_of(build, op, 0, input->rank, &axis))
        return build->status;
    vr_row_major(input->dims, input->rank, box.from);
    memcpy(box.index, box.to, sizeof box.index);
    box.scatters = op->row->number != 0;
    box.index_count = 1;
    box.axis_size[0] = input->dims[axis];
    box.axis_stride[0] = box.from[axis];
    box.from[axis] = 0;
    return move_chosen(build, op, &box);
}

/* Tuples of `length` coordinates of the axes behind the batches choose what is behind those. shared: of all batches. */
static inlay_status move_tuples(vr_build *build, const vr_op *op, uint32_t batches, int64_t length, bool shared)
{
    const vr_tensor *input = vr_in(build, op, 0), *tensor = vr_in(build, op, 1);
    int64_t strides[VR_RANK];

    if (length + batches > input->rank || length == 0)
        return vr_decline(build, op, "tuples of %lld indexes into rank %u", (long long)length, input->rank);
    const int64_t inner = vr_extent(input, batches + (uint32_t)length, input->rank),
                  batch = vr_extent(input, 0, batches);
    const int64_t tuples = tensor->count / length / (shared || batch == 0 ? 1 : batch);
    vr_box box = { .rank = 3,
                   .dims = { batch, tuples, inner },
                   .from = { batch > 0 ? input->count / batch : 0, 0, 1 },
                   .to = { tuples * inner, inner, 1 },
                   .pad = PAD_NONE,
                   .index = { shared ? 0 : tuples * length, length, 0 },
                   .scatters = op->row->number == 1,
                   .index_count = (uint32_t)length };
    vr_row_major(input->dims, input->rank, strides);
    memcpy(box.axis_size, input->dims + batches, (size_t)length * sizeof(int64_t));
    memcpy(box.axis_stride, strides + batches, (size_t)length * sizeof(int64_t));
    return move_chosen(build, op, &box);
}

/* The last dimension of the indexes is that of a tuple. */
static inlay_status lower_tuples(vr_build *build, const vr_op *op)
{
    const vr_tensor *tensor = vr_in(build, op, 1);

    return move_tuples(build, op, (uint32_t)kit_attr_int(&op->info, "batch_dims", 0),
                       tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 0, false);
}

static inlay_status lower_gather(vr_build *build, const vr_op *op)
{
    uint32_t axis;

    return vr_axis_of(build, op, 0, vr_in(build, op, 0)->rank, &axis) ? move_tuples(build, op, axis, 1, true)
                                                                      : build->status;
}

static bool index_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    const char *reduction = kit_attr_string(node->info, "reduction", "none");

    if (strcmp(reduction, "none") != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "reduction %s depends on the order of updates", reduction);
    return vr_has_types(node, 0, row->types, why) && vr_has_types(node, 1, KIT_BIT(INT32) | KIT_BIT(INT64), why);
}

/* ------------------------------------------------------------------ made of positions */

static void make_range(const vr_build *build, const vr_op *op, vr_program *program)
{
    const uint32_t start = vr_load_at(build, program, op->info.inputs[0], NULL, 0);
    const uint32_t delta = vr_load_at(build, program, op->info.inputs[2], NULL, 0);
    const uint32_t steps =
        vr_slot(program, OP_MUL, vr_load_at(build, program, INLAY_NONE, (const int64_t[VR_RANK]){ 1 }, 0), delta, 0);

    (void)vr_slot(program, OP_ADD, start, steps, 0);
}

/* Matrices, the last two dimensions: EyeLike, Trilu. */
static void make_matrix(const vr_build *build, const vr_op *op, vr_program *program)
{
    int64_t k = kit_attr_int(&op->info, "k", 0), strides[VR_RANK] = { 0 };
    const bool upper = kit_attr_int(&op->info, "upper", 1) != 0;
    uint32_t along, diagonal;

    if (vr_in(build, op, 1) != NULL && vr_ints(build, op, 1, &k, 1) != 1)
        program->full = true;
    strides[program->rank - 2] = -1;
    strides[program->rank - 1] = 1;
    along = vr_load_at(build, program, INLAY_NONE, strides, 0);
    diagonal = vr_number(program, (double)k);
    if (op->row->number == MAKE_EYE)
        (void)vr_slot(program, OP_EQUAL, along, diagonal, 0);
    else
        (void)vr_slot(program, OP_WHERE,
                      vr_slot(program, OP_LESS_EQUAL, upper ? diagonal : along, upper ? along : diagonal, 0),
                      vr_load_value(build, program, op->info.inputs[0]), vr_number(program, 0));
}

/* Indexes count from the end where they are negative, and are cut towards 0. */
static void make_one_hot(const vr_build *build, const vr_op *op, vr_program *program)
{
    const vr_tensor *input = vr_in(build, op, 0);
    int64_t own[VR_RANK], strides[VR_RANK] = { 0 }, place[VR_RANK] = { 0 };
    uint32_t axis, index, negative, hit;

    if (!vr_axis(kit_attr_int(&op->info, "axis", -1), program->rank, &axis)) {
        program->full = true;
        return;
    }
    vr_row_major(input->dims, input->rank, own);
    for (uint32_t d = 0; d < input->rank; d++)
        strides[d + (d >= axis)] = own[d];
    place[axis] = 1;
    index = vr_load_at(build, program, op->info.inputs[0], strides, 0);
    negative = vr_slot(program, OP_LESS, index, vr_number(program, 0), 0);
    if (program->in == VR_SINGLE && vr_is_float(input->dtype))
        index = vr_slot(program, OP_WHERE, negative, vr_slot(program, OP_CEIL, index, 0, 0),
                        vr_slot(program, OP_FLOOR, index, 0, 0));
    index = vr_slot(program, OP_WHERE, negative,
                    vr_slot(program, OP_ADD, index, vr_number(program, (double)program->dims[axis]), 0), index);
    hit = vr_slot(program, OP_EQUAL, index, vr_load_at(build, program, INLAY_NONE, place, 0), 0);
    (void)vr_slot(program, OP_WHERE, hit, vr_load_at(build, program, op->info.inputs[2], NULL, 1),
                  vr_load_at(build, program, op->info.inputs[2], NULL, 0));
}

/* number: MAKE_. */
static inlay_status lower_made(vr_build *build, const vr_op *op)
{
    static void (*const makers[])(const vr_build *, const vr_op *, vr_program *) = {
        [MAKE_RANGE] = make_range, [MAKE_EYE] = make_matrix, [MAKE_TRILU] = make_matrix, [MAKE_ONE_HOT] = make_one_hot
    };
    vr_program program;

    vr_program_start(build, &program, op->info.outputs[0], vr_arithmetic_of(vr_out(build, op, 0)->dtype));
    makers[op->row->number](build, op, &program);
    return vr_emit_program(build, op, &program);
}

static bool made_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    if (row->number == MAKE_TRILU && !vr_is_known(node, 1, why))
        return false;
    if (row->number == MAKE_ONE_HOT)
        return vr_has_types(node, 0, VR_INTS | KIT_BIT(FLOAT), why);
    return row->number != MAKE_TRILU || kit_input(node, 0)->rank >= 2 ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "no matrix");
}

/* Elements that are all the same, from an attribute. */
static inlay_status lower_constant(vr_build *build, const vr_op *op)
{
    const inlay_attr_info *value = kit_attr(&op->info, "value");
    const inlay_dtype dtype = vr_out(build, op, 0)->dtype;
    const uint32_t unused = 64 - 8 * vr_size_of(dtype);
    uint64_t bits = 0;
    vr_program program;

    if (value != NULL && value->tensor != NULL && value->tensor->bytes <= sizeof bits)
        memcpy(&bits, value->tensor->data, value->tensor->bytes);
    if ((KIT_SIGNED & INLAY_DTYPE_BIT(dtype)) != 0)
        bits = (uint64_t)((int64_t)(bits << unused) >> unused);
    vr_program_start(build, &program, op->info.outputs[0], vr_arithmetic_of(dtype));
    (void)vr_slot(&program, OP_MOVE, vr_number_bits(&program, bits), 0, 0);
    return vr_emit_program(build, op, &program);
}

const vr_family vr_constant_of_shape = { .lower = lower_constant, .makes = true };
#define INDEXES .supports = index_supports, .own_types = true, .least_rank = 1
const vr_family vr_gather = { INDEXES, .lower = lower_gather };
const vr_family vr_elements = { INDEXES, .lower = lower_elements };
const vr_family vr_tuples = { INDEXES, .lower = lower_tuples };
const vr_family vr_made = { .supports = made_supports, .lower = lower_made, .own_types = true, .makes = true };
