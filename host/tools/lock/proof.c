#include "lock/proof.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/output.h"
#include "config/options.h"
#include "data/hash.h"
#include "data/npy.h"
#include "data/value.h"
#include "data/view.h"
#include "lock/lock.h"
#include "model/model_part.h"
#include "session/session.h"
#include "inlay/check.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 4 }; /* 1 had other hashes of tensors, 2 other tensors at the ends of regions, 3 runs of whole models */

/* ---- regions */

typedef bool (*value_test)(const graph_model *model, const uint8_t *kinds, uint32_t value);

static bool is_tensor_of_proof(const graph_model *model, const uint8_t *kinds, uint32_t value)
{
    return kinds[value] != MODEL_PART_CONSTANT || /* which each region computes itself */
           (model->main->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0;
}

static bool is_size(const graph_model *model, const uint8_t *kinds, uint32_t value)
{
    (void)model;
    return kinds[value] == MODEL_PART_SIZE;
}

/* Those of the values for which `test` is true. */
static uint32_t *select_values(graph_model *model, const uint8_t *kinds, const uint32_t *values, uint32_t count,
                               value_test test, uint32_t *out_count)
{
    uint32_t *selected = arena_array(&model->arena, (size_t)count + 1, sizeof *selected);

    *out_count = 0;
    for (uint32_t i = 0; selected != NULL && i < count; i++)
        if (test(model, kinds, values[i]))
            selected[(*out_count)++] = values[i];
    return selected;
}

static inlay_status cut_region(proof_run *run, const uint8_t *kinds, uint32_t index, inlay_diag *diag)
{
    proof_region *region = &run->regions[index];
    graph_model *model = run->model;
    model_part part;
    inlay_status status = model_part_stage(model, index, run->count, &part, diag);

    if (status != INLAY_OK)
        return status;
    region->inputs =
        select_values(model, kinds, part.inputs, part.input_count, is_tensor_of_proof, &region->input_count);
    region->outputs =
        select_values(model, kinds, part.outputs, part.output_count, is_tensor_of_proof, &region->output_count);
    region->sizes = select_values(model, kinds, part.inputs, part.input_count, is_size, &region->size_count);
    return region->inputs != NULL && region->outputs != NULL && region->sizes != NULL
               ? INLAY_OK
               : no_memory(diag, "for the regions");
}

/* Loads the model and cuts it; the options are those of the regions. */
static inlay_status cut(proof_run *run, const char *path, uint32_t count, inlay_diag *diag)
{
    const session_source source = { .path = path, .fd = -1 };
    inlay_session raw = { .model = NULL };
    const uint8_t *kinds;
    model_part all;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, run->options, diag));
    run->model = raw.model;
    INLAY_TRY(
        model_part_between(raw.model, NULL, 0, raw.model->main->outputs, raw.model->main->output_count, &all, diag));
    if (all.kept == 0) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s: no node computes its outputs, so there is nothing to verify",
                            path);
        goto done;
    }
    run->count = count < all.kept ? count : all.kept;
    run->regions = calloc(run->count, sizeof *run->regions);
    run->values = calloc((size_t)raw.model->main->value_count + 1, sizeof(inlay_value *));
    kinds = model_part_kinds(raw.model);
    if (run->regions == NULL || run->values == NULL || kinds == NULL)
        return no_memory(diag, "for the regions");
    for (uint32_t i = 0; i < run->count; i++)
        INLAY_TRY(cut_region(run, kinds, i, diag));
done:
    return status;
}

static void release_values(proof_run *run)
{
    for (uint32_t i = 0; run->values != NULL && i < run->model->main->value_count; i++) {
        inlay_value_unref(run->values[i]);
        run->values[i] = NULL;
    }
}

void proof_run_deinit(proof_run *run)
{
    release_values(run);
    free(run->values);
    free(run->regions);
    inlay_options_destroy(run->options);
    graph_model_destroy(run->model);
    *run = (proof_run){ 0 };
}

/* ---- the session of a region */

