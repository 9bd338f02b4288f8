/* Compiles a region of the host's graph to ops, values and constants, and keeps instances of it by shape. */
#include "cpu/compile/compile.h"
#include "cpu/recurrent/layer.h"
#include "cpu/region/build.h"
#include "cpu/compile/expand.h"
#include "cpu/kernels/table.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/turned.h"
#include "common/weights.h"
#include <stdio.h>

static void name_op(cpu_op *op, const inlay_node_info *info)
{
    (void)snprintf(op->name, sizeof op->name, "%s", info->name.data);
}

static inlay_status read_node(cpu_reader *reader, uint32_t node_index, inlay_diag *diag)
{
    inlay_compiled *compiled = reader->compiled;
    const inlay_compile_request *request = reader->request;
    const inlay_node_info *info = inlay_graph_node(request->graph, request->nodes[node_index]);
    const kit_node node = { .host = compiled->state->host, .graph = request->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    cpu_op parsed, *op;
    const cpu_operator *row = cpu_parse(&node, &parsed, &why);

    name_op(&parsed, info);
    if (row == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", parsed.name, why.text);
    parsed.row = row;
    parsed.node = request->nodes[node_index];
    if (cpu_expand(reader, info, &parsed))
        return INLAY_OK;
    compiled->keep_last_bit |= row->family->kind == CPU_FAMILY_DYNAMIC;
    op = &compiled->ops[compiled->op_count++];
    *op = parsed;
    op->in_count = info->input_count;
    op->out_count = info->output_count;
    op->in = reader->next;
    op->out = op->in + op->in_count;
    reader->next = op->out + op->out_count;
    for (uint32_t i = 0; i < op->in_count; i++) {
        op->in[i] = cpu_reader_value(reader, info->inputs[i]);
        if (op->in[i] != INLAY_NONE)
            compiled->values[op->in[i]].uses++;
    }
    for (uint32_t i = 0; i < op->out_count; i++)
        op->out[i] = cpu_reader_value(reader, info->outputs[i]);
    return row->family->kind == CPU_FAMILY_RECURRENT ? cpu_recurrent_prepare(compiled, request, info, op, diag)
                                                     : INLAY_OK;
}

/* Sets the first readers of all values. */
static void find_readers(inlay_compiled *compiled)
{
    for (uint32_t reader = 0; reader < compiled->op_count; reader++) {
        const cpu_op *op = &compiled->ops[reader];

        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t *readers = op->in[i] == INLAY_NONE ? NULL : compiled->values[op->in[i]].readers;

            if (readers != NULL && readers[0] == INLAY_NONE)
                readers[0] = reader;
            else if (readers != NULL && readers[1] == INLAY_NONE)
                readers[1] = reader;
        }
    }
}

static inlay_status read_region(inlay_compiled *compiled, const inlay_compile_request *request, inlay_diag *diag)
{
    cpu_reader reader = { .compiled = compiled, .request = request };
    uint32_t *order = cpu_order_nodes(request), total = 1, ops = 1;
    inlay_status status = INLAY_OK;

    for (uint32_t node = 0; node < request->node_count; node++) {
        uint32_t more_ops, more_numbers;

        cpu_expand_bounds(inlay_graph_node(request->graph, request->nodes[node]), &more_ops, &more_numbers);
        ops += more_ops;
        total += more_numbers;
    }
    compiled->ops = calloc(ops, sizeof *compiled->ops);
    compiled->numbers = calloc(total, sizeof *compiled->numbers);
    compiled->values = calloc(total, sizeof *compiled->values);
    compiled->constants = calloc(total, sizeof *compiled->constants);
    reader.number_of = malloc((request->graph->value_count + 1) * sizeof *reader.number_of);
    if (compiled->ops == NULL || compiled->numbers == NULL || compiled->values == NULL || compiled->constants == NULL ||
        reader.number_of == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", request->node_count);
        goto done;
    }
    memset(reader.number_of, 0xff, (request->graph->value_count + 1) * sizeof *reader.number_of);
    reader.next = compiled->numbers;
    for (uint32_t n = 0; n < request->node_count; n++) {
        if (request->poll != NULL && n > 0)
            INLAY_TRY(request->poll(request->ctx));
        INLAY_TRY(read_node(&reader, order != NULL ? order[n] : n, diag));
    }
    for (uint32_t i = 0; i < request->input_count; i++)
        if (reader.number_of[request->inputs[i]] != INLAY_NONE)
            compiled->values[reader.number_of[request->inputs[i]]].input = i;
    for (uint32_t i = 0; i < request->output_count; i++)
        if (reader.number_of[request->outputs[i]] != INLAY_NONE)
            compiled->values[reader.number_of[request->outputs[i]]].output = i;
    find_readers(compiled);
    compiled->input_count = request->input_count;
    compiled->output_count = request->output_count;
    INLAY_CHECK(compiled->op_count <= ops && compiled->value_count <= total && compiled->constant_count <= total);
    INLAY_CHECK((size_t)(reader.next - compiled->numbers) <= total);
done:
    free(reader.number_of);
    free(order);
    return status;
}

/* Reports to the host which constants it may free: those that packs replace. */
static void report_constants(inlay_compiled *compiled, const inlay_compile_request *request)
{
    if (compiled->ready != NULL) {
        low_bit_mark_packed(compiled);
        halves_mark_packed(compiled);
        blocks_mark_packed(compiled);
    }
    for (uint32_t value = 0; value < compiled->value_count; value++) {
        cpu_constant *constant = compiled->values[value].constant != INLAY_NONE
                                     ? &compiled->constants[compiled->values[value].constant]
                                     : NULL;
        bool packed;

        if (constant == NULL || constant->kind != CONSTANT_PLAIN) /* not a constant of the host */
            continue;
        packed = (compiled->ready != NULL && (pack_replaces(compiled, constant) || nbits_replaces(compiled, value))) ||
                 (constant->repacked_ops > 0 && constant->repacked_ops == compiled->values[value].uses &&
                  compiled->values[value].output == INLAY_NONE);
        if (!packed || constant->bytes <= CPU_SMALL_BYTES)
            continue;
        constant->data = NULL;
        if (request->constants != NULL)
            request->constants[constant->value] = INLAY_CONST_PACKED;
    }
}

static bool profile_is_complete(const inlay_compiled *compiled, const inlay_compile_request *request)
{
    if (request->profile == NULL)
        return false;
    for (uint32_t value = 0; value < compiled->value_count; value++) {
        const inlay_value_state *state =
            INLAY_AT(inlay_value_state, request->profile, request->profile_stride, compiled->values[value].snapshot);

        if (compiled->values[value].constant != INLAY_NONE)
            continue;
        if (state->rank == INLAY_RANK_UNKNOWN || state->rank > CPU_MAX_RANK)
            return false;
        for (uint32_t d = 0; d < state->rank; d++)
            if (state->dims[d] < 0)
                return false;
    }
    return true;
}

inlay_status cpu_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                         inlay_diag *diag)
{
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", request->node_count);
    compiled->state = state;
    compiled->compiling = request->handle;
    if (compiled->state->timings != NULL)
        compiled->timings = compiled->state->timings->open(compiled->state->host->ctx, request->handle);
    (void)pthread_mutex_init(&compiled->lock, NULL);
    INLAY_TRY(read_region(compiled, request, diag));
    halves_make_constants(compiled, request->graph);
    turned_bind_products(compiled);
    blocks_make_constants(compiled, request->graph);
    INLAY_TRY(low_bit_make_constants(compiled, request->graph, diag));
    INLAY_TRY(nbits_bind_weights(compiled, diag));
    sparse_make_constants(compiled);
    compiled->pack_share = kernel_pack_share(compiled, request->graph);
    compiled->graph_weights = weights_of_graph(request->graph);
    if (profile_is_complete(compiled, request)) {
        /* Packs the weights, so that the host can free the originals. A failure is not an error here: the shapes of the
         * run decide. */
        inlay_diag quiet = INLAY_DIAG_INIT;

        status =
            cpu_instance_build(compiled, request->profile, request->profile_stride, request->graph->value_count, NULL,
                               request->max_threads > 0 ? request->max_threads : 1, NULL, &compiled->ready, &quiet);
        if (status == INLAY_OUT_OF_MEMORY) {
            if (diag != NULL)
                *diag = quiet;
            goto done;
        }
        status = INLAY_OK;
    }
    compiled->compiling = NULL;
    report_constants(compiled, request);
    cpu_region_list(compiled);
    *out_compiled = compiled;
    compiled = NULL;
done:
    cpu_release_compiled(state, compiled);
    return status;
}

