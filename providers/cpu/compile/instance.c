/* A region at concrete shapes: the instance, from shapes to steps that can run. */
#include "choice/kernels.h"

static inlay_status no_memory(const rg_build *b)
{
    return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", b->c->op_count);
}

/* Dims of all values, from the host, and the key made of them. */
static inlay_status read_shapes(rg_build *b, const inlay_value_state *values, uint32_t stride, uint32_t value_count)
{
    const inlay_compiled *c = b->c;
    inlay_instance *i = b->instance;

    for (uint32_t v = 0; v < c->value_count; v++) {
        const inlay_value_state *s;
        int64_t bytes = 64; /* blocks of 16 channels may round a size up */

        b->places[v].buffer = b->scales[v] = INLAY_NONE;
        b->uses[v] = c->values[v].uses;
        if (c->values[v].constant != INLAY_NONE) {
            b->ranks[v] = c->values[v].rank;
            memcpy(b->dims[v], c->values[v].dims, sizeof b->dims[v]);
            continue;
        }
        if (c->values[v].snapshot >= value_count)
            return inlay_fail(b->diag, INLAY_INVALID_ARGUMENT, "a value of the region is not there");
        s = INLAY_AT(inlay_value_state, values, stride, c->values[v].snapshot);
        if (s->rank == INLAY_RANK_UNKNOWN || s->rank > RG_MAX_RANK)
            return inlay_fail(b->diag, INLAY_UNSUPPORTED, "a value of a region has no shape, or more than %d axes",
                              RG_MAX_RANK);
        b->ranks[v] = s->rank;
        b->key[i->key_count++] = rg_key_word(s->rank, b->rooms[v]);
        for (uint32_t d = 0; d < s->rank; d++) {
            if (s->dims[d] < 0)
                return inlay_fail(b->diag, INLAY_UNSUPPORTED, "the shape of a value of a region depends on data");
            if (__builtin_mul_overflow(bytes, s->dims[d] > 0 ? s->dims[d] : 1, &bytes))
                return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "a value of a region is too large to be counted");
            b->dims[v][d] = s->dims[d];
            b->key[i->key_count++] = s->dims[d];
        }
    }
    i->key = rg_scratch_take(i->memory, i->key_count + 1u, sizeof *i->key);
    if (i->key == NULL)
        return no_memory(b);
    memcpy(i->key, b->key, i->key_count * sizeof *i->key);
    return INLAY_OK;
}

/* Values that the group has read are one use nearer to the end. */
static void count_reads(rg_build *b, const rg_group *group)
{
    const rg_op *op = &b->c->ops[group->op];
    uint32_t reads[3 + RG_MAX_POSTS + 1], count = 0;

    for (uint32_t n = 0; n < op->in_count; n++) {
        uint32_t v = op->in[n];

        if (v == INLAY_NONE)
            continue;
        if (b->uses[v] > 0)
            b->uses[v]--;
        if (b->places[v].buffer != INLAY_NONE && b->instance->buffers[b->places[v].buffer].pending > 0)
            b->instance->buffers[b->places[v].buffer].pending--;
    }
    for (uint32_t p = 0; p < group->post_count; p++)
        if (group->posts[p].kind != RG_POST_ELTWISE)
            reads[count++] = group->posts[p].other;
    if (group->bias != INLAY_NONE)
        reads[count++] = group->bias;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t v = reads[n];

        if (b->uses[v] > 0)
            b->uses[v]--;
        if (b->places[v].buffer != INLAY_NONE && b->instance->buffers[b->places[v].buffer].pending > 0)
            b->instance->buffers[b->places[v].buffer].pending--;
    }
}

/* Has the group's result elements, or another output of its first op? A Split may begin with an empty part, and the
 * scale of nothing is a number. */
static bool makes_elements(const rg_build *b, const rg_group *group)
{
    bool any = rg_count(b, group->out) > 0;

    for (uint32_t o = 1; !any && o < b->op->out_count; o++)
        any = b->op->out[o] != INLAY_NONE && rg_count(b, b->op->out[o]) > 0;
    return any;
}

static inlay_status lower(rg_build *b)
{
    inlay_status status = INLAY_OK;

    for (uint32_t g = 0; g < b->group_count; g++) {
        const rg_group *group = &b->groups[g];

        b->op_index = group->op;
        b->op = &b->c->ops[group->op];
        if (!b->op->silent && makes_elements(b, group))
            INLAY_TRY(rg_reads_nothing(b) ? rg_lower_nothing(b, group) : b->op->row->family->lower(b, group));
        count_reads(b, group);
    }
done:
    return status;
}

/* An array of the instance, for as many elements as the last one had; array is the address of a typed pointer. */
static bool reserve(inlay_instance *i, void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    void *fresh = rg_scratch_take_zeroed(i->memory, count + 1u, element);

    if (fresh == NULL)
        return false;
    memcpy(array, &fresh, sizeof fresh);
    *capacity = count + 1u;
    return true;
}