typedef struct region_opening {
    const proof_run *run;
    uint32_t region;
    uint32_t nodes; /* out */
} region_opening;

static const char *name_of(const proof_run *run, uint32_t value)
{
    return run->model->main->values[value].info.name.data;
}

/* A view of a value of the run that is to be a tensor of the proof. */
static inlay_status view_of(const proof_run *run, uint32_t value, inlay_tensor_view *out, inlay_diag *diag)
{
    const inlay_value *tensor = run->values[value];

    return tensor != NULL && !run->model->main->values[value].sparse && value_view(tensor, out)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_UNSUPPORTED,
                            "value '%.200s' is no tensor in memory, and cannot be part of a proof; another number of "
                            "regions may not cut there",
                            name_of(run, value));
}

/* Gives an input of the region the type and sizes of its tensor. */
static inlay_status declare_as(graph_model *model, uint32_t index, const inlay_tensor_view *view, inlay_diag *diag)
{
    graph_value *value = &model->main->values[index];
    inlay_dim *dims = arena_array(&model->arena, (size_t)view->rank + 1, sizeof *dims);

    if (dims == NULL)
        return no_memory(diag, "for the inputs of a region");
    for (uint32_t d = 0; d < view->rank; d++)
        dims[d] = (inlay_dim){ .value = view->dims[d], .kind = INLAY_DIM_FIXED };
    value->inner_kind = 0;
    value->declared = true;
    value->info.kind = INLAY_VALUE_TENSOR;
    value->info.dtype = value->declared_dtype = view->dtype;
    value->info.rank = value->declared_rank = view->rank;
    value->info.dims = value->declared_dims = dims;
    return INLAY_OK;
}

/* Makes an input of the region a constant with this value. */
static inlay_status fix_input(struct graph *graph, uint32_t input, const inlay_tensor_view *view, inlay_diag *diag)
{
    void *data = arena_alloc(&graph->model->arena, view->bytes + 1);

    if (data == NULL)
        return no_memory(diag, "for the sizes of a region");
    if (view->bytes > 0)
        memcpy(data, view->data, view->bytes);
    graph->values[input].declared = false;
    return graph_set_constant(graph, input, view->dtype, view->rank, view->dims, data, view->bytes) == INLAY_OK
               ? INLAY_OK
               : no_memory(diag, "for the sizes of a region");
}

/* session_source.reduce: reduces the model to the region. What follows from sizes becomes constants: in the whole model
 * these values are known before a run, and providers refuse some nodes, such as Reshape, where they are not. */
static inlay_status reduce(void *ctx, graph_model *model, inlay_diag *diag)
{
    region_opening *opening = ctx;
    const proof_run *run = opening->run;
    const proof_region *region = &run->regions[opening->region];
    struct graph *graph = model->main;
    inlay_tensor_view view;
    model_part part;
    uint32_t kept = 0;
    inlay_status status;

    INLAY_CHECK(graph->value_count == run->model->main->value_count);
    INLAY_TRY(model_part_stage(model, opening->region, run->count, &part, diag));
    opening->nodes = part.kept;
    memcpy(part.outputs, region->outputs, region->output_count * sizeof *part.outputs);
    part.output_count = region->output_count;
    for (uint32_t i = 0; i < part.input_count; i++)
        if (run->values[part.inputs[i]] != NULL) { /* otherwise it has its default */
            INLAY_TRY(view_of(run, part.inputs[i], &view, diag));
            INLAY_TRY(declare_as(model, part.inputs[i], &view, diag));
        }
    INLAY_TRY(model_cut(model, &part, NULL, NULL, diag));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (!is_listed(region->sizes, region->size_count, graph->inputs[i])) {
            graph->inputs[kept++] = graph->inputs[i];
            continue;
        }
        INLAY_TRY(view_of(run, graph->inputs[i], &view, diag));
        INLAY_TRY(fix_input(graph, graph->inputs[i], &view, diag));
    }
    graph->input_count = kept;
    status = graph_finish(graph, diag);
done:
    return status;
}

