/* session/model.c - the first half of creating a session: from the file to the optimised graph. */
#include "base/cpus.h"
#include "base/memory.h"
#include "config/checks.h"
#include "config/dirs.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "session/adapters.h"
#include "session/error_table.h"
#include "session/session.h"
#include "infer/dim_sums.h"
#include "model/model.h"
#include "passes/pass.h"
#include "inlay/check.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

uint32_t session_count_nodes(const struct graph *graph)
{
    uint32_t count = graph->node_count;

    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            count += session_count_nodes(graph->nodes[i]->bodies[b].graph);
    return count;
}

/* Option model_limits over the defaults; each item was checked when it was set. */
static model_limits read_limits(const inlay_options *options)
{
    model_limits limits = model_limits_default();
    option_pair pair;

    for (uint32_t i = 0; options_pair(options, OPTION_model_limits, i, &pair); i++) {
        uint64_t number = 0;

        (void)option_bytes(pair.value, &number);
#define LIMIT(name, preset, most, what)                                                                                \
    if (pair.key_bytes == sizeof #name - 1 && memcmp(pair.key, #name, pair.key_bytes) == 0)                            \
        limits.name = number;
#include "base/model_limits.def"
    }
    return limits;
}

model_load_options session_load_options(const inlay_options *options)
{
    const char *dir = options_text(options, OPTION_external_dir);
    model_load_options load = { .external_dir = dir[0] != '\0' ? dir : NULL };

    if (options != NULL) {
        load.files = options->files;
        load.file_count = options->file_count;
    }
    load.drop_metadata = options_int(options, OPTION_node_metadata) == 0;
    load.strict = options_int(options, OPTION_strict_model) != 0;
    load.limits = read_limits(options);
    if (options_int(options, OPTION_realtime) != 0) /* after a run, mapped files are looked at with a system call */
        load.copy_bytes = UINT64_MAX;
    else if (session_host_limit(options) == 0) /* only mapped weights can leave the memory again */
        load.copy_bytes = (uint64_t)options_int(options, OPTION_copy_file_bytes);
    return load;
}

struct spill {
    const inlay_session *session;
    const inlay_options *options;
    char folder[PATH_MAX];
};

/* model_load_options.spill_dir: with a limit, and for files that would take much of the memory. */
static const char *spill_dir(void *user, size_t bytes)
{
    enum { SHARE = 4 }; /* of the memory, which packed weights and other programs use, too */
    struct spill *spill = user;

    return spill->session->env.packs.max_bytes != 0 &&
                   (session_host_limit(spill->options) != 0 || bytes > memory_allowed() / SHARE) &&
                   config_cache_folder(spill->options, "packs", spill->folder, sizeof spill->folder)
               ? spill->folder
               : NULL;
}

inlay_status session_load_model(inlay_session *session, const session_source *source, const inlay_options *options,
                                inlay_diag *diag)
{
    struct spill spill = { .session = session, .options = options };
    model_load_options load = session_load_options(options);

    load.spill_dir = spill_dir;
    load.spill_user = &spill;
    load.keep_sparse = session->loading.keeps_sparse;
    load.keep_blocks = session->loading.keeps_sparse;
    if (source->whole != NULL) {
        const inlay_status status = model_load_again(source->whole, &load, &session->model, diag);

        return status == INLAY_OK ? source->reduce(source->ctx, session->model, diag) : status;
    }
    if (source->path != NULL)
        return model_load_path(source->path, &load, &session->model, diag);
    if (source->data != NULL)
        return model_load_bytes(source->data, (size_t)source->bytes, &load, &session->model, diag);
    return model_load_fd(source->fd, &load, &session->model, diag);
}

inlay_status session_load_again(const inlay_session *session, graph_model **out_model, inlay_diag *diag)
{
    model_load_options load = session_load_options(session->versions.options);

    load.keep_sparse = session->loading.keeps_sparse;
    return model_load_again(session->model, &load, out_model, diag);
}

static inlay_status fix_dims_of(graph_model *model, const inlay_dim **dims, uint32_t rank, uint32_t symbol,
                                inlay_dim to, bool *out_found)
{
    inlay_dim *copy = NULL;

    for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank; d++) {
        if ((*dims)[d].kind != INLAY_DIM_SYMBOLIC || (*dims)[d].symbol != symbol)
            continue;
        if (copy == NULL) {
            copy = arena_copy(&model->arena, *dims, rank * sizeof *copy);
            if (copy == NULL)
                return INLAY_OUT_OF_MEMORY;
            *dims = copy;
        }
        copy[d] = to;
        *out_found = true;
    }
    return INLAY_OK;
}

