#include "lock/proof.h"
#include "base/memory.h"
#include "base/output.h"
#include "config/options.h"
#include "data/hash.h"
#include "data/npy.h"
#include "data/scratch.h"
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

enum { FORMAT = 3 }; /* 1 had other hashes of tensors, 2 other tensors at the ends of regions */

/* ---- regions */

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

/* The names of the values for which `has` is true. */
static const char **names_of(graph_model *model, const uint8_t *kinds, const uint32_t *values, uint32_t count,
                             bool (*has)(const graph_model *model, const uint8_t *kinds, uint32_t value),
                             uint32_t *out_count)
{
    const char **names = arena_array(&model->arena, (size_t)count + 1, sizeof *names);

    *out_count = 0;
    for (uint32_t i = 0; names != NULL && i < count; i++)
        if (has(model, kinds, values[i]))
            names[(*out_count)++] = model->main->values[values[i]].info.name.data;
    return names;
}

static inlay_status cut_region(proof_cut *cut, const uint8_t *kinds, uint32_t region, inlay_diag *diag)
{
    proof_region *made = &cut->regions[region];
    graph_model *model = cut->model;
    model_part part;
    inlay_status status = model_part_stage(model, region, cut->count, &part, diag);

    if (status != INLAY_OK)
        return status;
    made->inputs = names_of(model, kinds, part.inputs, part.input_count, is_tensor_of_proof, &made->input_count);
    made->outputs = names_of(model, kinds, part.outputs, part.output_count, is_tensor_of_proof, &made->output_count);
    made->sizes = names_of(model, kinds, part.inputs, part.input_count, is_size, &made->size_count);
    return made->inputs != NULL && made->outputs != NULL && made->sizes != NULL ? INLAY_OK
                                                                                : no_memory(diag, "for the regions");
}

inlay_status proof_cut_make(const char *path, const inlay_options *options, uint32_t count, proof_cut *out,
                            inlay_diag *diag)
{
    const session_source source = { .path = path, .fd = -1 };
    inlay_session raw = { .model = NULL };
    const uint8_t *kinds;
    model_part all;
    inlay_status status;

    *out = (proof_cut){ 0 };
    INLAY_TRY(session_load_model(&raw, &source, options, diag));
    out->model = raw.model;
    INLAY_TRY(
        model_part_between(raw.model, NULL, 0, raw.model->main->outputs, raw.model->main->output_count, &all, diag));
    if (all.kept == 0) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s: no node computes its outputs, so there is nothing to verify",
                            path);
        goto done;
    }
    out->count = count < all.kept ? count : all.kept;
    out->regions = calloc(out->count, sizeof *out->regions);
    kinds = model_part_kinds(raw.model);
    if (out->regions == NULL || kinds == NULL)
        return no_memory(diag, "for the regions");
    for (uint32_t i = 0; i < out->count; i++)
        INLAY_TRY(cut_region(out, kinds, i, diag));
done:
    return status;
}

void proof_cut_deinit(proof_cut *cut)
{
    free(cut->regions);
    graph_model_destroy(cut->model);
    *cut = (proof_cut){ 0 };
}

/* ---- the run */

/* Is NAME or NAME=VALUE an option of another provider than those that reproducible=cpu runs? It may name a library to
 * load, which a proof of a stranger must not. */
static bool is_of_other_provider(const char *setting)
{
    return setting[strcspn(setting, ".=")] == '.' && strncmp(setting, "cpu.", 4) != 0 &&
           strncmp(setting, "reference.", 10) != 0;
}

inlay_status proof_options(const proof_cut *cut, inlay_options *options, inlay_diag *diag)
{
    inlay_setting item = { .struct_size = sizeof item };
    const struct graph *graph = cut->model->main;
    inlay_status status;

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
    }
    INLAY_TRY(inlay_options_set_from(options, "reproducible", "cpu", "--commit", diag));
    for (uint32_t r = 0; r < cut->count; r++)
        for (uint32_t i = 0; i < cut->regions[r].output_count; i++) {
            const uint32_t value = graph_find_value(graph, cut->regions[r].outputs[i]);

            INLAY_CHECK(value != INLAY_NONE);
            if ((graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) == 0)
                INLAY_TRY(options_set_item(options, "tap", cut->regions[r].outputs[i], diag));
        }
done:
    return status;
}

/* A node whose results are random, in a program or its bodies; NULL: none. */
static const graph_node *find_random(const struct program *program)
{
    for (uint32_t i = 0; i < program->graph->node_count; i++)
        if (graph_node_is_random(program->graph->nodes[i]))
            return program->graph->nodes[i];
    for (uint32_t b = 0; b < program->body_count; b++) {
        const graph_node *found = find_random(program->bodies[b]);

        if (found != NULL)
            return found;
    }
    return NULL;
}