static inlay_status bind_inputs(const proof_run *run, const proof_region *region, inlay_context *context,
                                const inlay_session *session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < region->input_count && status == INLAY_OK; i++) {
        const uint32_t input = inlay_session_find_input(session, name_of(run, region->inputs[i]));

        if (input != INLAY_NONE) /* it is no size */
            status = inlay_context_set_input(context, input, run->values[region->inputs[i]], diag);
    }
    return status;
}

static inlay_status take_outputs(proof_run *run, const proof_region *region, inlay_context *context,
                                 const inlay_session *session, inlay_diag *diag)
{
    inlay_tensor_view view;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < region->output_count && status == INLAY_OK; i++) {
        const uint32_t value = region->outputs[i], output = inlay_session_find_output(session, name_of(run, value));

        INLAY_CHECK(output != INLAY_NONE);
        inlay_value_unref(run->values[value]);
        run->values[value] = inlay_value_ref(inlay_context_output(context, output));
        status = view_of(run, value, &view, diag);
    }
    return status;
}

/* A node whose results are random, in a program or its bodies; NULL: none. */
static const graph_node *find_random(const struct program *program)
{
    for (uint32_t i = 0; i < program->graph->node_count; i++)
        if (graph_node_is_random(program->graph, program->graph->nodes[i]))
            return program->graph->nodes[i];
    for (uint32_t b = 0; b < program->body_count; b++) {
        const graph_node *found = find_random(program->bodies[b]);

        if (found != NULL)
            return found;
    }
    return NULL;
}

/* Computes a region from the values that enter it, and sets those that leave it. */
static inlay_status compute(proof_run *run, uint32_t index, const inlay_run_options *limits, uint32_t *out_nodes,
                            inlay_diag *diag)
{
    const proof_region *region = &run->regions[index];
    region_opening opening = { .run = run, .region = index };
    const session_source source = { .fd = -1, .whole = run->model, .reduce = reduce, .ctx = &opening };
    double start = clock_ms();
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    const graph_node *random;
    inlay_status status;

    INLAY_TRY(session_open(&source, run->options, &session, diag));
    *out_nodes = opening.nodes;
    random = find_random(session->main);
    if (random != NULL) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "the results of %s '%.100s' are random, so no run can be verified",
                            random->info.op_type.data, random->info.name.data);
        goto done;
    }
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(bind_inputs(run, region, context, session, diag));
    run->create_ms += clock_ms() - start;
    start = clock_ms();
    INLAY_TRY(inlay_context_run(context, limits, diag));
    run->run_ms += clock_ms() - start;
    status = take_outputs(run, region, context, session, diag);
done:
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status;
}

/* ---- the run */

/* Is NAME or NAME=VALUE an option of another provider than those that reproducible=cpu runs? It may name a library to
 * load, which a proof of a stranger must not. */
static bool is_of_other_provider(const char *setting)
{
    return setting[strcspn(setting, ".=")] == '.' && strncmp(setting, "cpu.", 4) != 0 &&
           strncmp(setting, "reference.", 10) != 0;
}

/* Checks the options of a run that will be committed. */
static inlay_status check_options(const inlay_options *options, inlay_diag *diag)
{
    /* They add inputs or outputs to the model, choose a variant of it, divide an error among all nodes, or report on
     * the whole session. */
    static const struct {
        const char *name, *otherwise;
    } of_whole_models[] = { { "adapter", "" },      { "image_rows", "0" }, { "kv_cache_bits", "model" },
                            { "last_logits", "0" }, { "ladder", "" },      { "max_error", "0" },
                            { "placement", "0" },   { "tap", "" },         { "watchdog", "0" } };
    inlay_setting item = { .struct_size = sizeof item };

    for (uint32_t i = 0; inlay_options_setting(options, i, &item) == INLAY_OK; i++) {
        if (item.source == INLAY_SOURCE_DEFAULT)
            continue;
        if (is_of_other_provider(item.name))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "--commit permits options of the providers cpu and reference only, and %.100s sets "
                              "%.100s; remove that",
                              item.origin, item.name);
        if (strcmp(item.name, "reproducible") == 0 && strcmp(item.text, "cpu") != 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "--commit needs reproducible=cpu, and %.100s sets it to %.20s; remove that", item.origin,
                              item.text);
        for (size_t k = 0; k < sizeof of_whole_models / sizeof of_whole_models[0]; k++)
            if (strcmp(item.name, of_whole_models[k].name) == 0 && item.text[0] != '\0' &&
                strcmp(item.text, of_whole_models[k].otherwise) != 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                  "--commit runs each region by itself, and %.100s sets %.100s, which concerns the "
                                  "whole model; remove that",
                                  item.origin, item.name);
    }
    return INLAY_OK;
}

