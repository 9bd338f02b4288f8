/* The run-time part of a bundle: the host's functions for providers, start and run. */
#include "bundle.h"
#include "inlay/extensions.h"
#include <stdbool.h>
#include <string.h>

struct inlay_run {
    uint32_t threads;
};

/* A compiled region. */
struct ready_region {
    const inlay_provider *provider;
    void *state;
    inlay_compiled *compiled;
    inlay_instance *instance;
    uint8_t *fates;
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
};

/* A step, with the addresses that are equal in all runs. */
struct call {
    const bundle_step *step;
    const struct ready_region *region;
    inlay_exec_args args;
    inlay_tensor_arg *tensors; /* inputs, then outputs */
};

/* Weights that were packed at start. */
struct made_pack {
    struct made_pack *next;
    uint64_t key[2];
    uint64_t source; /* see bundle_made_packs() */
    uint64_t bytes;
    void *data;
    int kept;
};

static const bundle_model *model_in_use;
static struct ready_region *regions;
static struct call *calls;
static char *slab;
static struct made_pack *made_packs;
static void *dropped_pages; /* see bundle_drop_pages() */
static uint64_t dropped_bytes;
static const bundle_region *current; /* the region that is being compiled or run */
static inlay_run run;
static inlay_diag diag = INLAY_DIAG_INIT;
static int called_excluded;
static int started; /* 1: started; -1: the start failed */

uint32_t bundle_level(void);
bool bundle_use_uniform(void);
void bundle_limit_isa(const char *isa);
void bundle_limit_byte_kernels(void);

static void host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static inlay_status host_parallel_for(void *ctx, inlay_run *active_run, int64_t count, int64_t grain,
                                      inlay_parallel_fn fn, void *user)
{
    (void)ctx, (void)active_run, (void)grain;
    return count > 0 ? fn(user, 0, count, 0) : INLAY_OK;
}

static uint32_t host_thread_count(void *ctx, inlay_run *active_run)
{
    (void)ctx, (void)active_run;
    return 1;
}

static inlay_status host_output_alloc(void *ctx, inlay_run *active_run, const inlay_output_request *request,
                                      inlay_buffer *out)
{
    (void)ctx, (void)active_run, (void)request;
    *out = (inlay_buffer){ 0 };
    return INLAY_UNSUPPORTED; /* all shapes are fixed */
}

static char *host_string_alloc(void *ctx, inlay_run *active_run, uint64_t bytes)
{
    (void)ctx, (void)active_run, (void)bytes;
    return NULL;
}

static inlay_status host_poll(void *ctx, inlay_run *active_run)
{
    (void)ctx, (void)active_run;
    return INLAY_OK;
}

static void host_fence_signal(void *ctx, inlay_fence fence, inlay_status status, const inlay_diag *why)
{
    (void)ctx, (void)fence, (void)status, (void)why;
}

static inlay_status host_fence_wait(void *ctx, inlay_run *active_run, inlay_fence fence, inlay_diag *failure)
{
    (void)ctx, (void)active_run, (void)fence, (void)failure;
    return INLAY_OK;
}

static const void *host_align_constant(void *ctx, void *compile, uint32_t value, uint32_t alignment)
{
    const bundle_region *region = compile;
    const inlay_value_info *info = inlay_graph_value(region->graph, value);
    void *copy;

    (void)ctx;
    if (info == NULL || info->data == NULL || (uintptr_t)info->data % alignment == 0)
        return info != NULL ? info->data : NULL;
    copy = heap_alloc(info->data_bytes, alignment);
    if (copy != NULL)
        memcpy(copy, info->data, info->data_bytes);
    return copy;
}

/* A bundle stores no cache, so the build identifier is unused; a plugin would hash its code. */
void kit_build_id(const void *at, const char *version, char *text, size_t bytes);
void kit_build_id(const void *at, const char *version, char *text, size_t bytes)
{
    (void)at, (void)version, (void)bytes;
    text[0] = '\0';
}

