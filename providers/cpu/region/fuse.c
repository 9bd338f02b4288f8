/* Forms groups: a convolution, GEMM, normalisation or function, with the functions that follow it as its epilogue.
 *
 * A group runs at the position of its last op: at that point all its operands have been computed. No op outside the
 * group reads its intermediate values. */
#include "cpu/region/build.h"
#include <math.h>

static bool is_family(const cpu_build *build, uint32_t op, cpu_family_kind kind)
{
    return op != INLAY_NONE && build->compiled->ops[op].row->family->kind == kind;
}

static bool add_post(cpu_group *group, cpu_post post)
{
    INLAY_CHECK(group->room <= CPU_MAX_POSTS);
    if (group->post_count >= group->room)
        return false;
    group->posts[group->post_count++] = post;
    return true;
}

/* Matches x * sigmoid(x) and x * hardsigmoid(x): value cur has two readers, and the second multiplies it by the result
 * of the first. Returns the second, or INLAY_NONE. */
static uint32_t match_swish(const cpu_build *build, uint32_t cur, cpu_unary *out)
{
    const cpu_value *values = build->compiled->values;
    const uint32_t *readers = values[cur].readers;
    const cpu_op *gate, *product;
    uint32_t gate_output;

    if (values[cur].uses != 2 || !is_family(build, readers[0], CPU_FAMILY_UNARY) ||
        !is_family(build, readers[1], CPU_FAMILY_BINARY))
        return INLAY_NONE;
    gate = &build->compiled->ops[readers[0]];
    product = &build->compiled->ops[readers[1]];
    gate_output = gate->out[0];
    if (product->function != FUNCTION_MUL || cpu_only_reader(build->compiled, gate_output) != readers[1])
        return INLAY_NONE;
    if (gate->unary_count == 1 && gate->unary[0].function == FUNCTION_SIGMOID)
        *out = (cpu_unary){ FUNCTION_SWISH, 1, 0 };
    else if (gate->unary_count == 2 && gate->unary[0].function == FUNCTION_LINEAR &&
             gate->unary[1].function == FUNCTION_CLIP && fabsf(gate->unary[0].alpha - 1.0f / 6) <= 0x1p-26f &&
             gate->unary[0].beta == 0.5f)
        *out = (cpu_unary){ FUNCTION_HARDSWISH, 0, 0 };
    else
        return INLAY_NONE;
    return readers[1];
}

/* Adds binary op `next`, which reads cur, as a post. false: the group cannot have such a post. */
static bool take_binary(const cpu_build *build, cpu_group *group, const cpu_op *next, uint32_t cur)
{
    bool first = next->in[0] == cur;
    uint32_t other = next->in[first ? 1 : 0];
    element_function function = next->function;
    uint32_t count = group->post_count;

    if (other == cur || !cpu_same_dims(build, cur, next->out[0]))
        return false;
    if (!first && (function == FUNCTION_DIV || function == FUNCTION_PRELU))
        return false;
    if (!first && function == FUNCTION_SUB) { /* other - cur */
        if (!add_post(group, (cpu_post){ .kind = CPU_POST_UNARY, .unary = { FUNCTION_LINEAR, -1, 0 } }))
            return false;
        function = FUNCTION_ADD;
    }
    if (!add_post(group, (cpu_post){ .kind = CPU_POST_BINARY, .function = function, .other = other })) {
        group->post_count = count;
        return false;
    }
    return true;
}

/* Can `other` be the bias of the op, a constant with one element per output channel? */
static bool is_bias(const cpu_build *build, const cpu_op *op, uint32_t result, uint32_t other)
{
    uint32_t rank = build->ranks[result], own = build->ranks[other];
    bool bits = op->row->family->kind == CPU_FAMILY_NBITS_PRODUCT,
         product = bits || op->row->family->kind == CPU_FAMILY_PRODUCT;
    uint32_t channel = product ? rank - 1 : 1;

    if (build->compiled->values[other].constant == INLAY_NONE || own > rank || rank < 2)
        return false;
    if (bits && op->in_count > 5 && op->in[5] != INLAY_NONE)
        return false;
    if (!bits && op->in_count > 2 && op->in[2] != INLAY_NONE)
        return false;
    if (product && !bits &&
        ((build->compiled->values[op->in[1]].constant == INLAY_NONE &&
          build->compiled->values[op->in[1]].weights == INLAY_NONE) ||
         build->ranks[op->in[1]] != 2))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = d + own < rank ? 1 : build->dims[other][d + own - rank];

        if (size != (d == channel ? build->dims[result][channel] : 1))
            return false;
    }
    return true;
}