/* Does an option that no proof has apply to the regions? It changes no result. */
static bool is_local(const char *name)
{
    return lock_is_local(name) || strcmp(name, "isa") == 0 || strcmp(name, "intra_threads") == 0;
}

/* Options with the settings of a run, and what is local among those of this machine. */
static inlay_status make_options(const json_t *settings, const inlay_options *local, inlay_options **out,
                                 inlay_diag *diag)
{
    inlay_setting item = { .struct_size = sizeof item };
    inlay_status status;

    INLAY_TRY(inlay_options_create(out, diag));
    for (uint32_t k = 0; inlay_options_setting(local, k, &item) == INLAY_OK; k++)
        if (is_local(item.name) && item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0')
            INLAY_TRY(options_set_item(*out, item.name, item.text, diag));
    inlay_options_set_log(*out, local->log, local->log_user);
    status = lock_apply_settings(settings, *out, diag);
done:
    return status;
}

/* Settings that change results: not those of the machine, and not sizes, which the tensors have. */
static json_t *settings_of(const inlay_options *options)
{
    static const char *const without[] = { "isa=", "intra_threads=", "dim=", "sizes=", "log" };
    json_t *all = lock_settings(options), *kept = json_array(), *entry;
    size_t i;

    json_array_foreach(all, i, entry) {
        bool is_kept = true;

        for (size_t k = 0; k < sizeof without / sizeof without[0]; k++)
            is_kept = is_kept && strncmp(json_string_value(entry), without[k], strlen(without[k])) != 0;
        if (is_kept)
            (void)json_array_append(kept, entry);
    }
    json_decref(all);
    return kept;
}

inlay_status proof_run_begin(const char *path, inlay_options *options, uint32_t count, proof_run *out, inlay_diag *diag)
{
    json_t *settings = NULL;
    inlay_status status;

    *out = (proof_run){ 0 };
    INLAY_TRY(check_options(options, diag));
    INLAY_TRY(inlay_options_set_from(options, "reproducible", "cpu", "--commit", diag));
    settings = settings_of(options);
    INLAY_TRY(make_options(settings, options, &out->options, diag));
    status = cut(out, path, count, diag);
done:
    json_decref(settings);
    return status;
}

/* Checks the inputs of a run and takes references. */
static inlay_status take_inputs(proof_run *run, const inlay_session *session, inlay_value *const *inputs,
                                inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        uint32_t value;

        INLAY_TRY(inlay_session_input(session, i, &info));
        value = graph_find_value(run->model->main, info.name);
        INLAY_CHECK(value != INLAY_NONE);
        if (inputs[i] == NULL)
            continue;
        INLAY_TRY(session_input_fits(session, i, inputs[i], diag));
        run->values[value] = inlay_value_ref(inputs[i]);
    }
done:
    return status;
}