/* Replaces a symbol in the main graph with a size or with another symbol. */
static inlay_status fix_symbol(graph_model *model, uint32_t symbol, inlay_dim to, bool *out_found, inlay_diag *diag)
{
    struct graph *graph = model->main;

    INLAY_CHECK(symbol < model->symbol_count);
    for (uint32_t value_index = 0; symbol != 0 && value_index < graph->value_count; value_index++) {
        graph_value *value = &graph->values[value_index];
        if (fix_dims_of(model, &value->info.dims, value->info.rank, symbol, to, out_found) != INLAY_OK ||
            (value->declared &&
             fix_dims_of(model, &value->declared_dims, value->declared_rank, symbol, to, out_found) != INLAY_OK))
            return no_memory(diag, "to fix dimension '%s'", model->symbols[symbol].name.data);
    }
    return INLAY_OK;
}

/* What an item of option dim states. */
typedef struct fixed_dim {
    uint32_t symbol; /* 0: the model does not have it, or the size is an estimate */
    int64_t size;
} fixed_dim;

struct fixed_dims {
    const graph_model *model;
    const fixed_dim *list;
    uint32_t count;
};

/* Finds the symbols of dimensions that option dim names; a name may end in '?'. The list is allocated in the session's
 * arena. All are found before any is replaced, since some are named by the position of a dimension (INPUT:AXIS). */
static inlay_status find_dims(graph_model *model, const inlay_options *options, struct fixed_dims *out,
                              inlay_diag *diag)
{
    fixed_dim *list;
    option_pair fix;

    *out = (struct fixed_dims){ .model = model };
    while (options_pair(options, OPTION_dim, out->count, &fix))
        out->count++;
    out->list = list = arena_array(&model->arena, (size_t)out->count + 1, sizeof *list);
    if (list == NULL)
        return no_memory(diag, "for option dim");
    for (uint32_t i = 0; options_pair(options, OPTION_dim, i, &fix); i++) {
        if (option_dim_is_estimate(&fix)) { /* session/costs.c reads it */
            list[i] = (fixed_dim){ 0, -1 };
            continue;
        }
        list[i] = (fixed_dim){ graph_find_dim(model, fix.key, fix.key_bytes), strtoll(fix.value, NULL, 10) };
        if (list[i].symbol == 0 && fix.key[fix.key_bytes - 1] == '?')
            list[i].symbol = graph_find_dim(model, fix.key, fix.key_bytes - 1);
    }
    return INLAY_OK;
}

/* The size that option dim gives to a name; -1: none. */
static int64_t fixed_size(void *user, const char *name, size_t bytes)
{
    const struct fixed_dims *fixed = user;

    for (uint32_t i = 0; i < fixed->count; i++) {
        const inlay_str *found = &fixed->model->symbols[fixed->list[i].symbol].name;

        if (fixed->list[i].symbol != 0 && found->bytes == bytes && memcmp(found->data, name, bytes) == 0)
            return fixed->list[i].size;
    }
    return -1;
}

/* Replaces a symbol that is a sum of other symbols, some of which are fixed: "past + new" becomes "past + 1" or a
 * size. */
