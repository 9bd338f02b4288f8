/* Specializes a region for concrete shapes: computes everything about its tensors except their addresses. */
#include "internal.h"

/* Is the output allocated during the run? All bits set: every output, including those from 32 on. */
static bool is_allocated(uint32_t allocates, uint32_t output)
{
    return allocates == UINT32_MAX || (output < 32 && (allocates >> output & 1) != 0);
}

/* Adds bytes, rounded up to the alignment, to *total and stores their offset. Returns false on overflow. */
static bool reserve(uint64_t *total, uint64_t bytes, uint64_t *out_offset)
{
    *out_offset = *total;
    return bytes <= UINT64_MAX - KIT_ALIGNMENT &&
           !__builtin_add_overflow(*total, (bytes + KIT_ALIGNMENT - 1) / KIT_ALIGNMENT * KIT_ALIGNMENT, total);
}

/* Offsets of an instance's arrays in its single allocation. */
struct layout {
    size_t tensors, patches, dims, inner, bytes;
};

static void compute_layout(const inlay_compiled *compiled, const inlay_specialize_request *request,
                           struct layout *layout)
{
    size_t tensors = 0, dims = 0;

    for (uint32_t unit_index = 0; unit_index < compiled->unit_count; unit_index++) {
        const kit_unit *unit = &compiled->units[unit_index];

        for (uint32_t i = 0; i < unit->in_count + unit->out_count; i++) {
            tensors++;
            if (unit->refs[i].value < request->value_count) {
                const inlay_value_state *state =
                    INLAY_AT(inlay_value_state, request->values, request->value_stride, unit->refs[i].value);
                dims += state->rank != INLAY_RANK_UNKNOWN ? state->rank : 0;
            }
        }
    }
    layout->tensors = sizeof(inlay_instance) + compiled->unit_count * sizeof(kit_step);
    layout->patches = layout->tensors + tensors * sizeof(kit_tensor);
    layout->inner = layout->patches + tensors * sizeof(kit_patch);
    layout->dims = layout->inner + compiled->inner_count * sizeof(uint64_t);
    layout->bytes = layout->dims + dims * sizeof(int64_t);
}

/* The unused rest of the instance's arrays. */
struct cursor {
    kit_tensor *tensors;
    kit_patch *patches;
    int64_t *dims;
    uint64_t *inner;  /* [inner_count] workspace offsets of inner values */
    uint64_t scratch; /* the largest of the kernels' workspaces */
};

static inlay_status describe_tensors(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                                     struct cursor *cursor, inlay_diag *diag)
{
    for (uint32_t i = 0; i < step->tensor_count; i++) {
        kit_tensor *tensor = &step->tensors[i];
        inlay_status status = kit_describe(request->values, request->value_stride, request->value_count,
                                           unit->refs[i].value, tensor, diag);

        if (status != INLAY_OK)
            return status;
        if (i < unit->in_count && tensor->dtype != INLAY_UNDEFINED && tensor->count < 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': the shape of input %u is not known before the run",
                              unit->name, i);
        if (tensor->dims != NULL) {
            memcpy(cursor->dims, tensor->dims, tensor->rank * sizeof *tensor->dims);
            tensor->dims = cursor->dims;
            cursor->dims += tensor->rank;
        }
    }
    return INLAY_OK;
}

/* Reserves workspace for the inner values that the unit computes. */
static inlay_status place_inner(const kit_unit *unit, const kit_step *step, inlay_specialize_request *request,
                                struct cursor *cursor, inlay_diag *diag)
{
    for (uint32_t i = unit->in_count; i < step->tensor_count; i++) {
        const kit_tensor *tensor = &step->tensors[i];

        if (unit->refs[i].kind != KIT_REF_INNER)
            continue;
        if (tensor->count < 0 || is_allocated(step->allocates, i - unit->in_count))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': the shape of an inner value depends on data",
                              unit->name);
        if (!reserve(&request->workspace_bytes, kit_bytes(tensor->dtype, tensor->count),
                     &cursor->inner[unit->refs[i].index]))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                              "node '%s': the workspace is larger than the address space; use smaller inputs",
                              unit->name);
    }
    return INLAY_OK;
}