/* Outputs of the model that no node computes: initializers, and inputs with their defaults. */
static inlay_status take_constants(proof_run *run, inlay_diag *diag)
{
    const struct graph *graph = run->model->main;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->output_count && status == INLAY_OK; i++) {
        const graph_value *value = &graph->values[graph->outputs[i]];
        const uint32_t rank = value->info.rank;
        inlay_tensor_view view = { .data = value->info.data,
                                   .bytes = value->info.data_bytes,
                                   .dtype = value->info.dtype };
        int64_t *dims;

        if (run->values[graph->outputs[i]] != NULL)
            continue;
        if (value->default_value != NULL) {
            view = *value->default_value;
        } else {
            INLAY_CHECK(graph_is_constant(graph, graph->outputs[i]));
            dims = arena_array(&run->model->arena, (size_t)rank + 1, sizeof *dims);
            if (dims == NULL)
                return no_memory(diag, "for an output");
            for (uint32_t d = 0; d < rank; d++)
                dims[d] = value->info.dims[d].value;
            view.dims = dims;
            view.rank = rank;
        }
        status = value_from_view(&view, &run->values[graph->outputs[i]], diag);
    }
    return status;
}

inlay_status proof_run_make(proof_run *run, const inlay_session *session, inlay_value *const *inputs,
                            const inlay_run_options *limits, inlay_diag *diag)
{
    inlay_run_options left = *limits;
    const double start = clock_ms();
    uint32_t nodes;
    inlay_status status;

    release_values(run);
    run->create_ms = run->run_ms = 0;
    INLAY_TRY(take_inputs(run, session, inputs, diag));
    for (uint32_t i = 0; i < run->count; i++) {
        if (limits->timeout_ns > 0) { /* of the whole run; 1: it has passed */
            const uint64_t passed = (uint64_t)((clock_ms() - start) * 1e6);

            left.timeout_ns = passed < limits->timeout_ns ? limits->timeout_ns - passed : 1;
        }
        if (run->regions[i].output_count > 0) /* otherwise it computes constants, as does each region that reads them */
            INLAY_TRY(compute(run, i, &left, &nodes, diag));
    }
    status = take_constants(run, diag);
done:
    return status;
}

inlay_value *proof_run_output(const proof_run *run, uint32_t index)
{
    INLAY_CHECK(index < run->model->main->output_count);
    return run->values[run->model->main->outputs[index]];
}