/* Settings that change results: not those of the machine, and not sizes, which the tensors have. */
static json_t *settings_of(const inlay_options *options)
{
    static const char *const local[] = {
        "isa=", "intra_threads=", "tap=", "dim=", "log", "placement=", "check_finite="
    };
    json_t *all = lock_settings(options), *kept = json_array(), *entry;
    size_t i;

    json_array_foreach(all, i, entry) {
        bool is_local = false;

        for (size_t k = 0; k < sizeof local / sizeof local[0]; k++)
            is_local = is_local || strncmp(json_string_value(entry), local[k], strlen(local[k])) == 0;
        if (!is_local)
            (void)json_array_append(kept, entry);
    }
    json_decref(all);
    return kept;
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

/* Adds a tensor to a proof, and writes its file, whose readers verify its hash. */
static inlay_status add_tensor(const char *folder, const char *name, const inlay_io_info *info,
                               const inlay_value *value, json_t *tensors, inlay_diag *diag)
{
    char hash[65], path[PATH_MAX];
    inlay_tensor_view view;
    inlay_status status;

    if (value == NULL || info->kind != INLAY_KIND_TENSOR || info->sparse != 0 || !value_view(value, &view))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%.200s is no tensor in memory, and cannot be part of a proof; "
                          "another number of regions may not cut there",
                          name);
    value_hash_tensor(value, hash);
    if ((size_t)snprintf(path, sizeof path, "%s/%s.npy", folder, hash) >= sizeof path)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path is too long", folder);
    status = npy_save_unsynced(path, &view, diag);
    if (status == INLAY_OK &&
        json_object_set_new(
            tensors, name,
            json_pack("{s:s, s:s}", "type", inlay_dtype_name(inlay_value_dtype(value)), "sha256", hash)) != 0)
        status = no_memory(diag, "for a proof");
    return status;
}

/* Adds a tensor of the run by its name. An input that has its default is part of the model. */
static inlay_status add_named(const char *folder, const char *name, const inlay_session *session,
                              inlay_context *context, inlay_value *const *inputs, json_t *tensors, inlay_diag *diag)
{
    const uint32_t input = inlay_session_find_input(session, name), output = inlay_session_find_output(session, name);
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_status status;

    if (json_object_get(tensors, name) != NULL || (input != INLAY_NONE && inputs[input] == NULL))
        return INLAY_OK;
    if (input == INLAY_NONE && output == INLAY_NONE)
        return inlay_fail(
            diag, INLAY_UNSUPPORTED,
            "value '%.200s' is not a tensor, and cannot be part of a proof; another number of regions may "
            "not cut there",
            name);
    INLAY_TRY(input != INLAY_NONE ? inlay_session_input(session, input, &info)
                                  : inlay_session_output(session, output, &info));
    status = add_tensor(folder, name, &info,
                        input != INLAY_NONE ? inputs[input] : inlay_context_output(context, output), tensors, diag);
done:
    return status;
}

inlay_status proof_write(const proof_cut *cut, file_hash *model, const char *folder, const inlay_session *session,
                         inlay_context *context, inlay_value *const *inputs, const inlay_options *options,
                         char root[65], inlay_diag *diag)
{
    const graph_node *random = find_random(session->main);
    json_t *origin = NULL, *tensors = json_object(), *proof = NULL;
    char file[PATH_MAX], relative[PATH_MAX];
    inlay_status status = INLAY_OK;

    if (random != NULL) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "the results of %s '%.100s' are random, so no run can be verified",
                            random->info.op_type.data, random->info.name.data);
        goto done;
    }
    if ((size_t)snprintf(file, sizeof file, "%s/proof.json", folder) >= sizeof file) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path is too long", folder);
        goto done;
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        status = output_not_created(folder, diag);
        goto done;
    }
    for (uint32_t r = 0; r < cut->count; r++) {
        for (uint32_t i = 0; i < cut->regions[r].input_count; i++)
            INLAY_TRY(add_named(folder, cut->regions[r].inputs[i], session, context, inputs, tensors, diag));
        for (uint32_t i = 0; i < cut->regions[r].output_count; i++)
            INLAY_TRY(add_named(folder, cut->regions[r].outputs[i], session, context, inputs, tensors, diag));
    }
    INLAY_TRY(lock_origin(model, &origin, diag));
    if (!lock_path_in(file, model->path, relative))
        (void)snprintf(relative, sizeof relative, "%s", model->path);
    proof = json_pack("{s:i, s:{s:O, s:O}, s:{s:O, s:s}, s:o, s:i, s:O}", "inlay_proof", FORMAT, "made", "inlay",
                      json_object_get(origin, "inlay"), "cpu", json_object_get(origin, "cpu"), "model", "sha256",
                      json_object_get(origin, "sha256"), "path", relative, "settings", settings_of(options), "regions",
                      (int)cut->count, "tensors", tensors);
    if (proof == NULL) {
        status = no_memory(diag, "for a proof");
        goto done;
    }
    INLAY_TRY(hash_claim(proof, root, diag));
    (void)json_object_set_new(proof, "sha256", json_string(root));
    status = lock_write_json(file, proof, diag);