void cpu_release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    if (compiled == NULL)
        return;
    cpu_region_unlist(compiled);
    cpu_instance_destroy(compiled->ready);
    cpu_instance_destroy(compiled->last);
    cpu_scratch_drop(&compiled->spare);
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        cpu_constant_deinit(&compiled->constants[i]);
    for (uint32_t o = 0; o < compiled->op_count; o++)
        cpu_recurrent_release(&compiled->ops[o]);
    free(compiled->placed.spans);
    free(compiled->constants);
    free(compiled->values);
    free(compiled->numbers);
    free(compiled->ops);
    (void)pthread_mutex_destroy(&compiled->lock);
    free(compiled);
}

/* True if the instance was built for these shapes. Its key lists the dims of all values. */
static bool key_fits(const inlay_compiled *compiled, const inlay_instance *instance,
                     const inlay_specialize_request *request)
{
    const uint64_t *rooms = INLAY_HAS(request, rooms) ? request->rooms : NULL;
    uint32_t k = 0;

    for (uint32_t value = 0; value < compiled->value_count; value++) {
        const inlay_value_state *state;
        uint64_t room;

        if (compiled->values[value].constant != INLAY_NONE)
            continue;
        state = INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->values[value].snapshot);
        room = rooms != NULL && compiled->values[value].input != INLAY_NONE ? rooms[compiled->values[value].input] : 0;
        if (k >= instance->key_count || instance->key[k++] != cpu_key_word(state->rank, room))
            return false;
        for (uint32_t d = 0; d < state->rank; d++)
            if (k >= instance->key_count || instance->key[k++] != state->dims[d])
                return false;
    }
    return k == instance->key_count;
}

