/* The run-time part: what of a host is left when a model is compiled into a program. */
#include "bundle.h"
#include "inlay/extensions.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct inlay_run {
    uint32_t threads;
};

/* A region that is ready. */
struct ready {
    const inlay_provider *provider;
    void *state;
    inlay_compiled *compiled;
    inlay_instance *instance;
    uint8_t *fates;
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
};

/* A step with every address that does not change. */
struct call {
    const bundle_step *step;
    const struct ready *region;
    inlay_exec_args args;
    inlay_tensor_arg *tensors; /* inputs, then outputs */
};

/* A pack that had to be made. */
struct made {
    struct made *next;
    uint64_t key[2];
    uint64_t source; /* see bundle_made_packs() */
    uint64_t bytes;
    void *data;
    int kept;
};

static const bundle_model *now;
static struct ready *regions;
static struct call *calls;
static char *slab;
static struct made *made_packs;
static void *let_go; /* see bundle_let_go() */
static uint64_t let_go_bytes;
static inlay_run run;
static inlay_diag diag = INLAY_DIAG_INIT;
static int left_out;
static int started; /* 1: it runs; -1: it could not be started */

uint32_t bundle_level(void);
void bundle_cap(const char *isa);
void bundle_cap_bytes(void);

/* ------------------------------------------------------------------ the host's table */

static void host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static inlay_status host_parallel_for(void *ctx, inlay_run *r, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                      void *user)
{
    (void)ctx, (void)r, (void)grain;
    return count > 0 ? fn(user, 0, count, 0) : INLAY_OK;
}

static uint32_t host_thread_count(void *ctx, inlay_run *r)
{
    (void)ctx, (void)r;
    return 1;
}

static inlay_status host_output_alloc(void *ctx, inlay_run *r, uint32_t output, uint32_t rank, const int64_t *dims,
                                      inlay_buffer *out)
{
    (void)ctx, (void)r, (void)output, (void)rank, (void)dims;
    *out = (inlay_buffer){ 0 };
    return INLAY_UNSUPPORTED; /* all shapes are known */
}

static char *host_string_alloc(void *ctx, inlay_run *r, uint64_t bytes)
{
    (void)ctx, (void)r, (void)bytes;
    return NULL;
}

static inlay_status host_poll(void *ctx, inlay_run *r)
{
    (void)ctx, (void)r;
    return INLAY_OK;
}

static void host_fence_signal(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why)
{
    (void)ctx, (void)fence, (void)status, (void)why;
}

static inlay_status host_fence_wait(void *ctx, inlay_run *r, inlay_fence fence, inlay_diag *d)
{
    (void)ctx, (void)r, (void)fence, (void)d;
    return INLAY_OK;
}

static const void *host_align_constant(void *ctx, void *compile, uint32_t value, uint32_t alignment)
{
    const bundle_region *r = compile;
    const inlay_value_info *info = inlay_graph_value(r->graph, value);
    void *copy;

    (void)ctx;
    if (info == NULL || info->data == NULL || (uintptr_t)info->data % alignment == 0)
        return info != NULL ? info->data : NULL;
    copy = heap_alloc(info->data_bytes, alignment);
    if (copy != NULL)
        memcpy(copy, info->data, info->data_bytes);
    return copy;
}

/* Nothing is kept between runs, so nobody asks which build this is; a plugin would hash its code. */
void kit_build_id(const void *at, const char *version, char *text, size_t bytes);
void kit_build_id(const void *at, const char *version, char *text, size_t bytes)
{
    (void)at, (void)version, (void)bytes;
    text[0] = '\0';
}

/* ------------------------------------------------------------------ packs */

/* Two numbers of a key, eight bytes at a time: keys hold tables of scales, and a start hashes all of them. */
static void make_key(const bundle_region *r, const void *key, uint64_t key_bytes, uint64_t out[2])
{
    uint64_t a = UINT64_C(14695981039346656037) + r->provider, b = UINT64_C(0x9e3779b97f4a7c15) + key_bytes;

    for (uint64_t i = 0; i < key_bytes; i += 8) {
        uint64_t part = 0;

        memcpy(&part, (const char *)key + i, key_bytes - i < 8 ? key_bytes - i : 8);
        a = (a ^ part) * UINT64_C(0xff51afd7ed558ccd);
        b = (b + (part ^ part >> 32)) * UINT64_C(0xc4ceb9fe1a85ec53);
        a ^= a >> 32;
        b ^= b >> 29;
    }
    out[0] = a;
    out[1] = b;
}

