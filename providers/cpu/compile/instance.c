/* Builds an instance: a region at concrete shapes, lowered to executable steps. */
#include "cpu/choice/kernels.h"
#include "cpu/compile/compile.h"
#include "cpu/kernels/table.h"
#include "cpu/region/states.h"
#include "inlay/check.h"

static inlay_status no_memory(const cpu_build *build)
{
    return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes",
                      build->compiled->op_count);
}

/* Reads the dims of all values from the host, and builds the instance's key from them. */
static inlay_status read_shapes(cpu_build *build, const inlay_value_state *values, uint32_t stride,
                                uint32_t value_count)
{
    const inlay_compiled *compiled = build->compiled;
    inlay_instance *instance = build->instance;

    for (uint32_t value = 0; value < compiled->value_count; value++) {
        const inlay_value_state *state;
        int64_t bytes = 64; /* margin: blocks of 16 channels may round a size up */

        build->places[value].buffer = build->scales[value] = INLAY_NONE;
        build->uses[value] = compiled->values[value].uses;
        if (compiled->values[value].constant != INLAY_NONE) {
            build->ranks[value] = compiled->values[value].rank;
            memcpy(build->dims[value], compiled->values[value].dims, sizeof build->dims[value]);
            continue;
        }
        if (compiled->values[value].snapshot >= value_count)
            return inlay_fail(build->diag, INLAY_INVALID_ARGUMENT, "the host gave no shape for value %u of a region",
                              compiled->values[value].snapshot);
        state = INLAY_AT(inlay_value_state, values, stride, compiled->values[value].snapshot);
        if (state->rank == INLAY_RANK_UNKNOWN || state->rank > CPU_MAX_RANK)
            return inlay_fail(build->diag, INLAY_UNSUPPORTED, "a value of a region has no shape, or more than %d axes",
                              CPU_MAX_RANK);
        build->ranks[value] = state->rank;
        build->key[instance->key_count++] = cpu_key_word(state->rank, build->rooms[value]);
        for (uint32_t d = 0; d < state->rank; d++) {
            if (state->dims[d] < 0)
                return inlay_fail(build->diag, INLAY_UNSUPPORTED, "the shape of a value of a region depends on data");
            if (__builtin_mul_overflow(bytes, state->dims[d] > 0 ? state->dims[d] : 1, &bytes))
                return inlay_fail(build->diag, INLAY_LIMIT_EXCEEDED, "a value of a region is too large to be counted");
            build->dims[value][d] = state->dims[d];
            build->key[instance->key_count++] = state->dims[d];
        }
    }
    INLAY_CHECK(instance->key_count <= compiled->value_count * (CPU_MAX_RANK + 1));
    instance->key = cpu_scratch_take(instance->memory, instance->key_count + 1u, sizeof *instance->key);
    if (instance->key == NULL)
        return no_memory(build);
    memcpy(instance->key, build->key, instance->key_count * sizeof *instance->key);
    return INLAY_OK;
}

/* Decrements the remaining uses of the values that the group has read. */
static void count_reads(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op];
    uint32_t reads[3 + CPU_MAX_POSTS + 1], count = 0;

    for (uint32_t n = 0; n < op->in_count; n++) {
        uint32_t v = op->in[n];

        if (v == INLAY_NONE)
            continue;
        if (build->uses[v] > 0)
            build->uses[v]--;
        if (build->places[v].buffer != INLAY_NONE && build->instance->buffers[build->places[v].buffer].pending > 0)
            build->instance->buffers[build->places[v].buffer].pending--;
    }
    for (uint32_t post = 0; post < group->post_count; post++)
        if (group->posts[post].kind != CPU_POST_UNARY)
            reads[count++] = group->posts[post].other;
    if (group->bias != INLAY_NONE)
        reads[count++] = group->bias;
    INLAY_CHECK(count <= sizeof reads / sizeof *reads);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t v = reads[n];

        if (build->uses[v] > 0)
            build->uses[v]--;
        if (build->places[v].buffer != INLAY_NONE && build->instance->buffers[build->places[v].buffer].pending > 0)
            build->instance->buffers[build->places[v].buffer].pending--;
    }
}

/* True if the group's result, or another output of its first op, has elements. A Split may have an empty first part,
 * and DynamicQuantizeLinear of an empty tensor still has a scale. */
static bool makes_elements(const cpu_build *build, const cpu_group *group)
{
    bool any = cpu_count(build, group->out) > 0;

    for (uint32_t o = 1; !any && o < build->op->out_count; o++)
        any = build->op->out[o] != INLAY_NONE && cpu_count(build, build->op->out[o]) > 0;
    return any;
}

static inlay_status lower(cpu_build *build)
{
    inlay_status status = INLAY_OK;

    for (uint32_t last = 0; last < build->compiled->op_count; last++) {
        const cpu_group *group = &build->groups[last];

        if (group->op == INLAY_NONE)
            continue;
        INLAY_CHECK(group->op < build->compiled->op_count);
        build->op_index = group->op;
        build->op = &build->compiled->ops[group->op];
        if (!build->op->silent && makes_elements(build, group))
            INLAY_TRY(cpu_reads_empty_input(build) ? cpu_lower_empty_input(build, group)
                                                   : build->op->row->family->lower(build, group));
        count_reads(build, group);
    }
done: /* the host takes only the named node away from this provider */
    if (status != INLAY_OK && build->diag != NULL && build->diag->node[0] == '\0')
        (void)snprintf(build->diag->node, sizeof build->diag->node, "%s", build->op->name);
    return status;
}

/* Allocates an array of the instance with room for count + 1 elements; array is the address of a typed pointer. */
static bool reserve(inlay_instance *instance, void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    void *elements = cpu_scratch_take(instance->memory, count + 1u, element);

    if (elements == NULL)
        return false;
    memcpy(array, &elements, sizeof elements);
    *capacity = count + 1u;
    return true;
}

