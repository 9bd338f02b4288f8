/* Lowers a Concat into a state that is updated in place (states.h). */
#include "cpu/attention/attention.h"
#include "cpu/region/states.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

/* Copies the new rows to the end of the state; the old rows stay in place. */
inlay_status cpu_lower_append(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op, *scatter = cpu_find_scatter(build->compiled, group->out);
    const uint32_t rank = build->ranks[group->out];
    const int64_t room = (int64_t)build->rooms[group->out], *dims = build->dims[group->out];
    int64_t strides[CPU_MAX_RANK] = { 0 };
    cpu_place whole, part, added;
    inlay_status status = INLAY_OK;
    tensor_layout layout;

    INLAY_CHECK(op->in_count == 2 && rank > CPU_STATE_AXIS);
    if (room < dims[CPU_STATE_AXIS])
        return inlay_fail(build->diag, INLAY_INVALID_ARGUMENT, "node '%s': a state of %lld rows has capacity for %lld",
                          op->name, (long long)dims[CPU_STATE_AXIS], (long long)room);
    cpu_inplace_state_strides(build, group->out, strides);
    layout_strides(&layout, rank, dims, strides);
    layout.type = cpu_type(build, group->out);
    INLAY_TRY(cpu_output_place(build, scatter != NULL ? scatter->out[0] : group->out, &layout, &whole));
    part = whole;
    layout_strides(&part.layout, rank, build->dims[op->in[1]], strides);
    part.layout.type = layout.type;
    part.offset +=
        (uint64_t)(build->dims[op->in[0]][CPU_STATE_AXIS] * strides[CPU_STATE_AXIS]) * cpu_type_bytes(layout.type);
    if (cpu_count(build, op->in[1]) > 0) {
        INLAY_TRY(cpu_read_strided(build, op->in[1], &added));
        INLAY_TRY(cpu_emit_copy(build, &added, &part));
    }
    status = cpu_set_place(build, group->out, &whole);
done:
    return status;
}