/* Hashes a key to two numbers, eight bytes at a time: keys contain tables of scales, and a start hashes all of them. */
static void make_key(const bundle_region *region, const void *key, uint64_t key_bytes, uint64_t out[2])
{
    uint64_t first = UINT64_C(14695981039346656037) + region->provider,
             second = UINT64_C(0x9e3779b97f4a7c15) + key_bytes;

    for (uint64_t i = 0; i < key_bytes; i += 8) {
        uint64_t part = 0;

        memcpy(&part, (const char *)key + i, key_bytes - i < 8 ? key_bytes - i : 8);
        first = (first ^ part) * UINT64_C(0xff51afd7ed558ccd);
        second = (second + (part ^ part >> 32)) * UINT64_C(0xc4ceb9fe1a85ec53);
        first ^= first >> 32;
        second ^= second >> 29;
    }
    out[0] = first;
    out[1] = second;
}

/* The content hash of the region's only constant in the key; 0: none, or several. */
static uint64_t find_source(const bundle_region *region, const void *key, uint64_t key_bytes)
{
    uint64_t found = 0, word;

    for (uint64_t at = 0; at + sizeof word <= key_bytes; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        for (uint32_t value = 0; word != 0 && word != found && value < region->graph->value_count; value++) {
            const inlay_value_info *info = inlay_graph_value(region->graph, value);

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
    const uint64_t key[2] = { known[0] ^ (bundle_level() & model_in_use->packs_levels), known[1] };
    uint32_t low = 0, high = model_in_use->pack_count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const bundle_pack *pack = &model_in_use->packs[middle];

        if (pack->key[0] == key[0] && pack->key[1] == key[1])
            return pack->bytes == bytes ? pack : NULL;
        if (pack->key[0] < key[0] || (pack->key[0] == key[0] && pack->key[1] < key[1]))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static inlay_status packs_take(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes,
                               void **out_data, uint32_t *out_known)
{
    const bundle_pack *pack;
    struct made_pack *made;
    uint64_t hashed_key[2];

    (void)ctx;
    make_key(compile, key, key_bytes, hashed_key);
    pack = find_pack(hashed_key, bytes);
    *out_known = 0;
    if (pack != NULL && pack->offset != BUNDLE_MADE_AT_START) {
        *out_data = (void *)(uintptr_t)(model_in_use->packs_data + pack->offset);
        *out_known = 1;
        return INLAY_OK;
    }
    if (pack == NULL && model_in_use->has_originals == 0)
        return inlay_fail(&diag, INLAY_INTERNAL,
                          "the program was made without weights for this CPU; try INLAY_ISA=avx2 in "
                          "the environment");
    for (made = made_packs; made != NULL; made = made->next) {
        if (made->key[0] == hashed_key[0] && made->key[1] == hashed_key[1] && made->bytes == bytes && made->kept) {
            *out_data = made->data;
            *out_known = 1;
            return INLAY_OK;
        }
    }
    made = heap_alloc(sizeof *made, 64);
    *out_data = heap_alloc(bytes, 64);
    if (made == NULL || *out_data == NULL)
        return INLAY_OUT_OF_MEMORY;
    memset(*out_data, 0, bytes); /* padding that the provider does not write must be equal in all bundles */
    *made = (struct made_pack){ .next = made_packs,
                                .key = { hashed_key[0], hashed_key[1] },
                                .source = model_in_use->packs_first != 0 ? find_source(compile, key, key_bytes) : 0,
                                .bytes = bytes,
                                .data = *out_data };
    made_packs = made;
    return INLAY_OK;
}

void bundle_drop_pages(void *pages, uint64_t bytes)
{
    dropped_pages = pages;
    dropped_bytes = bytes;
}

static void packs_keep(void *ctx, void *compile, const void *data)
{
    const uint64_t min_bytes = 1 << 18;

    (void)ctx, (void)compile;
    for (struct made_pack *made = made_packs; made != NULL; made = made->next) {
        made->kept |= made->data == data;
        if (made->data == data && dropped_bytes > 0 && made->bytes >= min_bytes)
            pages_drop(dropped_pages, dropped_bytes);
    }
}

void bundle_made_packs(bundle_pack_fn each, void *ctx)
{
    for (const struct made_pack *made = made_packs; made != NULL; made = made->next)
        if (made->kept)
            each(ctx, made->key, made->source, made->data, made->bytes);
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

static void *allocate(uint64_t count, uint64_t bytes)
{
    void *memory = heap_alloc(count * bytes + 1, 64);

    if (memory != NULL)
        memset(memory, 0, count * bytes + 1);
    return memory;
}

static inlay_status open_providers(const inlay_provider **tables, void **states)
{
    for (uint32_t i = 0; i < BUNDLE_PROVIDERS; i++) {
        const inlay_create_args args = { .struct_size = sizeof args,
                                         .options = model_in_use->options[i],
                                         .option_count = model_in_use->option_counts[i],
                                         .option_stride = sizeof *model_in_use->options[i],
                                         .first_domain = 1,
                                         .max_threads = 1 };
        inlay_status status;

        if (model_in_use->providers[i] == NULL)
            continue;
        tables[i] = model_in_use->providers[i](&host);
        if (tables[i] == NULL)
            return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "out of memory for a provider");
        status = tables[i]->create(tables[i]->ctx, &host, &args, &states[i], &diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status compile_region(const bundle_region *region, struct ready_region *ready, uint64_t *workspace)
{
    inlay_placement *placements = allocate((uint64_t)region->input_count + region->output_count, sizeof *placements);
    inlay_output_plan *outputs = allocate(region->output_count, sizeof *outputs);
    inlay_compile_request compile = { .struct_size = sizeof compile,
                                      .handle = (void *)(uintptr_t)region,
                                      .graph = region->graph,
                                      .nodes = region->nodes,
                                      .cookies = region->cookies,
                                      .inputs = region->inputs,
                                      .outputs = region->outputs,
                                      .node_count = region->node_count,
                                      .offer_count = region->cookie_count,
                                      .input_count = region->input_count,
                                      .output_count = region->output_count,
                                      .placements = placements,
                                      .placement_stride = sizeof *placements,
                                      .profile = region->states,
                                      .profile_stride = sizeof *region->states,
                                      .max_threads = 1 };
    inlay_specialize_request specialize = { .struct_size = sizeof specialize,
                                            .values = region->states,
                                            .value_count = region->graph->value_count,
                                            .value_stride = sizeof *region->states,
                                            .max_threads = 1,
                                            .workspace_alignment = 64,
                                            .outputs = outputs,
                                            .output_count = region->output_count,
                                            .output_stride = sizeof *outputs };
    inlay_status status = INLAY_OK;

    ready->fates = allocate(region->graph->value_count, 1);
    compile.constants = ready->fates;
    if (placements == NULL || outputs == NULL || ready->fates == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < region->input_count + region->output_count; i++)
        placements[i].value = i < region->input_count ? region->inputs[i] : region->outputs[i - region->input_count];
    for (uint32_t i = 0; i < region->output_count; i++)
        outputs[i].alias = INLAY_NONE;
    INLAY_TRY(ready->provider->compile(ready->state, &compile, &ready->compiled, &diag));
    INLAY_TRY(ready->provider->specialize(ready->state, ready->compiled, &specialize, &ready->instance, &diag));
    for (uint32_t i = 0; i < region->output_count; i++)
        if (outputs[i].kind != INLAY_OUTPUT_KNOWN)
            return inlay_fail(&diag, INLAY_UNSUPPORTED, "the shape of an output of node %s depends on data",
                              inlay_graph_node(region->graph, region->nodes[0])->name.data);
    ready->workspace_bytes = specialize.workspace_bytes;
    ready->workspace_alignment = specialize.workspace_alignment < 64 ? 64 : specialize.workspace_alignment;
    if (specialize.workspace_bytes + ready->workspace_alignment > *workspace)
        *workspace = specialize.workspace_bytes + ready->workspace_alignment;
done:
    return status;
}

static void *address(const bundle_place *place, const void *const *inputs, void *const *outputs)
{
    switch (place->kind) {
    case BUNDLE_SLAB:
        return slab + place->offset;
    case BUNDLE_INPUT:
        return inputs != NULL ? (void *)(uintptr_t)inputs[place->index] : NULL;
    case BUNDLE_OUTPUT:
        return outputs != NULL ? outputs[place->index] : NULL;
    default:
        return (void *)(uintptr_t)place->data;
    }
}

static void fill_tensor(inlay_tensor_arg *tensor, const bundle_place *place, const inlay_value_state *state)
{
    tensor->buffer.handle = (uintptr_t)address(place, NULL, NULL);
    tensor->buffer.bytes = place->bytes;
    tensor->dims = (int64_t *)(uintptr_t)state->dims;
    tensor->rank = state->rank;
    tensor->dtype = state->dtype;
}

static inlay_status make_call(struct call *call, const bundle_step *step, char *workspace)
{
    const bundle_region *region = &model_in_use->regions[step->region];
    const struct ready_region *ready = &regions[step->region];

    call->step = step;
    if (step->kind != BUNDLE_RUN)
        return INLAY_OK;
    call->region = ready;
    call->tensors = allocate((uint64_t)region->input_count + region->output_count, sizeof *call->tensors);
    if (call->tensors == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < region->input_count; i++)
        fill_tensor(&call->tensors[i], &step->in[i], &region->states[region->inputs[i]]);
    for (uint32_t i = 0; i < region->output_count; i++)
        fill_tensor(&call->tensors[region->input_count + i], &step->out[i], &region->states[region->outputs[i]]);
    call->args = (inlay_exec_args){ .struct_size = sizeof call->args,
                                    .run = &run,
                                    .inputs = call->tensors,
                                    .outputs = call->tensors + region->input_count,
                                    .input_count = region->input_count,
                                    .output_count = region->output_count,
                                    .arg_stride = sizeof *call->tensors,
                                    .diag = &diag };
    workspace = (char *)(((uintptr_t)workspace + ready->workspace_alignment - 1) / ready->workspace_alignment *
                         ready->workspace_alignment);
    call->args.workspace = (inlay_buffer){ .handle = (uintptr_t)workspace, .bytes = ready->workspace_bytes };
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
    regions = allocate(model_in_use->region_count, sizeof *regions);
    calls = allocate(model_in_use->step_count, sizeof *calls);
    if (regions == NULL || calls == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small to start the model");
    for (uint32_t i = 0; i < model_in_use->region_count; i++) {
        regions[i].provider = tables[model_in_use->regions[i].provider];
        regions[i].state = states[model_in_use->regions[i].provider];
        current = &model_in_use->regions[i];
        INLAY_TRY(compile_region(&model_in_use->regions[i], &regions[i], &workspace));
    }
    slab = heap_alloc(model_in_use->slab_bytes + 64 + workspace, 64);
    if (slab == NULL)
        return inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "the arena is too small for the model's tensors");
    for (uint32_t i = 0; i < model_in_use->step_count; i++)
        INLAY_TRY(make_call(&calls[i], &model_in_use->steps[i], slab + model_in_use->slab_bytes + 64));
done:
    return status;
}

int bundle_start(const bundle_model *model, void *arena, uint64_t bytes)
{
    inlay_status status;

    if (started != 0)
        return started > 0 ? INLAY_OK : diag.code;
    model_in_use = model;
    if (model->isa != NULL)
        bundle_limit_isa(model->isa);
    (void)bundle_use_uniform();
    if (model->packs_levels == UINT32_MAX && !model->has_originals)
        bundle_limit_byte_kernels();
    if (model->only_level != 0 && model->only_level != bundle_level()) {
        status = inlay_fail(&diag, INLAY_UNSUPPORTED, "the program was made for another kind of CPU (--for native)");
    } else if (arena != NULL && ((uintptr_t)arena % 64 != 0 || bytes < 4096)) {
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                            "the arena must be aligned to 64 bytes and have at least 4096 bytes");
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

const inlay_node_info *bundle_current_node(void)
{
    return current != NULL ? inlay_graph_node(current->graph, current->nodes[0]) : NULL;
}

/* Puts the node in front of the message of a failure in it. */
static inlay_status name_node(inlay_status status)
{
    const inlay_node_info *node = bundle_current_node();
    const inlay_diag why = diag;

    if (status != INLAY_OK && node != NULL && strstr(why.text, "node '") == NULL)
        (void)inlay_fail(&diag, status, "%s node '%s': %s", node->op_type.data, node->name.data, why.text);
    return status;
}

static inlay_status run_region(struct call *call, const void *const *inputs, void *const *outputs)
{
    const bundle_step *step = call->step;
    const uint32_t in = call->args.input_count, out = call->args.output_count;
    inlay_status status;

    current = &model_in_use->regions[step->region];

    for (uint32_t i = 0; i < in; i++)
        if (step->in[i].kind == BUNDLE_INPUT || step->in[i].kind == BUNDLE_OUTPUT)
            call->tensors[i].buffer.handle = (uintptr_t)address(&step->in[i], inputs, outputs);
    for (uint32_t i = 0; i < out; i++)
        if (step->out[i].kind == BUNDLE_OUTPUT)
            call->tensors[in + i].buffer.handle = (uintptr_t)outputs[step->out[i].index];
    status = call->region->provider->execute(call->region->state, call->region->compiled, call->region->instance,
                                             &call->args);
    if (status == INLAY_OK && called_excluded)
        status =
            inlay_fail(&diag, INLAY_INTERNAL,
                       "the program was made without a kernel that this CPU or these inputs need; INLAY_ISA=avx2 in "
                       "the environment may avoid it");
    return name_node(status);
}

/* Executes step i, which is a BEGIN, TEST or NEXT. Returns the index before that of the next step, because the loop of
 * bundle_run() increments it. */
static uint32_t loop_step(const bundle_step *step, uint32_t i, const void *const *inputs, void *const *outputs)
{
    int64_t *count = address(step->kind == BUNDLE_BEGIN ? &step->out[0] : &step->in[0], inputs, outputs), limit;

    if (step->kind == BUNDLE_BEGIN) {
        *count = 0;
        *(uint8_t *)address(&step->out[1], inputs, outputs) = 1;
        return i;
    }
    if (step->kind == BUNDLE_NEXT) {
        ++*count;
        return step->target - 1;
    }
    if (*(const uint8_t *)address(&step->in[1], inputs, outputs) == 0 || (uint64_t)*count >= step->block)
        return step->target - 1;
    if (step->in_count > 2) {
        memcpy(&limit, address(&step->in[2], inputs, outputs),
               sizeof limit); /* the caller's address may be unaligned */
        if (*count >= limit)
            return step->target - 1;
    }
    return i;
}

/* Executes a SCAN or an ELEMENT. */
static void copy_element(const bundle_step *step, const void *const *inputs, void *const *outputs)
{
    const int stores = step->kind == BUNDLE_SCAN;
    const bundle_place *one = stores ? step->in : step->out, *all = stores ? step->out : step->in;
    char *element = address(one, inputs, outputs), *axis = address(all, inputs, outputs);
    uint64_t index = (uint64_t) * (const int64_t *)address(&step->in[1], inputs, outputs), length;

    if (one->bytes == 0 || step->block == 0)
        return;
    length = all->bytes / one->bytes;
    if (step->backwards)
        index = length - 1 - index;
    for (uint64_t done = 0; done < one->bytes;
         done += step->block, axis += length * step->block, element += step->block)
        memcpy(stores ? axis + index * step->block : element, stores ? element : axis + index * step->block,
               step->block);
}

void bundle_run_all(const bundle_model *model, const void *const *inputs, void *const *outputs)
{
    for (uint32_t i = 0; i < model->step_count; i++)
        if (model->steps[i].kind == BUNDLE_RUN)
            (void)!run_region(&calls[i], inputs, outputs);
}

void bundle_fail_excluded(void)
{
    called_excluded = 1;
}

int bundle_run(const bundle_model *model, const void *const *inputs, void *const *outputs)
{
    inlay_status status = started == 0 ? bundle_start(model, NULL, 0) : INLAY_OK;

    if (started < 0 || model_in_use != model)
        return started < 0 ? diag.code : INLAY_INVALID_ARGUMENT;
    for (uint32_t i = 0; status == INLAY_OK && i < model_in_use->step_count; i++) {
        const bundle_step *step = &model_in_use->steps[i];

        switch (step->kind) {
        case BUNDLE_RUN:
            status = run_region(&calls[i], inputs, outputs);
            break;
        case BUNDLE_COPY:
            memcpy(address(step->out, inputs, outputs), address(step->in, inputs, outputs), step->out->bytes);
            break;
        case BUNDLE_SCAN:
        case BUNDLE_ELEMENT:
            copy_element(step, inputs, outputs);
            break;
        case BUNDLE_UNLESS:
            if (*(const uint8_t *)address(step->in, inputs, outputs) == 0)
                i = step->target - 1;
            break;
        case BUNDLE_BEGIN:
        case BUNDLE_TEST:
        case BUNDLE_NEXT:
            i = loop_step(step, i, inputs, outputs);
            break;
        default:
            i = step->target - 1;
        }
    }
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
