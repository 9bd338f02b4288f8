/* A compiled region at concrete shapes: its dispatches, with pipelines and parameters on the device. */
#include "region.h"
#include <stdlib.h>

enum { MOST_FIXED_WORDS = 256 }; /* more are tables, which no compiler needs to know */

static bool read_tensor(const inlay_specialize_request *r, const vr_value *v, vr_tensor *t)
{
    const inlay_value_state *s = INLAY_AT(inlay_value_state, r->values, r->value_stride, v->snapshot);

    *t = (vr_tensor){ .rank = s->rank, .dtype = v->dtype, .count = 1, .known = s->rank <= VR_RANK };
    for (uint32_t d = 0; t->known && d < t->rank; d++) {
        t->dims[d] = s->dims[d];
        t->known = s->dims[d] >= 0 && !__builtin_mul_overflow(t->count, s->dims[d], &t->count);
    }
    t->data = v->data != NULL ? v->data : s->data;
    t->data_bytes = v->data != NULL ? v->data_bytes : s->data_bytes;
    return t->known && t->count <= INT32_MAX;
}

static inlay_status read_tensors(vr_build *b, const inlay_specialize_request *r)
{
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const vr_op *op = &b->c->ops[o];

        for (uint32_t i = 0; i < op->info.input_count + op->info.output_count; i++) {
            const uint32_t v =
                i < op->info.input_count ? op->info.inputs[i] : op->info.outputs[i - op->info.input_count];

            if (v == INLAY_NONE || b->tensors[v].known)
                continue;
            if (!read_tensor(r, &b->c->values[v], &b->tensors[v]))
                return vr_decline(b, op, "a tensor's size depends on data, or is above 2^31 - 1 elements");
        }
    }
    return INLAY_OK;
}

/* Values that are there before the first dispatch. */
static void place_given(vr_build *b)
{
    for (uint32_t v = 0; v < b->c->value_count; v++) {
        const vr_value *value = &b->c->values[v];
        const vr_constant *k = value->constant ? vr_find_constant(b->c, v, NULL) : NULL;

        b->tensors[v].place.buffer = INLAY_NONE;
        if (k != NULL)
            b->tensors[v].place = vr_constant_place(b, k);
        else if (value->input != INLAY_NONE)
            b->tensors[v].place = vr_buffer_place(
                b, (vr_buffer){ .kind = VR_INPUT, .index = value->input, .bytes = vr_source_of(b, v).bytes });
    }
}

static inlay_status lower_all(vr_build *b)
{
    for (uint32_t o = 0; o < b->c->op_count && b->status == INLAY_OK; o++) {
        const vr_op *op = &b->c->ops[o];
        const vr_tensor *y = vr_out(b, op, 0);

        if (b->done[o])
            continue;
        b->done[o] = true;
        if (y == NULL || y->count > 0 || op->row->family == &vr_split)
            (void)op->row->family->lower(b, op);
        else /* nothing to compute, but a place */
            for (uint32_t i = 0; i < op->info.output_count; i++)
                if (op->info.outputs[i] != INLAY_NONE)
                    vr_make(b, op->info.outputs[i]);
        if (b->status != INLAY_OK)
            (void)snprintf(b->diag->node, sizeof b->diag->node, "%s", op->info.name.data);
    }
    return b->status;
}

static inlay_status prepare_device(vr_build *b)
{
    inlay_instance *in = b->in;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < in->dispatch_count && status == INLAY_OK; i++) {
        vr_dispatch *d = &in->dispatches[i];
        gpu_recipe r = { .shader = d->shader };

        memcpy(r.constants, d->constants, sizeof r.constants);
        if (b->fixed && d->word_count <= MOST_FIXED_WORDS) {
            r.words = in->words + d->words;
            r.word_count = d->word_count;
        }
        status = gpu_pipeline_get(b->g, &r, &d->pipeline, b->diag);
    }
    if (status == INLAY_OK && in->word_count > 0) {
        status = gpu_buffer_make(b->g, in->word_count * sizeof *in->words, &in->parameters, b->diag);
        if (status == INLAY_OK)
            status = gpu_write(b->g, &in->parameters, 0, in->words, in->word_count * sizeof *in->words, b->diag);
    }
    free(in->words);
    in->words = NULL;
    return status;
}

static void tell(const inlay_compiled *c, const inlay_instance *in)
{
    char text[160];

    if (c->state->gpu == NULL) /* the device's trial */
        return;
    (void)snprintf(text, sizeof text, "vulkan: region of %u nodes: %u dispatches in %u submissions, workspace %llu KiB",
                   c->op_count, in->dispatch_count, in->segment_count,
                   (unsigned long long)(in->workspace_bytes / 1024));
    c->state->host->log(c->state->host->ctx, INLAY_LOG_DEBUG, text);
}

inlay_status vr_specialize(void *state, inlay_compiled *c, inlay_specialize_request *request, inlay_instance **out,
                           inlay_diag *diag)
{
    vr_build b = { .c = c, .g = c->gpu, .diag = diag };
    inlay_instance *in = calloc(1, sizeof *in);
    inlay_status status = INLAY_OK;

    if (in != NULL)
        (void)pthread_mutex_init(&in->lock, NULL);
    b.in = in;
    b.fixed = c->gpu->facts.is_cpu && __atomic_add_fetch(&c->specialized, 1, __ATOMIC_RELAXED) <= VR_FIXED;
    b.tensors = calloc(c->value_count + VR_TEMPORARIES * c->op_count + 1, sizeof *b.tensors);
    b.done = calloc(2 * (size_t)c->op_count + 1, sizeof *b.done);
    b.done_before = b.done != NULL ? b.done + c->op_count : NULL;
    if (in == NULL || b.tensors == NULL || b.done == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", c->op_count);
        goto done;
    }
    INLAY_TRY(read_tensors(&b, request));
    place_given(&b);
    INLAY_TRY(lower_all(&b));
    INLAY_TRY(vr_plan(&b));
    INLAY_TRY(prepare_device(&b));
    INLAY_TRY(vr_bind(state, c, in, NULL, &in->own, diag));
    tell(c, in);
    request->workspace_bytes = in->workspace_bytes;
    request->workspace_alignment = GPU_ALIGNMENT;
    *out = in;
    in = NULL;
done:
    free(b.tensors);
    free(b.done);
    vr_release_instance(state, c, in);
    return status;
}

void vr_release_instance(void *state, inlay_compiled *c, inlay_instance *in)
{
    if (in == NULL)
        return;
    vr_release_binding(state, c, in, in->own);
    gpu_buffer_drop(c->gpu, &in->parameters);
    (void)pthread_mutex_destroy(&in->lock);
    free(in->dispatches);
    free(in->buffers);
    free(in->words);
    free(in->segment_ends);
    free(in);
}