/* The constant of the region that the key names, if it is one. */
static uint64_t find_source(const bundle_region *r, const void *key, uint64_t key_bytes)
{
    uint64_t found = 0, word;

    for (uint64_t at = 0; at + sizeof word <= key_bytes; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        for (uint32_t v = 0; word != 0 && word != found && v < r->graph->value_count; v++) {
            const inlay_value_info *info = inlay_graph_value(r->graph, v);

            if (info->content_hash != word || info->data == NULL)
                continue;
            if (found != 0)
                return 0;
            found = word;
        }
    }
    return found;
}

static const bundle_pack *find_pack(const uint64_t known[2], uint64_t bytes)
{
    const uint64_t key[2] = { known[0] ^ (bundle_level() & now->packs_levels), known[1] };
    uint32_t low = 0, high = now->pack_count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const bundle_pack *p = &now->packs[middle];

        if (p->key[0] == key[0] && p->key[1] == key[1])
            return p->bytes == bytes ? p : NULL;
        if (p->key[0] < key[0] || (p->key[0] == key[0] && p->key[1] < key[1]))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static inlay_status packs_take(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes,
                               void **out_data, uint32_t *out_known)
{
    const bundle_pack *p;
    struct made *m;
    uint64_t k[2];

    (void)ctx;
    make_key(compile, key, key_bytes, k);
    p = find_pack(k, bytes);
    *out_known = 0;
    if (p != NULL && p->offset != BUNDLE_MADE_AT_START) {
        *out_data = (void *)(uintptr_t)(now->packs_data + p->offset);
        *out_known = 1;
        return INLAY_OK;
    }
    if (p == NULL && now->has_originals == 0)
        return inlay_fail(&diag, INLAY_INTERNAL,
                          "the program was made without weights for this CPU; INLAY_ISA=avx2 in "
                          "the environment may help");
    for (m = made_packs; m != NULL; m = m->next) {
        if (m->key[0] == k[0] && m->key[1] == k[1] && m->bytes == bytes && m->kept) {
            *out_data = m->data;
            *out_known = 1;
            return INLAY_OK;
        }
    }
    m = heap_alloc(sizeof *m, 64);
    *out_data = heap_alloc(bytes, 64);
    if (m == NULL || *out_data == NULL)
        return INLAY_OUT_OF_MEMORY;
    memset(*out_data, 0, bytes); /* what is never written is the same in every bundle */
    *m = (struct made){ .next = made_packs,
                        .key = { k[0], k[1] },
                        .source = now->packs_first != 0 ? find_source(compile, key, key_bytes) : 0,
                        .bytes = bytes,
                        .data = *out_data };
    made_packs = m;
    return INLAY_OK;
}

void bundle_let_go(void *pages, uint64_t bytes)
{
    let_go = pages;
    let_go_bytes = bytes;
}

static void packs_keep(void *ctx, void *compile, const void *data)
{
    const uint64_t worth_a_call = 1 << 18;

    (void)ctx, (void)compile;
    for (struct made *m = made_packs; m != NULL; m = m->next) {
        m->kept |= m->data == data;
        if (m->data == data && let_go_bytes > 0 && m->bytes >= worth_a_call)
            (void)madvise(let_go, let_go_bytes, MADV_DONTNEED);
    }
}

void bundle_made_packs(bundle_pack_fn each, void *ctx)
{
    for (const struct made *m = made_packs; m != NULL; m = m->next)
        if (m->kept)
            each(ctx, m->key, m->source, m->data, m->bytes);
}

static const void *host_extension(void *ctx, const char *name)
{
    static const inlay_ext_packs packs = { .struct_size = sizeof packs, .take = packs_take, .keep = packs_keep };

    (void)ctx;
    return strcmp(name, INLAY_EXT_PACKS) == 0 ? &packs : NULL;
}

static const inlay_host host = {
    .struct_size = sizeof host,
    .abi_major = INLAY_ABI_MAJOR,
    .abi_minor = INLAY_ABI_MINOR,
    .abi_major_oldest = INLAY_ABI_MAJOR,
    .log = host_log,
    .parallel_for = host_parallel_for,
    .thread_count = host_thread_count,
    .output_alloc = host_output_alloc,
    .string_alloc = host_string_alloc,
    .poll = host_poll,
    .fence_signal = host_fence_signal,
    .fence_wait = host_fence_wait,
    .align_constant = host_align_constant,
    .extension = host_extension,
};

/* ------------------------------------------------------------------ starting */

static void *take(uint64_t count, uint64_t bytes)
{
    void *p = heap_alloc(count * bytes + 1, 64);

    if (p != NULL)
        memset(p, 0, count * bytes + 1);
    return p;
}

static inlay_status open_providers(const inlay_provider **tables, void **states)
{
    for (uint32_t i = 0; i < BUNDLE_PROVIDERS; i++) {
        const inlay_create_args args = { .struct_size = sizeof args,
                                         .options = now->options[i],
                                         .option_count = now->option_counts[i],
                                         .option_stride = sizeof *now->options[i],
                                         .first_domain = 1,
                                         .max_threads = 1 };
        inlay_status status;

        if (now->providers[i] == NULL)
            continue;
        tables[i] = now->providers[i](&host);
        if (tables[i] == NULL)
            return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "no memory to open a provider");
        status = tables[i]->create(tables[i]->ctx, &host, &args, &states[i], &diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status compile_region(const bundle_region *b, struct ready *r, uint64_t *workspace)
{
    inlay_placement *placements = take((uint64_t)b->input_count + b->output_count, sizeof *placements);
    inlay_output_plan *outputs = take(b->output_count, sizeof *outputs);
    inlay_compile_request c = { .struct_size = sizeof c,
                                .handle = (void *)(uintptr_t)b,
                                .graph = b->graph,
                                .nodes = b->nodes,
                                .cookies = b->cookies,
                                .inputs = b->inputs,
                                .outputs = b->outputs,
                                .node_count = b->node_count,
                                .offer_count = b->cookie_count,
                                .input_count = b->input_count,
                                .output_count = b->output_count,
                                .placements = placements,
                                .placement_stride = sizeof *placements,
                                .profile = b->states,
                                .profile_stride = sizeof *b->states,
                                .max_threads = 1 };
    inlay_specialize_request s = { .struct_size = sizeof s,
                                   .values = b->states,
                                   .value_count = b->graph->value_count,
                                   .value_stride = sizeof *b->states,
                                   .max_threads = 1,
                                   .workspace_alignment = 64,
                                   .outputs = outputs,
                                   .output_count = b->output_count,
                                   .output_stride = sizeof *outputs };
    inlay_status status = INLAY_OK;

    r->fates = take(b->graph->value_count, 1);
    c.constants = r->fates;
    if (placements == NULL || outputs == NULL || r->fates == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < b->input_count + b->output_count; i++)
        placements[i].value = i < b->input_count ? b->inputs[i] : b->outputs[i - b->input_count];
    for (uint32_t i = 0; i < b->output_count; i++)
        outputs[i].alias = INLAY_NONE;
    INLAY_TRY(r->provider->compile(r->state, &c, &r->compiled, &diag));
    INLAY_TRY(r->provider->specialize(r->state, r->compiled, &s, &r->instance, &diag));
    for (uint32_t i = 0; i < b->output_count; i++)
        if (outputs[i].kind != INLAY_OUTPUT_KNOWN)
            return inlay_fail(&diag, INLAY_UNSUPPORTED, "the shape of an output of node %s depends on data",
                              inlay_graph_node(b->graph, b->nodes[0])->name.data);
    r->workspace_bytes = s.workspace_bytes;
    r->workspace_alignment = s.workspace_alignment < 64 ? 64 : s.workspace_alignment;
    if (s.workspace_bytes + r->workspace_alignment > *workspace)
        *workspace = s.workspace_bytes + r->workspace_alignment;
done:
    return status;
}

static void *address(const bundle_place *p, const void *const *inputs, void *const *outputs)
{
    switch (p->kind) {
    case BUNDLE_SLAB:
        return slab + p->offset;
    case BUNDLE_INPUT:
        return inputs != NULL ? (void *)(uintptr_t)inputs[p->index] : NULL;
    case BUNDLE_OUTPUT:
        return outputs != NULL ? outputs[p->index] : NULL;
    default:
        return (void *)(uintptr_t)p->data;
    }
}

static void fill_tensor(inlay_tensor_arg *t, const bundle_place *p, const inlay_value_state *st)
{
    t->buffer.handle = (uintptr_t)address(p, NULL, NULL);
    t->buffer.bytes = p->bytes;
    t->dims = (int64_t *)(uintptr_t)st->dims;
    t->rank = st->rank;
    t->dtype = st->dtype;
}

static inlay_status make_call(struct call *c, const bundle_step *s, char *workspace)
{
    const bundle_region *b = &now->regions[s->region];
    const struct ready *r = &regions[s->region];

    c->step = s;
    if (s->kind != BUNDLE_RUN)
        return INLAY_OK;
    c->region = r;
    c->tensors = take((uint64_t)b->input_count + b->output_count, sizeof *c->tensors);
    if (c->tensors == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < b->input_count; i++)
        fill_tensor(&c->tensors[i], &s->in[i], &b->states[b->inputs[i]]);
    for (uint32_t i = 0; i < b->output_count; i++)
        fill_tensor(&c->tensors[b->input_count + i], &s->out[i], &b->states[b->outputs[i]]);
    c->args = (inlay_exec_args){ .struct_size = sizeof c->args,
                                 .run = &run,
                                 .inputs = c->tensors,
                                 .outputs = c->tensors + b->input_count,
                                 .input_count = b->input_count,
                                 .output_count = b->output_count,
                                 .arg_stride = sizeof *c->tensors,
                                 .diag = &diag };
    workspace =
        (char *)(((uintptr_t)workspace + r->workspace_alignment - 1) / r->workspace_alignment * r->workspace_alignment);
    c->args.workspace = (inlay_buffer){ .handle = (uintptr_t)workspace, .bytes = r->workspace_bytes };
    return INLAY_OK;
}

static inlay_status start(void)
{
    const inlay_provider *tables[BUNDLE_PROVIDERS] = { NULL };
    void *states[BUNDLE_PROVIDERS] = { NULL };
    uint64_t workspace = 0;
    inlay_status status;

    run.threads = 1;
    INLAY_TRY(open_providers(tables, states));
    regions = take(now->region_count, sizeof *regions);
    calls = take(now->step_count, sizeof *calls);
    if (regions == NULL || calls == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < now->region_count; i++) {
        regions[i].provider = tables[now->regions[i].provider];
        regions[i].state = states[now->regions[i].provider];
        INLAY_TRY(compile_region(&now->regions[i], &regions[i], &workspace));
    }
    slab = heap_alloc(now->slab_bytes + 64 + workspace, 64);
    if (slab == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small for the model's tensors");
    for (uint32_t i = 0; i < now->step_count; i++)
        INLAY_TRY(make_call(&calls[i], &now->steps[i], slab + now->slab_bytes + 64));
done:
    return status;
}

int bundle_start(const bundle_model *model, void *arena, uint64_t bytes)
{
    inlay_status status;

    if (started != 0)
        return started > 0 ? INLAY_OK : diag.code;
    now = model;
    if (model->isa != NULL)
        bundle_cap(model->isa);
    if (model->packs_levels == UINT32_MAX && !model->has_originals)
        bundle_cap_bytes();
    if (model->only_level != 0 && model->only_level != bundle_level()) {
        status = inlay_fail(&diag, INLAY_UNSUPPORTED,
                            "made for CPUs with other instructions than this one has (--for native)");
    } else if (arena != NULL && ((uintptr_t)arena % 64 != 0 || bytes < 4096)) {
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                            "the arena must begin at a multiple of 64 bytes and have "
                            "at least 4096");
    } else {
        heap_open(arena, bytes);
        status = start();
        if (status == INLAY_OUT_OF_MEMORY && arena != NULL)
            status = inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small: the model needs %llu bytes",
                                (unsigned long long)model->arena_bytes);
    }
    started = status == INLAY_OK ? 1 : -1;
    return status;
}

/* ------------------------------------------------------------------ running */

static inlay_status run_region(struct call *c, const void *const *inputs, void *const *outputs)
{
    const bundle_step *s = c->step;
    const uint32_t in = c->args.input_count, out = c->args.output_count;

    for (uint32_t i = 0; i < in; i++)
        if (s->in[i].kind == BUNDLE_INPUT || s->in[i].kind == BUNDLE_OUTPUT)
            c->tensors[i].buffer.handle = (uintptr_t)address(&s->in[i], inputs, outputs);
    for (uint32_t i = 0; i < out; i++)
        if (s->out[i].kind == BUNDLE_OUTPUT)
            c->tensors[in + i].buffer.handle = (uintptr_t)outputs[s->out[i].index];
    return c->region->provider->execute(c->region->state, c->region->compiled, c->region->instance, &c->args);
}

/* A step of a Loop, number i; returns the one before the next. */
static uint32_t loop_step(const bundle_step *s, uint32_t i, const void *const *inputs, void *const *outputs)
{
    int64_t *count = address(s->kind == BUNDLE_BEGIN ? &s->out[0] : &s->in[0], inputs, outputs), most;

    if (s->kind == BUNDLE_BEGIN) {
        *count = 0;
        *(uint8_t *)address(&s->out[1], inputs, outputs) = 1;
        return i;
    }
    if (s->kind == BUNDLE_NEXT) {
        ++*count;
        return s->target - 1;
    }
    if (*(const uint8_t *)address(&s->in[1], inputs, outputs) == 0)
        return s->target - 1;
    if (s->in_count > 2) {
        memcpy(&most, address(&s->in[2], inputs, outputs), sizeof most); /* a caller's address may be odd */
        if (*count >= most)
            return s->target - 1;
    }
    return i;
}

void bundle_run_all(const bundle_model *model, const void *const *inputs, void *const *outputs)
{
    for (uint32_t i = 0; i < model->step_count; i++)
        if (model->steps[i].kind == BUNDLE_RUN)
            (void)!run_region(&calls[i], inputs, outputs);
}

void bundle_left_out(void)
{
    left_out = 1;
}

int bundle_run(const bundle_model *model, const void *const *inputs, void *const *outputs)
{
    inlay_status status = started == 0 ? bundle_start(model, NULL, 0) : INLAY_OK;

    if (started < 0 || now != model)
        return started < 0 ? diag.code : INLAY_INVALID_ARGUMENT;
    for (uint32_t i = 0; status == INLAY_OK && i < now->step_count; i++) {
        const bundle_step *s = &now->steps[i];

        switch (s->kind) {
        case BUNDLE_RUN:
            status = run_region(&calls[i], inputs, outputs);
            break;
        case BUNDLE_COPY:
            memcpy(address(s->out, inputs, outputs), address(s->in, inputs, outputs), s->out->bytes);
            break;
        case BUNDLE_SCAN:
            memcpy((char *)address(s->out, inputs, outputs) +
                       *(const int64_t *)address(&s->in[1], inputs, outputs) * (int64_t)s->in->bytes,
                   address(s->in, inputs, outputs), s->in->bytes);
            break;
        case BUNDLE_UNLESS:
            if (*(const uint8_t *)address(s->in, inputs, outputs) == 0)
                i = s->target - 1;
            break;
        case BUNDLE_BEGIN:
        case BUNDLE_TEST:
        case BUNDLE_NEXT:
            i = loop_step(s, i, inputs, outputs);
            break;
        default:
            i = s->target - 1;
        }
    }
    if (left_out)
        status = inlay_fail(&diag, INLAY_INTERNAL,
                            "the program was made without a kernel that it needs on this CPU; "
                            "INLAY_ISA=avx2 in the environment may help");
    return status;
}

const char *bundle_error_node(void)
{
    return diag.node;
}

const char *bundle_error(void)
{
    return diag.text;
}

uint64_t bundle_arena_peak(void)
{
    return heap_peak();
}

uint64_t bundle_allocations(void)
{
    return heap_calls();
}

const uint8_t *bundle_constant_fates(uint32_t region)
{
    return regions != NULL ? regions[region].fates : NULL;
}