static inlay_status fix_sum(graph_model *model, uint32_t symbol, struct fixed_dims *fixed, bool *out_found,
                            inlay_diag *diag)
{
    inlay_dim to = { .kind = INLAY_DIM_FIXED };
    dim_text name = { .bytes = 0 };
    struct sum sum;

    if (!sum_read_with(model->symbols[symbol].name.data, fixed_size, fixed, &sum))
        return INLAY_OK;
    if (sum.count == 1 && sum.terms[0].count == 0 && sum.terms[0].factor < 0)
        return INLAY_OK; /* no size: exporters declare n - 3 for a slice that is empty if n is less than 3 */
    to.value = sum_value(&sum);
    if (to.value < 0) {
        text_append_sum(&name, &sum);
        if (name.full || strcmp(name.data, model->symbols[symbol].name.data) == 0)
            return INLAY_OK;
        to = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = graph_symbol(model, name.data) };
        if (to.symbol == 0)
            return no_memory(diag, "to fix dimension '%s'", name.data);
    }
    return fix_symbol(model, symbol, to, out_found, diag);
}

/* Option dim: replaces symbols of the main graph with sizes. A name that ends in ? is optional: the model may not have
 * it. */
static inlay_status fix_dims(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    const uint32_t count = model->symbol_count; /* fix_sum() may add symbols */
    struct fixed_dims fixed;
    option_pair fix;
    inlay_status status = find_dims(model, options, &fixed, diag);

    for (uint32_t i = 0; status == INLAY_OK && options_pair(options, OPTION_dim, i, &fix); i++) {
        const inlay_dim to = { .value = fixed.list[i].size, .kind = INLAY_DIM_FIXED };
        bool found = false;

        if (fixed.list[i].symbol != 0)
            status = fix_symbol(model, fixed.list[i].symbol, to, &found, diag);
        if (status == INLAY_OK && !found && fix.key[fix.key_bytes - 1] != '?' && !option_dim_is_estimate(&fix))
            return graph_no_dim(model, "option dim", fix.key, fix.key_bytes, diag);
    }
    for (uint32_t k = 1; fixed.count > 0 && k < count && status == INLAY_OK; k++)
        status = fix_sum(model, k, &fixed, &(bool){ false }, diag);
    return status;
}

/* Option free_shapes: discards all declared shapes of the main graph; each run uses the shapes of its inputs. */
static void free_shapes(struct graph *graph)
{
    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        graph_value *value = &graph->values[value_index];

        if ((value->info.flags & INLAY_VALUE_CONSTANT) != 0)
            continue;
        value->info.rank = INLAY_RANK_UNKNOWN;
        value->info.dims = NULL;
        value->declared_rank = INLAY_RANK_UNKNOWN;
        value->declared_dims = NULL;
    }
}