/* Stores fixed addresses in the tensors and a patch for each address that is known only at run time. */
static void bind_tensors(const kit_unit *unit, kit_step *step, const struct cursor *cursor)
{
    for (uint32_t i = 0; i < step->tensor_count; i++) {
        const kit_ref *ref = &unit->refs[i];
        bool output = i >= unit->in_count;

        step->tensors[i].data = NULL;
        if (ref->kind == KIT_REF_FIXED)
            step->tensors[i].data = (void *)(uintptr_t)ref->address;
        if (ref->kind == KIT_REF_NONE || ref->kind == KIT_REF_FIXED)
            continue;
        if (output && is_allocated(step->allocates, i - unit->in_count))
            continue;
        step->patches[step->patch_count++] =
            (kit_patch){ .tensor = i,
                         .kind = ref->kind,
                         .index = ref->index,
                         .offset = ref->kind == KIT_REF_INNER ? cursor->inner[ref->index] : 0 };
    }
}

static void plan_outputs(const kit_unit *unit, const kit_step *step, inlay_specialize_request *request)
{
    for (uint32_t output_index = 0; output_index < unit->out_count; output_index++) {
        const kit_ref *ref = &unit->refs[unit->in_count + output_index];
        inlay_output_plan *plan;

        if (ref->kind != KIT_REF_OUTPUT || ref->index >= request->output_count)
            continue;
        plan = (inlay_output_plan *)(void *)((char *)request->outputs + (size_t)request->output_stride * ref->index);
        plan->kind = is_allocated(step->allocates, output_index) ? INLAY_OUTPUT_ALLOCATED : INLAY_OUTPUT_KNOWN;
        plan->alias = INLAY_NONE;
        if (output_index == 0 && unit->alias != INLAY_NONE && plan->kind == INLAY_OUTPUT_KNOWN) {
            const kit_tensor *input = &step->tensors[unit->alias], *output = &step->tensors[unit->in_count];
            const bool any_dims = (unit->kernel->flags & KIT_IN_PLACE_FIRST) != 0 && input->count == output->count;

            if (input->dtype == output->dtype &&
                (any_dims ||
                 (input->rank == output->rank &&
                  (input->rank == 0 || memcmp(input->dims, output->dims, input->rank * sizeof *input->dims) == 0))))
                plan->alias = unit->refs[unit->alias].index;
        }
    }
}

/* Calls the kernel's shape function: it computes the output shapes, its workspace, and in step->allocates one bit for
 * each output that is allocated during the run. */
static inlay_status call_shape_function(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                                        struct cursor *cursor, inlay_diag *diag)
{
    kit_plan plan = { .in = step->tensors,
                      .out = step->tensors + unit->in_count,
                      .in_count = unit->in_count,
                      .out_count = unit->out_count,
                      .max_threads = request->max_threads,
                      .room = step->plan,
                      .room_bytes = step->plan_bytes };
    inlay_status status = INLAY_OK;

    if ((unit->kernel->flags & KIT_SHAPES_AT_RUN) != 0)
        plan.allocates = UINT32_MAX;
    if (unit->kernel->shape != NULL)
        status = unit->kernel->shape(unit->state, &plan, diag);
    if (plan.plan != plan.room)
        free(plan.room);
    step->plan = plan.plan;
    step->plan_bytes = plan.room_bytes;
    if (status != INLAY_OK)
        return status;
    step->allocates = plan.allocates;
    for (uint32_t output = 0; output < unit->out_count; output++) {
        const kit_tensor *tensor = &plan.out[output];

        if (unit->refs[unit->in_count + output].kind != KIT_REF_NONE && tensor->count < 0 &&
            !is_allocated(plan.allocates, output))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': the shape of output %u is not known before the run",
                              unit->name, output);
    }
    step->has_scratch = plan.workspace_bytes > 0;
    if (plan.workspace_bytes > cursor->scratch)
        cursor->scratch = plan.workspace_bytes;
    return INLAY_OK;
}