inlay_status cpu_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                            inlay_instance **out_instance, inlay_diag *diag)
{
    uint32_t threads = request->max_threads > 0 ? request->max_threads : 1;
    inlay_instance *instance = NULL, *old = NULL;
    inlay_status status = INLAY_OK;

    (void)state;
    *out_instance = NULL;
    (void)pthread_mutex_lock(&compiled->lock);
    if (compiled->ready != NULL && compiled->ready->threads == threads &&
        key_fits(compiled, compiled->ready, request)) {
        instance = compiled->ready;
        instance->references++;
    } else if (compiled->last != NULL && compiled->last->threads == threads &&
               key_fits(compiled, compiled->last, request)) {
        instance = compiled->last;
        instance->references++;
    } else {
        status = cpu_instance_build(compiled, request->values, request->value_stride, request->value_count,
                                    INLAY_HAS(request, rooms) ? request->rooms : NULL, threads, NULL, &instance, diag);
    }
    if (status == INLAY_OK && instance != compiled->ready && instance != compiled->last) {
        old = compiled->last;
        compiled->last = instance;
        instance->references++;
        INLAY_CHECK(old == NULL || old->references > 0);
        if (old != NULL && --old->references > 0)
            old = NULL;
    }
    (void)pthread_mutex_unlock(&compiled->lock);
    cpu_instance_destroy(old);
    if (status != INLAY_OK)
        return status;
    request->workspace_bytes = instance->workspace_bytes;
    request->workspace_alignment = 64;
    *out_instance = instance;
    return INLAY_OK;
}

void cpu_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    bool last;

    (void)state;
    if (instance == NULL)
        return;
    (void)pthread_mutex_lock(&compiled->lock);
    INLAY_CHECK(instance->references > 0);
    last = --instance->references == 0;
    (void)pthread_mutex_unlock(&compiled->lock);
    if (last)
        cpu_instance_destroy(instance);
}