/* The items of a LIST option, in the model's arena. NULL: out of memory. */
static const char **list_option(graph_model *model, const inlay_options *options, uint32_t option, uint32_t *out_count)
{
    const char **list;
    uint32_t count = 0;

    while (options_list(options, option, count) != NULL)
        count++;
    list = arena_array(&model->arena, (size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = options_list(options, option, i);
    *out_count = count;
    return list;
}

/* Is the value a tensor that a run computes, and not yet an output? */
static bool can_tap(const struct graph *graph, uint32_t value)
{
    const inlay_value_info *info = &graph->values[value].info;

    return info->kind == INLAY_VALUE_TENSOR && info->producer != INLAY_NONE && info->dtype != INLAY_UNDEFINED &&
           (info->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0;
}

/* Option tap: appends values of the main graph to its outputs. "*" means all computed values, in the order of their
 * producers. */
static inlay_status add_taps(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    struct graph *graph = model->main;
    const size_t capacity = (size_t)graph->output_count + graph->value_count + 1;
    const char *name;
    uint32_t *outputs;

    if (options_list(options, OPTION_tap, 0) == NULL)
        return INLAY_OK;
    outputs = arena_grown(&model->arena, graph->outputs, graph->output_count, capacity, sizeof *outputs);
    if (outputs == NULL)
        return no_memory(diag, "for option tap");
    graph->outputs = outputs;
    for (uint32_t i = 0; (name = options_list(options, OPTION_tap, i)) != NULL; i++) {
        bool all = strcmp(name, "*") == 0, found = all;

        for (uint32_t k = 0; k < graph->node_count; k++) {
            for (uint32_t output = 0; output < graph->nodes[k]->info.output_count; output++) {
                uint32_t value = graph->nodes[k]->info.outputs[output];

                if (value == INLAY_NONE || (!all && strcmp(graph->values[value].info.name.data, name) != 0))
                    continue;
                found = true;
                if (!can_tap(graph, value))
                    continue;
                graph->values[value].info.flags |= INLAY_VALUE_GRAPH_OUTPUT;
                INLAY_CHECK(graph->output_count < capacity);
                outputs[graph->output_count++] = value;
            }
        }
        if (!found)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option tap: no node of the main graph produces '%.200s'",
                              name);
    }
    return INLAY_OK;
}

static void note(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text)
{
    const inlay_session *session = ctx;

    if (session->loading.watch->note != NULL)
        session->loading.watch->note(session->loading.watch->ctx, pass, rewrite, graph, node, text);
}

static inlay_status after(void *ctx, const char *pass)
{
    const inlay_session *session = ctx;

    return session->loading.watch->after == NULL
               ? INLAY_OK
               : session->loading.watch->after(session->loading.watch->ctx, session, pass);
}

/* Warns about unknown attributes, which may be misspelt or belong to a later version of the operator. */
static void warn_of_attributes(const inlay_session *session, const graph_model *model)
{
    char line[512];

    for (const graph_finding *finding = model->findings.first; finding != NULL; finding = finding->next) {
        if (strcmp(finding->code, "attribute-unknown") != 0 || session->env.log == NULL)
            continue;
        (void)snprintf(line, sizeof line, "attribute ignored: %.400s", finding->text);
        session->env.log(session->env.log_ctx, INLAY_LOG_WARNING, line);
    }
}

/* Warns about a decoder whose activations are quantized by one scale for all rows: many of them generate nonsense. */
static void warn_of_activations(const inlay_session *session, const graph_model *model, const inlay_options *options)
{
    const struct graph *graph = model->main;
    uint32_t products = 0;
    bool is_decoder = false;
    char line[512];

    if (session->env.log == NULL || strcmp(options_text(options, OPTION_dynamic_activations), "tensor") != 0)
        return;
    for (uint32_t i = 0; i < graph->input_count && !is_decoder; i++)
        is_decoder = strncmp(graph->values[graph->inputs[i]].info.name.data, "past_key", 8) == 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        products += strcmp(graph->nodes[i]->info.op_type.data, "DynamicQuantizeLinear") == 0;
    if (!is_decoder || products == 0)
        return;
    (void)snprintf(line, sizeof line,
                   "this decoder quantizes activations in %u places, by one scale for all rows; if its texts make no "
                   "sense, set the option dynamic_activations to floats",
                   products);
    session->env.log(session->env.log_ctx, INLAY_LOG_WARNING, line);
}

/* The operators of the plugins, then those of the open providers. */
static const inlay_operator *find_operator(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    const inlay_session *session = ctx;
    const graph_operators *plugins = plugin_set_operators(session->plugins);
    const inlay_operator *found = plugins->find(plugins->ctx, domain, op_type, opset);

    for (uint32_t i = 0; found == NULL && i < session->env.provider_count; i++)
        found =
            plugin_find_operator(session->open[i]->operators, session->open[i]->operator_count, domain, op_type, opset);
    return found;
}

static void missing_operator(void *ctx, const char *domain, const char *op_type, int64_t opset, char *text,
                             size_t bytes)
{
    plugin_set_missing(((const inlay_session *)ctx)->plugins, domain, op_type, opset, text, bytes);
}

inlay_status session_optimise(inlay_session *session, graph_model *model, const inlay_options *options,
                              inlay_diag *diag)
{
    const graph_operators operators = { .find = find_operator,
                                        .missing = missing_operator,
                                        .ctx = session,
                                        .searched = plugin_set_operators(session->plugins)->searched };
    program_folder folder = { .env = &session->env };
    pass_ctx passes = { .model = model,
                        .providers.fold = program_fold_node,
                        .providers.ctx = &folder,
                        .diag = diag,
                        .limits.fold_bytes = (uint64_t)options_int(options, OPTION_fold_max_bytes) };
    uint32_t reduction_count;
    inlay_status status = INLAY_OK;
    /* Real GPUs multiply float16 faster than float32. */
    const bool prefers_gpu = session->env.provider_count > 0 && session->open[0]->device->kind == INLAY_DEVICE_GPU;

    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        if (program_has_integers(&session->providers[i])) {
            passes.providers.offers_integers = program_offers_integers;
            passes.providers.widens_halves |= session->providers[i].table->device_kind == INLAY_DEVICE_CPU;
        }
        passes.providers.keeps_weights |= program_has_weights(&session->providers[i]);
    }
    passes.providers.widens_halves &= !prefers_gpu;
    if (prefers_gpu) /* it would convert them in each run */
        passes.providers.keeps_weights &= ~(uint32_t)INLAY_WEIGHTS_HALVES;
    if (prefers_gpu || strcmp(options_text(options, OPTION_policy), "priority") == 0)
        passes.providers.keeps_weights &= ~(uint32_t)INLAY_WEIGHTS_TURNED;
    passes.providers.offers_sparse = session->loading.keeps_sparse ? program_offers_sparse : NULL;
    passes.limits.densified_bytes = read_limits(options).densified_bytes;
    passes.options.float_activations = strcmp(options_text(options, OPTION_dynamic_activations), "floats") == 0;
    passes.options.dynamic_rows = strcmp(options_text(options, OPTION_dynamic_activations), "rows") == 0;
    passes.chosen.only = list_option(model, options, OPTION_pass, &passes.chosen.only_count);
    passes.chosen.never = list_option(model, options, OPTION_no_pass, &passes.chosen.never_count);
    if (passes.chosen.only == NULL || passes.chosen.never == NULL)
        return no_memory(diag, "for the list of passes");
    if (options_int(options, OPTION_freeze_defaults) != 0 && graph_freeze_defaults(model->main) != INLAY_OK)
        return no_memory(diag, "to make default values constant");
    INLAY_TRY(graph_inline_functions(model, diag));
    INLAY_TRY(adapters_add(model, options, diag));
    INLAY_TRY(graph_bind(model, &operators, diag));
    if (model->source.base == NULL) {
        warn_of_attributes(session, model);
        warn_of_activations(session, model, options);
    }
    INLAY_TRY(fix_dims(model, options, diag));
    if (options_int(options, OPTION_free_shapes) != 0)
        free_shapes(model->main);
    if (model->source.base == NULL)
        session->loading.nodes_in_file = session_count_nodes(model->main);
    model->later_opset = session->loading.watch != NULL ? session->loading.watch->later_opset : 0;
    INLAY_TRY(graph_infer(model, diag));
    model->later_opset = 0;
    INLAY_CHECK(graph_model_check(model));
    if (model->findings.strict)
        INLAY_TRY(graph_check_declared(model, diag));
    INLAY_TRY(session_take_image_rows(model, options, diag));
    INLAY_TRY(session_keep_last_logits(model, options, diag));
    INLAY_TRY(add_taps(model, options, diag));
    passes.limits.rewrites = options_int(options, OPTION_rewrite_limit);
    INLAY_TRY(session_report(session, 0.2, "optimising", diag));
    if (session->loading.watch != NULL) {
        passes.report.note = note;
        passes.report.after = after;
        passes.report.ctx = session;
        passes.report.near_misses = session->loading.watch->near_misses;
        passes.options.newest_opset = session->loading.watch->newest_opset >= 0 ? session->loading.watch->newest_opset
                                                                                : graph_model_opset(model, "ai.onnx");
        if (session->loading.watch->newest_opset < 0 &&
            passes.options.newest_opset == 0) /* the oldest files have no imports */
            passes.options.newest_opset = 1;
        INLAY_TRY(after(session, ""));
    }
    INLAY_TRY(session_read_reductions(options, &passes));
    reduction_count = passes.options.reduction_count;
    INLAY_TRY(passes_run(&passes, (uint32_t)options_int(options, OPTION_level)));
    INLAY_TRY(session_check_reductions(passes.options.reductions, reduction_count, diag));
    if (passes.options.newest_opset == 0)
        INLAY_TRY(session_shrink_caches(model, options, diag));
    if (model->source.base == NULL)
        session->loading.lowerings = passes.run.lowerings;
done:
    program_folder_deinit(&folder);
    return status;
}
