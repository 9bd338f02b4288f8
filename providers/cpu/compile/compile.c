/* A region of the host's graph -> ops, values and constants of our own; instances of it by shape. */
#include "region/build.h"
#include "compile/expand.h"
#include "weights/halves.h"
#include "weights/narrow.h"
#include "weights/nbits_weights.h"
#include "weights/sparse_weights.h"
#include <stdio.h>

/* ------------------------------------------------------------------ nodes */

static void name_op(rg_op *op, const inlay_node_info *info)
{
    (void)snprintf(op->name, sizeof op->name, "%s", info->name.data);
}

static inlay_status read_node(rg_reader *reader, uint32_t n, inlay_diag *diag)
{
    inlay_compiled *c = reader->c;
    const inlay_compile_request *r = reader->r;
    const inlay_node_info *info = inlay_graph_node(r->graph, r->nodes[n]);
    const kit_node node = { .host = c->state->host, .graph = r->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    rg_op parsed, *op;
    const rg_operator *row = rg_parse(&node, &parsed, &why);

    name_op(&parsed, info);
    if (row == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", parsed.name, why.text);
    parsed.row = row;
    parsed.node = r->nodes[n];
    if (rg_expand(reader, info, &parsed))
        return INLAY_OK;
    c->as_written |= row->family == &rg_dynamic;
    op = &c->ops[c->op_count++];
    *op = parsed;
    op->in_count = info->input_count;
    op->out_count = info->output_count;
    op->in = reader->next;
    op->out = op->in + op->in_count;
    reader->next = op->out + op->out_count;
    for (uint32_t i = 0; i < op->in_count; i++) {
        op->in[i] = rg_reader_value(reader, info->inputs[i]);
        if (op->in[i] != INLAY_NONE)
            c->values[op->in[i]].uses++;
    }
    for (uint32_t i = 0; i < op->out_count; i++)
        op->out[i] = rg_reader_value(reader, info->outputs[i]);
    return row->family == &rg_recurrent ? rg_recurrent_prepare(c, r, info, op, diag) : INLAY_OK;
}

static inlay_status read_region(inlay_compiled *c, const inlay_compile_request *r, inlay_diag *diag)
{
    rg_reader reader = { .c = c, .r = r };
    uint32_t total = 1, ops = 1;
    inlay_status status = INLAY_OK;

    for (uint32_t n = 0; n < r->node_count; n++) {
        uint32_t more_ops, more_numbers;

        rg_expand_room(inlay_graph_node(r->graph, r->nodes[n]), &more_ops, &more_numbers);
        ops += more_ops;
        total += more_numbers;
    }
    c->ops = calloc(ops, sizeof *c->ops);
    c->numbers = calloc(total, sizeof *c->numbers);
    c->values = calloc(total, sizeof *c->values);
    c->constants = calloc(total, sizeof *c->constants);
    reader.number_of = malloc((r->graph->value_count + 1) * sizeof *reader.number_of);
    if (c->ops == NULL || c->numbers == NULL || c->values == NULL || c->constants == NULL || reader.number_of == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", r->node_count);
        goto done;
    }
    memset(reader.number_of, 0xff, (r->graph->value_count + 1) * sizeof *reader.number_of);
    reader.next = c->numbers;
    for (uint32_t n = 0; n < r->node_count; n++) {
        if (r->poll != NULL && n > 0)
            INLAY_TRY(r->poll(r->ctx));
        INLAY_TRY(read_node(&reader, n, diag));
    }
    for (uint32_t i = 0; i < r->input_count; i++)
        if (reader.number_of[r->inputs[i]] != INLAY_NONE)
            c->values[reader.number_of[r->inputs[i]]].input = i;
    for (uint32_t i = 0; i < r->output_count; i++)
        if (reader.number_of[r->outputs[i]] != INLAY_NONE)
            c->values[reader.number_of[r->outputs[i]]].output = i;
    c->input_count = r->input_count;
    c->output_count = r->output_count;
done:
    free(reader.number_of);
    return status;
}

/* ------------------------------------------------------------------ constants */

/* Small constants are copied, but in programs of `inlay bundle`, which hold them and their packs; the others keep what
 * the host has until it is known how they are read. */
static inlay_status copy_small(inlay_compiled *c, inlay_diag *diag)
{
    for (uint32_t i = 0; i < c->constant_count; i++) {
        rg_constant *k = &c->constants[i];

        if (k->bytes > RG_SMALL_BYTES || k->data == NULL || c->state->alone)
            continue;
        if (posix_memalign(&k->copy, 64, RG_SMALL_BYTES) != 0) {
            k->copy = NULL;
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "copying the constants of a region");
        }
        memcpy(k->copy, k->data, k->bytes);
        k->data = k->copy;
    }
    return INLAY_OK;
}

/* Tells the host what it may drop: everything that has been copied or packed, and is not also read as it lies. */
static void settle_constants(inlay_compiled *c, const inlay_compile_request *r)
{
    if (c->ready != NULL) {
        narrow_settle(c);
        halves_settle(c);
    }
    for (uint32_t v = 0; v < c->value_count; v++) {
        rg_constant *k = c->values[v].constant != INLAY_NONE ? &c->constants[c->values[v].constant] : NULL;
        bool packed;

        if (k == NULL || k->narrow != NULL || k->entries.count > 0 ||
            k->half_type != INLAY_UNDEFINED) /* no constant of the host */
            continue;
        /* A program of `inlay bundle` never makes a second instance, for which a pack has to tell what the original
         * was. */
        packed = ((rg_constant_is_packed(k) || (c->state->alone && k->packs != NULL)) && !k->plain_used &&
                  c->ready != NULL) ||
                 (k->given_up > 0 && k->given_up == c->values[v].uses && c->values[v].output == INLAY_NONE);
        if (k->copy == NULL && (!packed || k->bytes <= RG_SMALL_BYTES))
            continue;
        if (k->copy == NULL)
            k->data = NULL;
        if (r->constants != NULL)
            r->constants[k->value] = k->copy != NULL ? INLAY_CONST_COPIED : INLAY_CONST_PACKED;
    }
}

static bool profile_is_complete(const inlay_compiled *c, const inlay_compile_request *r)
{
    if (r->profile == NULL)
        return false;
    for (uint32_t v = 0; v < c->value_count; v++) {
        const inlay_value_state *s = INLAY_AT(inlay_value_state, r->profile, r->profile_stride, c->values[v].snapshot);

        if (c->values[v].constant != INLAY_NONE)
            continue;
        if (s->rank == INLAY_RANK_UNKNOWN || s->rank > RG_MAX_RANK)
            return false;
        for (uint32_t d = 0; d < s->rank; d++)
            if (s->dims[d] < 0)
                return false;
    }
    return true;
}

inlay_status rg_compile(void *state, const inlay_compile_request *r, inlay_compiled **out_compiled, inlay_diag *diag)
{
    inlay_compiled *c = calloc(1, sizeof *c);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", r->node_count);
    c->state = state;
    c->compiling = r->handle;
    if (c->state->timings != NULL)
        c->timings = c->state->timings->open(c->state->host->ctx, r->handle);
    (void)pthread_mutex_init(&c->lock, NULL);
    INLAY_TRY(read_region(c, r, diag));
    INLAY_TRY(copy_small(c, diag));
    halves_find(c, r->graph);
    INLAY_TRY(narrow_find(c, r->graph, diag));
    INLAY_TRY(nbits_find(c, diag));
    sparse_find(c);
    if (profile_is_complete(c, r)) {
        /* Packs the weights, so that the host can drop the originals. Shapes that do not work are no error yet: it is
         * the run's that count. */
        inlay_diag quiet = INLAY_DIAG_INIT;

        status = rg_instance_build(c, r->profile, r->profile_stride, r->graph->value_count, NULL,
                                   r->max_threads > 0 ? r->max_threads : 1, NULL, &c->ready, &quiet);
        if (status == INLAY_OUT_OF_MEMORY) {
            if (diag != NULL)
                *diag = quiet;
            goto done;
        }
        status = INLAY_OK;
    }
    c->compiling = NULL;
    settle_constants(c, r);
    *out_compiled = c;
    c = NULL;
done:
    rg_release_compiled(state, c);
    return status;
}

void rg_release_compiled(void *state, inlay_compiled *c)
{
    (void)state;
    if (c == NULL)
        return;
    rg_instance_destroy(c->ready);
    rg_instance_destroy(c->last);
    rg_scratch_drop(&c->spare);
    for (uint32_t i = 0; i < c->constant_count; i++)
        rg_constant_deinit(&c->constants[i]);
    for (uint32_t o = 0; o < c->op_count; o++)
        rg_recurrent_release(&c->ops[o]);
    free(c->constants);
    free(c->values);
    free(c->numbers);
    free(c->ops);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ------------------------------------------------------------------ instances */

/* Is the instance for these shapes? Its key lists the dims of all values. */
static bool key_fits(const inlay_compiled *c, const inlay_instance *i, const inlay_specialize_request *r)
{
    const uint64_t *rooms = INLAY_HAS(r, rooms) ? r->rooms : NULL;
    uint32_t k = 0;

    for (uint32_t v = 0; v < c->value_count; v++) {
        const inlay_value_state *s;
        uint64_t room;

        if (c->values[v].constant != INLAY_NONE)
            continue;
        s = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->values[v].snapshot);
        room = rooms != NULL && c->values[v].input != INLAY_NONE ? rooms[c->values[v].input] : 0;
        if (k >= i->key_count || i->key[k++] != rg_key_word(s->rank, room))
            return false;
        for (uint32_t d = 0; d < s->rank; d++)
            if (k >= i->key_count || i->key[k++] != s->dims[d])
                return false;
    }
    return k == i->key_count;
}

inlay_status rg_specialize(void *state, inlay_compiled *c, inlay_specialize_request *r, inlay_instance **out_instance,
                           inlay_diag *diag)
{
    uint32_t threads = r->max_threads > 0 ? r->max_threads : 1;
    inlay_instance *instance = NULL, *old = NULL;
    inlay_status status = INLAY_OK;

    (void)state;
    *out_instance = NULL;
    (void)pthread_mutex_lock(&c->lock);
    if (c->ready != NULL && c->ready->threads == threads && key_fits(c, c->ready, r)) {
        instance = c->ready;
        instance->references++;
    } else if (c->last != NULL && c->last->threads == threads && key_fits(c, c->last, r)) {
        instance = c->last;
        instance->references++;
    } else {
        status = rg_instance_build(c, r->values, r->value_stride, r->value_count, INLAY_HAS(r, rooms) ? r->rooms : NULL,
                                   threads, NULL, &instance, diag);
    }
    if (status == INLAY_OK && instance != c->ready && instance != c->last) {
        old = c->last;
        c->last = instance;
        instance->references++;
        if (old != NULL && --old->references > 0)
            old = NULL;
    }
    (void)pthread_mutex_unlock(&c->lock);
    rg_instance_destroy(old);
    if (status != INLAY_OK)
        return status;
    r->workspace_bytes = instance->workspace_bytes;
    r->workspace_alignment = 64;
    *out_instance = instance;
    return INLAY_OK;
}

void rg_release_instance(void *state, inlay_compiled *c, inlay_instance *instance)
{
    bool last;

    (void)state;
    if (instance == NULL)
        return;
    (void)pthread_mutex_lock(&c->lock);
    last = --instance->references == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (last)
        rg_instance_destroy(instance);
}