/* While the only reader of the group's output is a function, adds this function to the epilogue. taken: [op_count], set
 * for ops that are in a group. */
static void extend(const cpu_build *build, uint8_t *taken, cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op];

    while (build->compiled->values[group->out].output == INLAY_NONE) {
        uint32_t next = cpu_only_reader(build->compiled, group->out);
        cpu_unary swish;

        if (next == INLAY_NONE && (next = match_swish(build, group->out, &swish)) != INLAY_NONE && !taken[next]) {
            if (!add_post(group, (cpu_post){ .kind = CPU_POST_UNARY, .unary = swish }))
                return;
            taken[build->compiled->values[group->out].readers[0]] = 1;
            /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
        } else if (next == INLAY_NONE || taken[next]) { /* the reader is in the group that computes its other operand */
            return;
        } else if (is_family(build, next, CPU_FAMILY_UNARY)) {
            const cpu_op *function = &build->compiled->ops[next];

            if (group->post_count + function->unary_count > group->room)
                return;
            for (uint32_t i = 0; i < function->unary_count; i++)
                (void)add_post(group, (cpu_post){ .kind = CPU_POST_UNARY, .unary = function->unary[i] });
        } else if (is_family(build, next, CPU_FAMILY_BINARY)) {
            const cpu_op *function = &build->compiled->ops[next];
            uint32_t other = function->in[function->in[0] == group->out ? 1 : 0];

            if (op->row->family->takes_bias && group->post_count == 0 && group->bias == INLAY_NONE &&
                function->function == FUNCTION_ADD && cpu_same_dims(build, group->out, function->out[0]) &&
                is_bias(build, op, group->out, other))
                group->bias = other;
            else if (!take_binary(build, group, function, group->out))
                return;
        } else {
            return;
        }
        taken[next] = 1;
        group->last = next;
        group->out = build->compiled->ops[next].out[0];
    }
}

/* Calls the family that forms groups itself. */
static inlay_status form_groups(cpu_build *build, uint8_t *taken)
{
    for (uint32_t op_index = 0; op_index < build->compiled->op_count; op_index++)
        if (build->compiled->ops[op_index].row->family->group != NULL)
            return build->compiled->ops[op_index].row->family->group(build, taken, build->groups);
    return INLAY_OK;
}

inlay_status cpu_fuse(cpu_build *build)
{
    uint32_t op_count = build->compiled->op_count;
    const cpu_value *values = build->compiled->values;
    uint8_t *taken = cpu_scratch_take_zeroed(build->scratch, op_count + 1u, 1);
    inlay_status status = INLAY_OK;

    if (taken == NULL) {
        status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", op_count);
        goto done;
    }
    for (uint32_t op_index = 0; op_index < op_count; op_index++)
        build->groups[op_index].op = INLAY_NONE;
    INLAY_TRY(form_groups(build, taken));
    for (uint32_t op_index = 0; op_index < op_count; op_index++) {
        cpu_group group = { .op = op_index,
                            .last = op_index,
                            .bias = INLAY_NONE,
                            .out = build->compiled->ops[op_index].out[cpu_first_out(&build->compiled->ops[op_index])] };
        const cpu_family *family = build->compiled->ops[op_index].row->family;
        const bool adds = is_family(build, op_index, CPU_FAMILY_PRODUCT) &&
                          build->compiled->ops[op_index].in_count > 2 &&
                          build->compiled->ops[op_index].in[2] != INLAY_NONE;

        if (taken[op_index])
            continue;
        group.room = adds ? CPU_MAX_POSTS - 1 : CPU_MAX_POSTS;
        for (uint32_t before = INLAY_NONE; family->fuse != NULL && group.out != before && values[group.out].uses == 1 &&
                                           group.post_count < group.room;) {
            before = group.out;
            family->fuse(build, values[group.out].readers[0], taken, &group);
        }
        if (family->takes_posts && cpu_type(build, group.out) == ELEMENT_FLOAT)
            extend(build, taken, &group);
        if (family->fuse_last != NULL && values[group.out].uses == 1)
            family->fuse_last(build, values[group.out].readers[0], taken, &group);
        INLAY_CHECK(group.post_count <= group.room);
        memcpy(&build->groups[group.last], &group, offsetof(cpu_group, posts) + group.post_count * sizeof *group.posts);
    }
done:
    return status;
}