/* Creates an empty instance. It is stored in its own scratch memory. */
static inlay_instance *instance_create(inlay_compiled *compiled)
{
    cpu_scratch *memory = cpu_scratch_open(&compiled->spare);
    inlay_instance *instance = memory == NULL ? NULL : cpu_scratch_take_zeroed(memory, 1, sizeof *instance);

    if (instance == NULL) {
        cpu_scratch_close(&compiled->spare, memory);
        return NULL;
    }
    instance->memory = memory;
    instance->home = &compiled->spare;
    return instance;
}

/* Allocates the arrays of the build for each value and op, and the instance's arrays with the sizes that the previous
 * instance had; false: out of memory. */
static bool allocate_build(cpu_build *build)
{
    const inlay_compiled *compiled = build->compiled;
    const size_t n = compiled->value_count + 1u;
    inlay_instance *instance = build->instance;

    build->scratch = cpu_scratch_open(build->state->scratch);
    if (build->scratch == NULL || instance == NULL)
        return false;
    build->dims = cpu_scratch_take(build->scratch, n, sizeof *build->dims);
    build->ranks = cpu_scratch_take(build->scratch, n, sizeof *build->ranks);
    build->places = cpu_scratch_take(build->scratch, n, sizeof *build->places);
    build->plains = cpu_scratch_take(build->scratch, n, sizeof *build->plains);
    build->copies = cpu_scratch_take(build->scratch, n, sizeof *build->copies);
    build->homes = cpu_scratch_take(build->scratch, n, sizeof *build->homes);
    build->has = cpu_scratch_take_zeroed(build->scratch, n, sizeof *build->has);
    build->uses = cpu_scratch_take(build->scratch, n, sizeof *build->uses);
    build->scales = cpu_scratch_take(build->scratch, n, sizeof *build->scales);
    build->rooms = cpu_scratch_take_zeroed(build->scratch, n, sizeof *build->rooms);
    build->ahead = cpu_scratch_take_zeroed(build->scratch, n, sizeof *build->ahead);
    build->groups = cpu_scratch_take(build->scratch, compiled->op_count + 1u, sizeof *build->groups);
    build->key = cpu_scratch_take(build->scratch, n * (CPU_MAX_RANK + 1), sizeof *build->key);
    if (build->dims == NULL || build->ranks == NULL || build->places == NULL || build->plains == NULL ||
        build->copies == NULL || build->homes == NULL || build->has == NULL || build->uses == NULL ||
        build->scales == NULL || build->ahead == NULL || build->rooms == NULL || build->groups == NULL ||
        build->key == NULL)
        return false;
    return reserve(instance, &instance->steps, compiled->last_counts.steps, &build->step_capacity,
                   sizeof *instance->steps) &&
           reserve(instance, &instance->args, compiled->last_counts.args, &build->arg_capacity,
                   sizeof *instance->args) &&
           reserve(instance, &instance->buffers, compiled->last_counts.buffers, &build->buffer_capacity,
                   sizeof *instance->buffers) &&
           (compiled->last_counts.choices == 0 || reserve(instance, &instance->choices, compiled->last_counts.choices,
                                                          &build->choice_capacity, sizeof *instance->choices));
}

static void release_build(cpu_build *build)
{
    for (uint32_t v = 0; build->ahead != NULL && v < build->compiled->value_count; v++)
        free(build->ahead[v]);
    cpu_scratch_close(build->state->scratch, build->scratch);
}

inlay_status cpu_instance_build(inlay_compiled *compiled, const inlay_value_state *values, uint32_t stride,
                                uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                                const struct kernel_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag)
{
    cpu_build build = { .state = compiled->state, .compiled = compiled, .diag = diag, .attempt = attempt };
    inlay_status status = INLAY_OK;

    *out_instance = NULL;
    build.instance = instance_create(compiled);
    INLAY_CHECK(threads > 0);
    if (!allocate_build(&build)) {
        status = no_memory(&build);
        goto done;
    }
    build.instance->threads = threads;
    build.instance->references = 1;
    (void)pthread_mutex_init(&build.instance->lock, NULL);
    build.instance->has_lock = true;
    cpu_read_capacities(&build, rooms);
    INLAY_TRY(read_shapes(&build, values, stride, value_count));
    INLAY_TRY(cpu_fuse(&build));
    INLAY_TRY(kernel_limit_packs(&build));
    INLAY_TRY(lower(&build));
    INLAY_TRY(cpu_plan(&build));
    INLAY_TRY(cpu_context_prepare(build.instance, diag));
    compiled->builds++;
    compiled->last_counts.steps = build.instance->step_count;
    compiled->last_counts.args = build.instance->arg_count;
    compiled->last_counts.buffers = build.instance->buffer_count;
    compiled->last_counts.choices = build.instance->choice_count;
    *out_instance = build.instance;
    build.instance = NULL;
done:
    cpu_instance_destroy(build.instance);
    release_build(&build);
    return status;
}

void cpu_instance_destroy(inlay_instance *instance)
{
    if (instance == NULL)
        return;
    cpu_contexts_destroy(instance);
    for (uint32_t i = 0; i < instance->pack_count; i++)
        (void)__atomic_sub_fetch(&instance->packs[i]->users, 1, __ATOMIC_RELEASE);
    for (uint32_t step = 0; step < instance->step_count; step++)
        cpu_native_destroy(instance->steps[step].native);
    if (instance->has_lock)
        (void)pthread_mutex_destroy(&instance->lock);
    cpu_scratch_close(instance->home, instance->memory); /* also frees the instance itself */
}