/* The SHA-256 of what a proof claims, without what the machine adds. */
static inlay_status hash_claim(const json_t *proof, char root[65], inlay_diag *diag)
{
    json_t *claim =
        json_pack("{s:O, s:O, s:O, s:O}", "model", json_object_get(json_object_get(proof, "model"), "sha256"),
                  "settings", json_object_get(proof, "settings"), "regions", json_object_get(proof, "regions"),
                  "tensors", json_object_get(proof, "tensors"));
    char *text = claim != NULL ? json_dumps(claim, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct sha256 sha256;

    json_decref(claim);
    if (text == NULL)
        return no_memory(diag, "for a proof");
    sha256_init(&sha256);
    sha256_update(&sha256, text, strlen(text));
    sha256_hex(&sha256, root);
    free(text);
    return INLAY_OK;
}

/* Adds a tensor to a proof, and writes its file, whose readers verify its hash. An input that has its default is part
 * of the model. made: gets the paths of files that were not there. */
static inlay_status add_tensor(const proof_run *run, uint32_t value, const char *folder, json_t *tensors, json_t *made,
                               inlay_diag *diag)
{
    char hash[65], path[PATH_MAX];
    inlay_tensor_view view;
    bool is_new;
    inlay_status status;

    if (run->values[value] == NULL || json_object_get(tensors, name_of(run, value)) != NULL)
        return INLAY_OK;
    INLAY_TRY(view_of(run, value, &view, diag));
    value_hash_tensor(run->values[value], hash);
    if ((size_t)snprintf(path, sizeof path, "%s/%s.npy", folder, hash) >= sizeof path)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path is too long", folder);
    is_new = access(path, F_OK) != 0;
    INLAY_TRY(npy_save_unsynced(path, &view, diag));
    if (is_new)
        (void)json_array_append_new(made, json_string(path));
    if (json_object_set_new(tensors, name_of(run, value),
                            json_pack("{s:s, s:s}", "type", inlay_dtype_name(view.dtype), "sha256", hash)) != 0)
        status = no_memory(diag, "for a proof");
done:
    return status;
}

/* Removes the files of a proof that could not be written, and the folder if it is new. */
static void remove_files(const json_t *made, const char *folder, bool is_new)
{
    for (size_t i = 0; i < json_array_size(made); i++)
        (void)unlink(json_string_value(json_array_get(made, i)));
    if (is_new)
        (void)rmdir(folder);
}

inlay_status proof_run_write(const proof_run *run, file_hash *model, const char *folder, const inlay_options *options,
                             char root[65], inlay_diag *diag)
{
    json_t *origin = NULL, *tensors = json_object(), *made = json_array(), *proof = NULL;
    char file[PATH_MAX], relative[PATH_MAX];
    bool is_new = false;
    inlay_status status = INLAY_OK;

    if ((size_t)snprintf(file, sizeof file, "%s/proof.json", folder) >= sizeof file) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path is too long", folder);
        goto done;
    }
    is_new = mkdir(folder, 0777) == 0;
    if (!is_new && errno != EEXIST) {
        status = output_not_created(folder, diag);
        goto done;
    }
    for (uint32_t r = 0; r < run->count; r++) {
        for (uint32_t i = 0; i < run->regions[r].input_count; i++)
            INLAY_TRY(add_tensor(run, run->regions[r].inputs[i], folder, tensors, made, diag));
        for (uint32_t i = 0; i < run->regions[r].output_count; i++)
            INLAY_TRY(add_tensor(run, run->regions[r].outputs[i], folder, tensors, made, diag));
    }
    INLAY_TRY(lock_origin(model, &origin, diag));
    if (!lock_path_in(file, model->path, relative))
        (void)snprintf(relative, sizeof relative, "%s", model->path);
    proof = json_pack("{s:i, s:{s:O, s:O}, s:{s:O, s:s}, s:o, s:i, s:O}", "inlay_proof", FORMAT, "made", "inlay",
                      json_object_get(origin, "inlay"), "cpu", json_object_get(origin, "cpu"), "model", "sha256",
                      json_object_get(origin, "sha256"), "path", relative, "settings", settings_of(options), "regions",
                      (int)run->count, "tensors", tensors);
    if (proof == NULL) {
        status = no_memory(diag, "for a proof");
        goto done;
    }
    INLAY_TRY(hash_claim(proof, root, diag));
    (void)json_object_set_new(proof, "sha256", json_string(root));
    status = lock_write_json(file, proof, diag);
done:
    if (status != INLAY_OK)
        remove_files(made, folder, is_new);
    json_decref(origin);
    json_decref(made);
    json_decref(tensors);
    json_decref(proof);
    return status;
}

/* ---- the check */

static inlay_status check_members(const char *file, json_t *json, inlay_diag *diag)
{
    const json_t *format = json_object_get(json, "inlay_proof");
    json_error_t error;
    json_t *tensor;
    const char *name;

    if (json_is_integer(format) && json_integer_value(format) != FORMAT)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s version of inlay wrote this proof; use that version", file,
                          json_integer_value(format) > FORMAT ? "a newer" : "an earlier");
    if (json_unpack_ex(json, &error, JSON_VALIDATE_ONLY, "{s:i, s:{s:s, s:s !}, s:{s:s, s:s !}, s:o, s:i, s:o, s:s !}",
                       "inlay_proof", "made", "inlay", "cpu", "model", "sha256", "path", "settings", "regions",
                       "tensors", "sha256") != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s; write it with inlay run --commit", file, error.text);
    if (!json_is_array(json_object_get(json, "settings")) || !json_is_object(json_object_get(json, "tensors")) ||
        json_integer_value(json_object_get(json, "regions")) < 1 ||
        json_integer_value(json_object_get(json, "regions")) > INT32_MAX)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: \"settings\", \"tensors\" or \"regions\" is not what a proof has",
                          file);
    json_object_foreach(json_object_get(json, "tensors"), name, tensor)
        if (json_unpack_ex(tensor, &error, JSON_VALIDATE_ONLY, "{s:s, s:s !}", "type", "sha256") != 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "%s: tensor '%.100s': %s", file, name, error.text);
    return INLAY_OK;
}