done:
    json_decref(origin);
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

/* The settings of the run, and the places of this machine. */
static inlay_status make_options(proof_file *proof, const inlay_options *local, inlay_diag *diag)
{
    inlay_setting item = { .struct_size = sizeof item };
    const char *reproducible = NULL;
    json_t *entry;
    size_t i;
    inlay_status status;

    INLAY_TRY(inlay_options_create(&proof->options, diag));
    for (uint32_t k = 0; inlay_options_setting(local, k, &item) == INLAY_OK; k++) {
        const bool is_read =
            lock_is_local(item.name) || strcmp(item.name, "isa") == 0 || strcmp(item.name, "intra_threads") == 0;

        if (!is_read && item.source == INLAY_SOURCE_PROGRAM)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%.100s sets %.100s, but verify-run takes the settings of the proof, because results "
                              "have other bits on another provider or with other settings; remove that",
                              item.origin, item.name);
        if (is_read && item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0')
            INLAY_TRY(options_set_item(proof->options, item.name, item.text, diag));
    }
    INLAY_TRY(lock_apply_settings(json_object_get(proof->json, "settings"), proof->options, diag));
    json_array_foreach(json_object_get(proof->json, "settings"), i, entry) {
        if (is_of_other_provider(json_string_value(entry)))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%s/proof.json: setting %.100s: a proof may only set options of the providers cpu and "
                              "reference",
                              proof->folder, json_string_value(entry));
        if (strcmp(json_string_value(entry), "reproducible=cpu") == 0)
            reproducible = json_string_value(entry);
    }
    if (reproducible == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s/proof.json: the run was not made with reproducible=cpu, so other machines may have other "
                          "results",
                          proof->folder);
done:
    return status;
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
    INLAY_TRY(make_options(out, local, diag));
    status = proof_cut_make(out->model, out->options,
                            (uint32_t)json_integer_value(json_object_get(out->json, "regions")), &out->cut, diag);
done:
    json_decref(origin);
    return status;
}

void proof_deinit(proof_file *proof)
{
    proof_cut_deinit(&proof->cut);
    inlay_options_destroy(proof->options);
    json_decref(proof->json);
    proof->options = NULL;
    proof->json = NULL;
}

/* The hash that the proof has of a tensor; NULL: none. */
static const char *hash_of(const proof_file *proof, const char *name)
{
    return json_string_value(json_object_get(json_object_get(json_object_get(proof->json, "tensors"), name), "sha256"));
}

/* Loads a tensor of the proof, and checks its hash. *out_value is NULL if it is optional, and the proof has none. */
static inlay_status load_tensor(const proof_file *proof, const inlay_io_info *info, inlay_value **out_value,
                                inlay_diag *diag)
{
    const char *want = hash_of(proof, info->name);
    inlay_io_info file = *info;
    char hash[65];
    inlay_status status;

    *out_value = NULL;
    if (want == NULL && info->optional != 0)
        return INLAY_OK;
    if (want == NULL)
        return inlay_fail(diag, INLAY_RESULTS_DIFFER, "the proof has no tensor '%.200s', which enters the region",
                          info->name);
    file.name = want;
    INLAY_TRY(value_load_named(proof->folder, &file, out_value, diag));
    if (*out_value == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "%s has no file %s.npy of tensor '%.200s'; the maker of the proof has it", proof->folder,
                          want, info->name);
    value_hash_tensor(*out_value, hash);
    if (strcmp(hash, want) == 0)
        return INLAY_OK;
    inlay_value_unref(*out_value);
    *out_value = NULL;
    status = inlay_fail(diag, INLAY_RESULTS_DIFFER, "%s/%s.npy is not the tensor '%.200s' of the proof", proof->folder,
                        want, info->name);
done:
    return status;
}

/* Binds the tensors that enter the region, from the files of the proof. */
static inlay_status bind_inputs(const proof_file *proof, const inlay_session *session, inlay_context *context,
                                inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_input(session, i, &info));
        INLAY_TRY(load_tensor(proof, &info, &value, diag));
        if (value != NULL)
            INLAY_TRY(inlay_context_set_input(context, i, value, diag));
        inlay_value_unref(value);
        value = NULL;
    }