static inlay_status build_step(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                               struct cursor *cursor, inlay_diag *diag)
{
    inlay_status status;

    *step = (kit_step){ .plan = step->plan, .plan_bytes = step->plan_bytes };
    step->unit = unit;
    step->tensors = cursor->tensors;
    step->patches = cursor->patches;
    step->tensor_count = unit->in_count + unit->out_count;
    cursor->tensors += step->tensor_count;
    cursor->patches += step->tensor_count;
    INLAY_CHECK(unit->alias == INLAY_NONE || unit->alias < unit->in_count);
    INLAY_TRY(describe_tensors(unit, request, step, cursor, diag));
    INLAY_TRY(call_shape_function(unit, request, step, cursor, diag));
    INLAY_TRY(place_inner(unit, step, request, cursor, diag));
    bind_tensors(unit, step, cursor);
    plan_outputs(unit, step, request);
done:
    return status;
}

/* Returns a released instance of the region if it is large enough, else a new one. Arrays are cleared; memory that its
 * steps and its chain allocated is reused. */
static inlay_instance *take_instance(inlay_compiled *compiled, const struct layout *layout)
{
    inlay_instance *instance = __atomic_exchange_n(&compiled->spare, NULL, __ATOMIC_ACQUIRE);

    if (instance != NULL && instance->bytes >= layout->bytes) {
        INLAY_CHECK(instance->step_count == compiled->unit_count);
        memset((char *)instance + layout->tensors, 0, layout->bytes - layout->tensors);
        return instance;
    }
    kit_free_instance(instance);
    instance = calloc(1, layout->bytes);
    if (instance != NULL) {
        instance->bytes = layout->bytes;
        instance->step_count = compiled->unit_count;
    }
    return instance;
}

inlay_status kit_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                            inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_instance *instance = NULL;
    inlay_status status = INLAY_OK;
    uint64_t scratch;
    struct layout layout;
    struct cursor cursor;

    *out_instance = NULL;
    compute_layout(compiled, request, &layout);
    instance = take_instance(compiled, &layout);
    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "an instance of %zu bytes", layout.bytes);
    cursor = (struct cursor){ .tensors = (void *)((char *)instance + layout.tensors),
                              .patches = (void *)((char *)instance + layout.patches),
                              .inner = (void *)((char *)instance + layout.inner),
                              .dims = (void *)((char *)instance + layout.dims) };
    instance->max_threads = request->max_threads > 0 ? request->max_threads : 1;
    request->workspace_bytes = 0;
    request->workspace_alignment = KIT_ALIGNMENT;
    if (compiled->is_chain) {
        status = kit_chain_build(compiled, request, &instance->chain);
        if (status != INLAY_OK) {
            status = inlay_fail(diag, status, "no memory for a chain of %u nodes", compiled->unit_count);
            goto done;
        }
        if (instance->chain != NULL) {
            *out_instance = instance;
            return INLAY_OK;
        }
    }
    for (uint32_t unit = 0; unit < compiled->unit_count; unit++) {
        status = build_step(&compiled->units[unit], request, &instance->steps[unit], &cursor, diag);
        if (status != INLAY_OK) {
            if (diag != NULL && diag->node[0] == '\0')
                memcpy(diag->node, compiled->units[unit].name, sizeof diag->node);
            goto done;
        }
    }
    if (!reserve(&request->workspace_bytes, cursor.scratch, &scratch) ||
        !reserve(&request->workspace_bytes,
                 compiled->max_tensors > KIT_STACK_TENSORS ? compiled->max_tensors * sizeof(kit_tensor) : 0,
                 &instance->tensors_offset)) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                            "the region's workspace is larger than the address space; use smaller inputs");
        goto done;
    }
    INLAY_CHECK((char *)cursor.dims <= (char *)instance + instance->bytes);
    for (uint32_t unit = 0; unit < compiled->unit_count; unit++)
        instance->steps[unit].scratch_offset = scratch;
    *out_instance = instance;
    instance = NULL;
done:
    kit_release_instance(state, compiled, instance);
    return status;
}

void kit_free_instance(inlay_instance *instance)
{
    if (instance == NULL)
        return;
    for (uint32_t step = 0; step < instance->step_count; step++)
        free(instance->steps[step].plan);
    free(instance->chain);
    free(instance);
}

void kit_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state;
    if (instance != NULL)
        kit_free_instance(__atomic_exchange_n(&compiled->spare, instance, __ATOMIC_ACQ_REL));
}