/* Options of the regions: the settings of the proof, and the places of this machine. */
static inlay_status open_options(proof_file *proof, const inlay_options *local, inlay_diag *diag)
{
    const json_t *settings = json_object_get(proof->json, "settings");
    inlay_setting item = { .struct_size = sizeof item };
    bool is_reproducible = false;
    json_t *entry;
    size_t i;

    for (uint32_t k = 0; inlay_options_setting(local, k, &item) == INLAY_OK; k++)
        if (!is_local(item.name) && item.source == INLAY_SOURCE_PROGRAM)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%.100s sets %.100s, but verify-run takes the settings of the proof, because results "
                              "have other bits on another provider or with other settings; remove that",
                              item.origin, item.name);
    json_array_foreach(settings, i, entry) {
        const char *setting = json_is_string(entry) ? json_string_value(entry) : "";

        if (is_of_other_provider(setting))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%s/proof.json: setting %.100s: a proof may only set options of the providers cpu and "
                              "reference",
                              proof->folder, setting);
        is_reproducible = is_reproducible || strcmp(setting, "reproducible=cpu") == 0;
    }
    if (!is_reproducible)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s/proof.json: the run was not made with reproducible=cpu, so other machines may have other "
                          "results",
                          proof->folder);
    return make_options(settings, local, &proof->run.options, diag);
}

inlay_status proof_open(const char *folder, const char *model, const inlay_options *local, proof_file *out,
                        inlay_diag *diag)
{
    char file[PATH_MAX];
    const char *sha256;
    json_error_t error;
    json_t *origin = NULL;
    file_hash hash;
    inlay_status status;

    *out = (proof_file){ .folder = folder };
    if ((size_t)snprintf(file, sizeof file, "%s/proof.json", folder) >= sizeof file)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path is too long", folder);
    out->json = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (out->json == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s; name the folder of inlay run --commit", file, error.text);
    INLAY_TRY(check_members(file, out->json, diag));
    INLAY_TRY(hash_claim(out->json, out->root, diag));
    if (strcmp(out->root, json_string_value(json_object_get(out->json, "sha256"))) != 0)
        return inlay_fail(diag, INLAY_RESULTS_DIFFER, "%s: its members do not have its SHA-256, so it was changed",
                          file);
    if (model == NULL &&
        !lock_path_from(file, json_string_value(json_object_get(json_object_get(out->json, "model"), "path")),
                        out->model))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path of the model is too long", file);
    if (model != NULL && (size_t)snprintf(out->model, sizeof out->model, "%s", model) >= sizeof out->model)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the path of the model is too long");
    file_hash_begin(&hash, out->model);
    INLAY_TRY(lock_origin(&hash, &origin, diag));
    sha256 = json_string_value(json_object_get(json_object_get(out->json, "model"), "sha256"));
    if (strcmp(json_string_value(json_object_get(origin, "sha256")), sha256) != 0) {
        status = inlay_fail(diag, INLAY_RESULTS_DIFFER,
                            "%s is not the model of the proof: its SHA-256 is %.16s..., not "
                            "%.16s...; name that one with --model",
                            out->model, json_string_value(json_object_get(origin, "sha256")), sha256);
        goto done;
    }
    INLAY_TRY(open_options(out, local, diag));
    status = cut(&out->run, out->model, (uint32_t)json_integer_value(json_object_get(out->json, "regions")), diag);
done:
    json_decref(origin);
    return status;
}

void proof_deinit(proof_file *proof)
{
    proof_run_deinit(&proof->run);
    json_decref(proof->json);
    proof->json = NULL;
}

static inlay_dtype dtype_of(const char *name)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strcmp(inlay_dtype_name(dtype), name) == 0)
            return dtype;
    return INLAY_UNDEFINED;
}