done:
    inlay_value_unref(value);
    return status;
}

/* Makes an input of the graph a constant with this value. */
static inlay_status fix_input(struct graph *graph, uint32_t input, const inlay_value *value, inlay_diag *diag)
{
    inlay_tensor_view view;
    void *data = NULL;

    if (value_view(value, &view))
        data = arena_alloc(&graph->model->arena, view.bytes + 1);
    if (data == NULL)
        return no_memory(diag, "for the sizes of a region");
    if (view.bytes > 0)
        memcpy(data, view.data, view.bytes);
    graph->values[input].info.flags &= ~(uint32_t)INLAY_VALUE_GRAPH_INPUT;
    graph->values[input].declared = false;
    return graph_set_constant(graph, input, view.dtype, view.rank, view.dims, data, view.bytes) == INLAY_OK
               ? INLAY_OK
               : no_memory(diag, "for the sizes of a region");
}

/* Makes the inputs of the region's model at `path` that follow from sizes constants. In the whole model their values
 * are known before a run, and providers refuse some nodes, such as Reshape, where they are not. */
static inlay_status fix_sizes(const proof_file *proof, const proof_region *region, const char *path, inlay_diag *diag)
{
    const session_source source = { .path = path, .fd = -1 };
    const model_save_options save = { .external_file = NULL };
    inlay_session raw = { .model = NULL };
    inlay_value *value = NULL;
    struct graph *graph;
    uint32_t kept = 0;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, proof->options, diag));
    graph = raw.model->main;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_value *input = &graph->values[graph->inputs[i]];
        const inlay_io_info info = { .struct_size = sizeof info,
                                     .name = input->info.name.data,
                                     .kind = INLAY_KIND_TENSOR,
                                     .dtype = input->declared_dtype };
        bool is_size = false;

        for (uint32_t k = 0; k < region->size_count; k++)
            is_size = is_size || strcmp(region->sizes[k], info.name) == 0;
        if (!is_size) {
            graph->inputs[kept++] = graph->inputs[i];
            continue;
        }
        INLAY_TRY(load_tensor(proof, &info, &value, diag));
        INLAY_TRY(fix_input(graph, graph->inputs[i], value, diag));
        inlay_value_unref(value);
        value = NULL;
    }
    graph->input_count = kept;
    status = model_save(raw.model, path, &save, diag);
done:
    inlay_value_unref(value);
    graph_model_destroy(raw.model);
    return status;
}

static inlay_status compare_outputs(const proof_file *proof, const proof_region *region, const inlay_session *session,
                                    inlay_context *context, inlay_diag *diag)
{
    for (uint32_t i = 0; i < region->output_count; i++) {
        const char *name = region->outputs[i], *want = hash_of(proof, name);
        const uint32_t output = inlay_session_find_output(session, name);
        char hash[65];

        if (want == NULL || output == INLAY_NONE)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER, "the proof has no tensor '%.200s', which leaves the region",
                              name);
        value_hash_tensor(inlay_context_output(context, output), hash);
        if (strcmp(hash, want) != 0)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER, "tensor '%.200s' has the SHA-256 %.16s..., not %.16s...",
                              name, hash, want);
    }
    return INLAY_OK;
}

inlay_status proof_check(const proof_file *proof, uint32_t region, uint32_t *out_nodes, inlay_diag *diag)
{
    inlay_extract_args work = INLAY_EXTRACT_ARGS_INIT;
    struct scratch scratch = { .output = NULL };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    char path[SCRATCH_BYTES + 16];
    inlay_status status;

    INLAY_CHECK(region < proof->cut.count);
    INLAY_TRY(scratch_make_temporary(&scratch, diag));
    (void)snprintf(path, sizeof path, "%s/region.onnx", scratch.dir);
    work.out_path = path;
    work.part = region;
    work.part_count = proof->cut.count;
    INLAY_TRY(inlay_extract(proof->model, proof->options, &work, diag));
    *out_nodes = work.nodes_kept;
    if (proof->cut.regions[region].size_count > 0)
        INLAY_TRY(fix_sizes(proof, &proof->cut.regions[region], path, diag));
    INLAY_TRY(inlay_session_create(path, proof->options, &session, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(bind_inputs(proof, session, context, diag));
    INLAY_TRY(inlay_context_run(context, NULL, diag));
    status = compare_outputs(proof, &proof->cut.regions[region], session, context, diag);
done:
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    scratch_remove(&scratch);
    return status;
}
