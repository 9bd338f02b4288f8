/* A region at concrete shapes: everything about its tensors but their addresses. */
#include "internal.h"

/* Does the run allocate output o? All bits set means all outputs, however many. */
static bool is_allocated(uint32_t allocates, uint32_t o)
{
    return allocates == UINT32_MAX || (o < 32 && (allocates >> o & 1) != 0);
}

/* Adds bytes, rounded up to the alignment, to *total and gives the offset they start at. */
static bool reserve(uint64_t *total, uint64_t bytes, uint64_t *out_offset)
{
    *out_offset = *total;
    return bytes <= UINT64_MAX - KIT_ALIGNMENT &&
           !__builtin_add_overflow(*total, (bytes + KIT_ALIGNMENT - 1) / KIT_ALIGNMENT * KIT_ALIGNMENT, total);
}

/* One allocation for an instance and all its arrays. */
struct layout {
    size_t tensors, patches, dims, inner, bytes;
};

static void lay_out(const inlay_compiled *compiled, const inlay_specialize_request *request, struct layout *at)
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
    at->tensors = sizeof(inlay_instance) + compiled->unit_count * sizeof(kit_step);
    at->patches = at->tensors + tensors * sizeof(kit_tensor);
    at->inner = at->patches + tensors * sizeof(kit_patch);
    at->dims = at->inner + compiled->inner_count * sizeof(uint64_t);
    at->bytes = at->dims + dims * sizeof(int64_t);
}

/* Where the next step's arrays go. */
struct cursor {
    kit_tensor *tensors;
    kit_patch *patches;
    int64_t *dims;
    uint64_t *inner;  /* [inner_count] workspace offsets of inner values */
    uint64_t scratch; /* the largest of the kernels' workspaces */
};

static inlay_status describe_tensors(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                                     struct cursor *at, inlay_diag *diag)
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
            memcpy(at->dims, tensor->dims, tensor->rank * sizeof *tensor->dims);
            tensor->dims = at->dims;
            at->dims += tensor->rank;
        }
    }
    return INLAY_OK;
}

/* Inner values get a place in the workspace where they are made. */
static inlay_status place_inner(const kit_unit *unit, const kit_step *step, inlay_specialize_request *request,
                                struct cursor *at, inlay_diag *diag)
{
    for (uint32_t i = unit->in_count; i < step->tensor_count; i++) {
        const kit_tensor *tensor = &step->tensors[i];

        if (unit->refs[i].kind != KIT_REF_INNER)
            continue;
        if (tensor->count < 0 || is_allocated(step->allocates, i - unit->in_count))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': the shape of an inner value depends on data",
                              unit->name);
        if (!reserve(&request->workspace_bytes, kit_bytes(tensor->dtype, tensor->count),
                     &at->inner[unit->refs[i].index]))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "node '%s': the workspace is too large", unit->name);
    }
    return INLAY_OK;
}

/* Fixed addresses go into the tensors, the others into the list of patches. */
static void bind_tensors(const kit_unit *unit, kit_step *step, const struct cursor *at)
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
                         .offset = ref->kind == KIT_REF_INNER ? at->inner[ref->index] : 0 };
    }
}

static void plan_outputs(const kit_unit *unit, const kit_step *step, inlay_specialize_request *request)
{
    for (uint32_t o = 0; o < unit->out_count; o++) {
        const kit_ref *ref = &unit->refs[unit->in_count + o];
        inlay_output_plan *plan;

        if (ref->kind != KIT_REF_OUTPUT || ref->index >= request->output_count)
            continue;
        plan = (inlay_output_plan *)(void *)((char *)request->outputs + (size_t)request->output_stride * ref->index);
        plan->kind = is_allocated(step->allocates, o) ? INLAY_OUTPUT_ALLOCATED : INLAY_OUTPUT_KNOWN;
        plan->alias = INLAY_NONE;
        if (o == 0 && unit->alias != INLAY_NONE && plan->kind == INLAY_OUTPUT_KNOWN) {
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

/* Bit o is set for each output that the run allocates. */
static inlay_status ask_kernel(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                               struct cursor *at, inlay_diag *diag)
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
    for (uint32_t o = 0; o < unit->out_count; o++) {
        const kit_tensor *tensor = &plan.out[o];

        if (unit->refs[unit->in_count + o].kind != KIT_REF_NONE && tensor->count < 0 &&
            !is_allocated(plan.allocates, o))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': the shape of output %u is not known before the run",
                              unit->name, o);
    }
    step->has_scratch = plan.workspace_bytes > 0;
    if (plan.workspace_bytes > at->scratch)
        at->scratch = plan.workspace_bytes;
    return INLAY_OK;
}

static inlay_status build_step(const kit_unit *unit, inlay_specialize_request *request, kit_step *step,
                               struct cursor *at, inlay_diag *diag)
{
    inlay_status status;

    *step = (kit_step){ .plan = step->plan, .plan_bytes = step->plan_bytes };
    step->unit = unit;
    step->tensors = at->tensors;
    step->patches = at->patches;
    step->tensor_count = unit->in_count + unit->out_count;
    at->tensors += step->tensor_count;
    at->patches += step->tensor_count;
    INLAY_TRY(describe_tensors(unit, request, step, at, diag));
    INLAY_TRY(ask_kernel(unit, request, step, at, diag));
    INLAY_TRY(place_inner(unit, step, request, at, diag));
    bind_tensors(unit, step, at);
    plan_outputs(unit, step, request);
done:
    return status;
}

/* Cleared, but for what steps and chains of one that has gone had, which are found again. */
static inlay_instance *take_instance(inlay_compiled *compiled, const struct layout *at)
{
    inlay_instance *instance = __atomic_exchange_n(&compiled->spare, NULL, __ATOMIC_ACQUIRE);

    if (instance != NULL && instance->bytes >= at->bytes) {
        memset((char *)instance + at->tensors, 0, at->bytes - at->tensors);
        return instance;
    }
    kit_free_instance(instance);
    instance = calloc(1, at->bytes);
    if (instance != NULL) {
        instance->bytes = at->bytes;
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
    struct layout at;
    struct cursor next;

    *out_instance = NULL;
    lay_out(compiled, request, &at);
    instance = take_instance(compiled, &at);
    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "an instance of %zu bytes", at.bytes);
    next = (struct cursor){ .tensors = (void *)((char *)instance + at.tensors),
                            .patches = (void *)((char *)instance + at.patches),
                            .inner = (void *)((char *)instance + at.inner),
                            .dims = (void *)((char *)instance + at.dims) };
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
        status = build_step(&compiled->units[unit], request, &instance->steps[unit], &next, diag);
        if (status != INLAY_OK) {
            if (diag != NULL && diag->node[0] == '\0')
                memcpy(diag->node, compiled->units[unit].name, sizeof diag->node);
            goto done;
        }
    }
    if (!reserve(&request->workspace_bytes, next.scratch, &scratch) ||
        !reserve(&request->workspace_bytes,
                 compiled->max_tensors > KIT_STACK_TENSORS ? compiled->max_tensors * sizeof(kit_tensor) : 0,
                 &instance->tensors_offset)) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the region's workspace is too large");
        goto done;
    }
    for (uint32_t u = 0; u < compiled->unit_count; u++)
        instance->steps[u].scratch_offset = scratch;
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