/* The instance itself, in memory that it keeps. */
static inlay_instance *instance_create(inlay_compiled *c)
{
    rg_scratch *memory = rg_scratch_open(&c->spare);
    inlay_instance *i = memory == NULL ? NULL : rg_scratch_take_zeroed(memory, 1, sizeof *i);

    if (i == NULL) {
        rg_scratch_close(&c->spare, memory);
        return NULL;
    }
    i->memory = memory;
    i->home = &c->spare;
    return i;
}

/* Room for what is known of each value and op, and for as many steps as the last instance had. */
static bool take_room(rg_build *b)
{
    const inlay_compiled *c = b->c;
    const size_t n = c->value_count + 1u;
    inlay_instance *i = b->instance;

    b->scratch = rg_scratch_open(b->state->scratch);
    if (b->scratch == NULL || i == NULL)
        return false;
    b->dims = rg_scratch_take(b->scratch, n, sizeof *b->dims);
    b->ranks = rg_scratch_take(b->scratch, n, sizeof *b->ranks);
    b->places = rg_scratch_take(b->scratch, n, sizeof *b->places);
    b->plains = rg_scratch_take(b->scratch, n, sizeof *b->plains);
    b->copies = rg_scratch_take(b->scratch, n, sizeof *b->copies);
    b->homes = rg_scratch_take(b->scratch, n, sizeof *b->homes);
    b->has = rg_scratch_take_zeroed(b->scratch, n, sizeof *b->has);
    b->uses = rg_scratch_take(b->scratch, n, sizeof *b->uses);
    b->scales = rg_scratch_take(b->scratch, n, sizeof *b->scales);
    b->rooms = rg_scratch_take_zeroed(b->scratch, n, sizeof *b->rooms);
    b->ahead = rg_scratch_take_zeroed(b->scratch, n, sizeof *b->ahead);
    b->groups = rg_scratch_take(b->scratch, c->op_count + 1u, sizeof *b->groups);
    b->key = rg_scratch_take(b->scratch, n * (RG_MAX_RANK + 1), sizeof *b->key);
    if (b->dims == NULL || b->ranks == NULL || b->places == NULL || b->plains == NULL || b->copies == NULL ||
        b->homes == NULL || b->has == NULL || b->uses == NULL || b->scales == NULL || b->ahead == NULL ||
        b->rooms == NULL || b->groups == NULL || b->key == NULL)
        return false;
    return reserve(i, &i->steps, c->step_hint, &b->step_capacity, sizeof *i->steps) &&
           reserve(i, &i->args, c->arg_hint, &b->arg_capacity, sizeof *i->args) &&
           reserve(i, &i->slots, c->slot_hint, &b->slot_capacity, sizeof *i->slots) &&
           reserve(i, &i->buffers, c->buffer_hint, &b->buffer_capacity, sizeof *i->buffers);
}

static void give_room(rg_build *b)
{
    for (uint32_t v = 0; b->ahead != NULL && v < b->c->value_count; v++)
        free(b->ahead[v]);
    rg_memo_drop(b);
    rg_scratch_close(b->state->scratch, b->scratch);
}

inlay_status rg_instance_build(inlay_compiled *c, const inlay_value_state *values, uint32_t stride,
                               uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                               const struct kn_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag)
{
    rg_build b = { .state = c->state, .c = c, .diag = diag, .attempt = attempt };
    inlay_status status = INLAY_OK;
    int before = rg_threads_set(threads);

    *out_instance = NULL;
    b.instance = instance_create(c);
    if (!take_room(&b)) {
        status = no_memory(&b);
        goto done;
    }
    b.instance->threads = threads;
    b.instance->references = 1;
    (void)pthread_mutex_init(&b.instance->lock, NULL);
    b.instance->has_lock = true;
    rg_read_rooms(&b, rooms);
    INLAY_TRY(read_shapes(&b, values, stride, value_count));
    INLAY_TRY(rg_fuse(&b));
    b.spares_library = true; /* as the question is asked */
    b.spares_library = kn_spares_library(&b);
    INLAY_TRY(lower(&b));
    INLAY_TRY(rg_plan(&b));
    INLAY_TRY(rg_context_prepare(c->state, b.instance, diag));
    c->builds++;
    c->step_hint = b.instance->step_count;
    c->arg_hint = b.instance->arg_count;
    c->slot_hint = b.instance->slot_count;
    c->buffer_hint = b.instance->buffer_count;
    *out_instance = b.instance;
    b.instance = NULL;
done:
    rg_instance_destroy(b.instance);
    give_room(&b);
    rg_threads_restore(before);
    return status;
}

void rg_instance_destroy(inlay_instance *i)
{
    if (i == NULL)
        return;
    rg_contexts_destroy(i);
    for (uint32_t s = 0; s < i->step_count; s++) {
        dn_primitive_destroy(i->steps[s].primitive);
        rg_native_destroy(i->steps[s].native);
    }
    if (i->has_lock)
        (void)pthread_mutex_destroy(&i->lock);
    rg_scratch_close(i->home, i->memory); /* which the instance lies in */
}