/* Loads a tensor of the proof, and checks its hash. Leaves it NULL if the proof has no file of it. */
static inlay_status load_tensor(proof_file *proof, uint32_t value, const char *want, const char *type, inlay_diag *diag)
{
    inlay_io_info info = {
        .struct_size = sizeof info, .name = want, .kind = INLAY_KIND_TENSOR, .dtype = dtype_of(type)
    };
    char hash[65];
    inlay_status status = value_load_named(proof->folder, &info, &proof->run.values[value], diag);

    if (status != INLAY_OK || proof->run.values[value] == NULL)
        return status;
    value_hash_tensor(proof->run.values[value], hash);
    return strcmp(hash, want) == 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_RESULTS_DIFFER, "%s/%s.npy is not the tensor '%.200s' of the proof",
                            proof->folder, want, name_of(&proof->run, value));
}

/* Loads a tensor that enters a region. Leaves it NULL if it is an input of the model that had its default. */
static inlay_status load_input(proof_file *proof, uint32_t value, inlay_diag *diag)
{
    const char *name = name_of(&proof->run, value);
    const json_t *tensor = json_object_get(json_object_get(proof->json, "tensors"), name);
    const char *want = json_string_value(json_object_get(tensor, "sha256"));
    inlay_status status;

    if (tensor == NULL)
        return proof->run.model->main->values[value].has_default
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_RESULTS_DIFFER, "the proof has no tensor '%.200s', which enters the region",
                                name);
    INLAY_TRY(load_tensor(proof, value, want, json_string_value(json_object_get(tensor, "type")), diag));
    if (proof->run.values[value] == NULL)
        status =
            inlay_fail(diag, INLAY_NOT_FOUND, "%s has no file %s.npy of tensor '%.200s'; the maker of the proof has it",
                       proof->folder, want, name);
done:
    return status;
}

/* Compares what leaves the region with the hashes of the proof, and with its files, which a reader of the proof takes
 * for what has been confirmed. */
static inlay_status compare_outputs(proof_file *proof, const proof_region *region, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < region->output_count; i++) {
        const char *name = name_of(&proof->run, region->outputs[i]);
        const json_t *tensor = json_object_get(json_object_get(proof->json, "tensors"), name);
        const char *want = json_string_value(json_object_get(tensor, "sha256"));
        const char *type = json_string_value(json_object_get(tensor, "type"));
        inlay_value **computed = &proof->run.values[region->outputs[i]];
        char hash[65];

        if (tensor == NULL)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER, "the proof has no tensor '%.200s', which leaves the region",
                              name);
        value_hash_tensor(*computed, hash);
        if (strcmp(hash, want) != 0)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER, "tensor '%.200s' has the SHA-256 %.16s..., not %.16s...",
                              name, hash, want);
        inlay_value_unref(*computed);
        *computed = NULL;
        INLAY_TRY(load_tensor(proof, region->outputs[i], want, type, diag));
    }
done:
    return status;
}

static inlay_status save_outputs(const proof_file *proof, const proof_region *region, const char *folder,
                                 inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < region->output_count && status == INLAY_OK; i++) {
        const inlay_value *value = proof->run.values[region->outputs[i]];
        const inlay_io_info info = { .struct_size = sizeof info,
                                     .name = name_of(&proof->run, region->outputs[i]),
                                     .kind = INLAY_KIND_TENSOR,
                                     .dtype = inlay_value_dtype(value) };

        status = value_save(folder, &info, value, diag);
    }
    return status;
}

inlay_status proof_check(proof_file *proof, uint32_t index, const char *outputs, uint32_t *out_nodes, inlay_diag *diag)
{
    const inlay_run_options unlimited = { .struct_size = sizeof unlimited };
    const proof_region *region;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(index < proof->run.count);
    region = &proof->run.regions[index];
    for (uint32_t i = 0; i < region->input_count; i++)
        INLAY_TRY(load_input(proof, region->inputs[i], diag));
    INLAY_TRY(compute(&proof->run, index, &unlimited, out_nodes, diag));
    if (outputs != NULL)
        INLAY_TRY(save_outputs(proof, region, outputs, diag));
    status = compare_outputs(proof, region, diag);
done:
    release_values(&proof->run);
    return status;
}
