#include "watchdog/report.h"
#include "base/element.h"
#include "base/hash.h"
#include "base/order.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/declined.h"
#include "plan/program/kernels.h"
#include "watchdog/judge.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Is the value between two regions of another type than in the model? */
static bool has_other_types(const program_step *step)
{
    for (uint32_t i = 0; i < step->region->input_count + step->region->output_count; i++)
        if (step->placements != NULL && step->placements[i].dtype != INLAY_UNDEFINED)
            return true;
    return false;
}

static bool keeps_state(const struct program *program, const program_step *step)
{
    for (uint32_t i = 0; program->state_steps != NULL && i < program->env->state_count; i++)
        if (program->state_steps[i] == (uint32_t)(step - program->steps))
            return true;
    return false;
}

static void log_skipped(const struct program *program, const graph_node *node, const char *why)
{
    char line[500];

    (void)snprintf(line, sizeof line, "watchdog: the region of %.60s node '%.150s' is not checked: it %.200s",
                   node->info.op_type.data, node->info.name.data, why);
    if (program->env->log != NULL)
        program->env->log(program->env->log_ctx, INLAY_LOG_INFO, line);
}

bool region_watch_init(region_watch *region, const struct program *program, const program_step *step,
                       const char *reference)
{
    const graph_node *node = step->node;
    const char *why = NULL;

    *region = (region_watch){ .step = step,
                              .piece = { program->graph, step->region->nodes, step->region->outputs,
                                         step->region->node_count, step->region->output_count },
                              .inexact = calloc((size_t)program->graph->value_count + 1, 1) };
    if (region->inexact == NULL)
        return false;
    if (strcmp(step->provider->name, reference) == 0)
        why = "runs on the reference provider";
    else if (keeps_state(program, step))
        why = "keeps a state";
    else if (has_other_types(step))
        why = "reads or writes values in another type than the model's";
    region->kind = why != NULL ? PIECE_SKIPPED : piece_classify(&region->piece, region->inexact, &why, &node);
    if (region->kind == PIECE_SKIPPED)
        log_skipped(program, node, why);
    return true;
}

void region_watch_deinit(region_watch *region)
{
    free(region->inexact);
}

/* The tensors of a sample: sets the inputs in values; got: [output_count] the outputs. */
static bool open_sample(const struct sample *sample, piece_values *values, inlay_tensor_view *got)
{
    const partition_region *region = sample->step->region;

    for (uint32_t i = 0; i < region->input_count + region->output_count; i++) {
        const sample_tensor *tensor = &sample->tensors[i];
        const char *data = sample->memory + tensor->offset;

        if (i >= region->input_count)
            got[i - region->input_count] = (inlay_tensor_view){
                .data = data, .bytes = tensor->bytes, .dims = tensor->dims, .rank = tensor->rank, .dtype = tensor->dtype
            };
        else if (!piece_values_set(values, region->inputs[i], tensor->dtype, tensor->rank, tensor->dims, data,
                                   tensor->bytes))
            return false;
    }
    return true;
}

/* Runs a single node on the provider of the region, on the inputs that it has on the reference provider. True: it is
 * wrong there, too. */
static bool node_is_wrong(const report_request *request, const struct piece *single, const piece_values *reference,
                          struct verdict *out)
{
    piece_machine machine = request->machine;
    piece_values own = { 0 }, values = { 0 };
    uint8_t *inexact = calloc((size_t)single->graph->value_count + 1, 1);
    inlay_tensor_view *got = calloc((size_t)single->output_count + 1, sizeof *got);
    int64_t(*dims)[INLAY_MAX_RANK] = calloc((size_t)single->output_count + 1, sizeof *dims);
    const graph_node *node;
    const char *why;
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    machine.provider = request->sample->step->provider;
    *out = (struct verdict){ .wrong = false };
    if (inexact == NULL || got == NULL || dims == NULL || !piece_values_init(&own, single->graph) ||
        piece_classify(single, inexact, &why, &node) == PIECE_SKIPPED)
        goto done;
    memcpy(own.infos, reference->infos, reference->count * sizeof *own.infos);
    INLAY_TRY(piece_compute(&machine, single, NULL, &own, &quiet));
    for (uint32_t i = 0; i < single->output_count; i++) {
        const inlay_value_info *info = &own.infos[single->outputs[i]];

        for (uint32_t d = 0; d < info->rank; d++)
            dims[i][d] = info->dims[d].value;
        got[i] = (inlay_tensor_view){
            .data = info->data, .bytes = info->data_bytes, .dims = dims[i], .rank = info->rank, .dtype = info->dtype
        };
    }
    INLAY_TRY(judge_piece(&request->machine, single, inexact, reference, got, &values, out, &quiet));
done:
    piece_values_deinit(&values);
    piece_values_deinit(&own);
    free(inexact);
    free(got);
    free(dims);
    return status == INLAY_OK && out->wrong;
}

/* Sets *single to the first node of the region that is wrong by itself; its outputs are in *outputs, which the caller
 * frees. False: there is none. */
static bool find_node(const report_request *request, const region_watch *region, const piece_values *reference,
                      struct piece *single, uint32_t **outputs, struct verdict *out)
{
    const inlay_provider *table = request->sample->step->provider->table;

    *outputs = NULL;
    if (partition_default_domain(request->sample->step->provider) != INLAY_DOMAIN_HOST ||
        (table->flags & INLAY_PROVIDER_ASYNC) != 0)
        return false;
    for (uint32_t k = 0; region->piece.node_count > 1 && k < region->piece.node_count; k++) {
        const graph_node *node = region->piece.graph->nodes[region->piece.nodes[k]];
        uint32_t count = 0;

        free(*outputs);
        *outputs = calloc((size_t)node->info.output_count + 1, sizeof **outputs);
        if (*outputs == NULL)
            return false;
        for (uint32_t i = 0; i < node->info.output_count; i++)
            if (node->info.outputs[i] != INLAY_NONE)
                (*outputs)[count++] = node->info.outputs[i];
        *single = (struct piece){ region->piece.graph, &region->piece.nodes[k], *outputs, 1, count };
        if (node_is_wrong(request, single, reference, out))
            return true;
    }
    return false;
}

/* The name of the kernel that computes a node. */
typedef struct kernel_name {
    uint32_t node;
    char text[64];
} kernel_name;

static inlay_status take_kernel(void *ctx, const inlay_kernel *kernel)
{
    kernel_name *name = ctx;

    if (kernel != NULL && INLAY_HAS(kernel, name) && kernel->name != NULL && kernel->node == name->node)
        (void)snprintf(name->text, sizeof name->text, "%s", kernel->name);
    return INLAY_OK;
}

/* The provider's offers with one of these nodes are never chosen again in this session. */
static bool shut_out(const struct sample *sample, const struct piece *guilty, const char *text)
{
    struct program *program = (struct program *)(uintptr_t)sample->program;
    uint8_t *offers = calloc((size_t)program->parts.offer_count + 1, 1);
    inlay_status status = INLAY_OUT_OF_MEMORY;

    for (uint32_t i = 0; offers != NULL && i < program->parts.offer_count; i++) {
        const partition_offer *offer = &program->parts.offers[i];

        for (uint32_t k = 0; k < offer->node_count; k++)
            if (offer->provider == sample->step->region->provider &&
                is_listed(guilty->nodes, guilty->node_count, offer->nodes[k]))
                offers[i] = 1;
    }
    if (offers != NULL)
        status = declined_add_all(program, offers, text, NULL);
    free(offers);
    return status == INLAY_OK;
}

/* "Conv 'a'", or "3 nodes, Conv 'a' to Relu 'c',". */
static void name_nodes(const struct piece *guilty, char *text, size_t bytes)
{
    const inlay_node_info *first = &guilty->graph->nodes[guilty->nodes[0]]->info;
    const inlay_node_info *last = &guilty->graph->nodes[guilty->nodes[guilty->node_count - 1]]->info;

    if (guilty->node_count == 1)
        (void)snprintf(text, bytes, "%.40s '%.120s'", first->op_type.data, first->name.data);
    else
        (void)snprintf(text, bytes, "%u nodes, %.40s '%.100s' to %.40s '%.100s',", guilty->node_count,
                       first->op_type.data, first->name.data, last->op_type.data, last->name.data);
}

static void describe(const struct sample *sample, const struct piece *guilty, const piece_values *values,
                     const struct verdict *found, const char *kernel, char *text, size_t bytes)
{
    const inlay_value_info *info = &values->infos[found->value];
    int64_t index[INLAY_MAX_RANK], rest = found->at;
    char nodes[360], place[128];

    name_nodes(guilty, nodes, sizeof nodes);
    for (uint32_t d = info->rank; found->at >= 0 && d-- > 0;) {
        index[d] = rest % info->dims[d].value;
        rest /= info->dims[d].value;
    }
    if (found->at < 0)
        (void)snprintf(text, bytes, "provider %s%s%s computed %s wrong: output '%.100s' has another shape or type",
                       sample->step->provider->name, kernel[0] != '\0' ? ", kernel " : "", kernel, nodes,
                       info->name.data);
    else
        (void)snprintf(text, bytes,
                       "provider %s%s%s computed %s wrong: output '%.100s' is %.9g at %s, %.9g on the reference "
                       "provider (error %.3g, bound %.3g)",
                       sample->step->provider->name, kernel[0] != '\0' ? ", kernel " : "", kernel, nodes,
                       info->name.data, found->got,
                       info->rank == 0 ? "[]" : dims_text(index, info->rank, ", ", place, sizeof place), found->want,
                       found->error, found->bound);
}

/* A path for the model of a finding, the same for equal findings: "Conv-0123456789abcdef.onnx". */
static bool make_path(const report_request *request, const struct piece *guilty, char *path, size_t bytes)
{
    const inlay_node_info *node = &guilty->graph->nodes[guilty->nodes[0]]->info;
    const char *provider = request->sample->step->provider->name;
    uint64_t hash = hash_bytes(provider, strlen(provider), request->sample->program->snapshot.content_hash);

    hash = hash_bytes(node->name.data, (size_t)node->name.bytes, hash);
    return request->folder[0] != '\0' && (size_t)snprintf(path, bytes, "%s/%.40s-%016llx.onnx", request->folder,
                                                          node->op_type.data, (unsigned long long)hash) < bytes;
}

static void record(struct findings *findings, const report_request *request, const struct piece *guilty,
                   const piece_values *values, const struct verdict *found, const char *kernel, const char *text,
                   const char *path)
{
    const inlay_node_info *node = &guilty->graph->nodes[guilty->nodes[0]]->info;
    struct arena *arena = &findings->arena;
    inlay_watchdog_finding *finding;

    if (findings->count < MAX_FINDINGS) {
        finding = &findings->list[findings->count];
        *finding = (inlay_watchdog_finding){ .provider = arena_string(arena, request->sample->step->provider->name),
                                             .kernel = arena_string(arena, kernel),
                                             .op_type = arena_string(arena, node->op_type.data),
                                             .node = arena_string(arena, node->name.data),
                                             .output = arena_string(arena, values->infos[found->value].name.data),
                                             .text = arena_string(arena, text),
                                             .model_path = arena_string(arena, path),
                                             .error = found->error,
                                             .bound = found->bound,
                                             .node_count = guilty->node_count };
        if (finding->provider != NULL && finding->kernel != NULL && finding->op_type != NULL && finding->node != NULL &&
            finding->output != NULL && finding->text != NULL && finding->model_path != NULL)
            __atomic_store_n(&findings->count, findings->count + 1, __ATOMIC_RELEASE); /* read without the lock */
    }
}

static void report(const report_request *request, const region_watch *region, const piece_values *values,
                   const struct verdict *found, struct findings *findings)
{
    const struct sample *sample = request->sample;
    struct verdict of_node;
    struct piece single;
    uint32_t *outputs;
    const bool alone = find_node(request, region, values, &single, &outputs, &of_node);
    const struct piece *guilty = alone ? &single : &region->piece;
    kernel_name kernel = { .node = guilty->nodes[0] };
    char text[900], line[PATH_MAX + sizeof text + 160], path[PATH_MAX] = "";
    inlay_diag diag = INLAY_DIAG_INIT;
    bool shut;

    if (program_list_kernels((struct program *)(uintptr_t)sample->program, sample->step, sample->program->parts.profile,
                             take_kernel, &kernel, &diag) != INLAY_OK)
        diag = (inlay_diag)INLAY_DIAG_INIT; /* a list that failed only shortens the text */
    describe(sample, guilty, values, alone ? &of_node : found, kernel.text, text, sizeof text);
    if (!alone && region->piece.node_count > 1)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "; no node alone has this error");
    shut = shut_out(sample, guilty, text);
    if (make_path(request, guilty, path, sizeof path) &&
        report_write_model(guilty, values, text, path, &diag) != INLAY_OK)
        path[0] = '\0';
    record(findings, request, guilty, values, alone ? &of_node : found, kernel.text, text, path);
    (void)snprintf(line, sizeof line, "watchdog: %s%s%s%s", text,
                   shut ? "; it no longer runs there if another provider can"
                        : "; it stays there: no memory to move it",
                   path[0] != '\0' ? "; model with inputs: " : "", path);
    if (request->env->log != NULL)
        request->env->log(request->env->log_ctx, INLAY_LOG_WARNING, line);
    free(outputs);
}

void report_sample(const report_request *request, const region_watch *region, struct findings *findings,
                   report_result *out)
{
    piece_values from = { 0 }, values = { 0 };
    inlay_tensor_view *got = calloc((size_t)region->piece.output_count + 1, sizeof *got);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OUT_OF_MEMORY;
    struct verdict found = { .wrong = false };

    *out = (report_result){ .judged = false };
    if (got != NULL && piece_values_init(&from, region->piece.graph) && open_sample(request->sample, &from, got))
        status = judge_piece(&request->machine, &region->piece, region->inexact, &from, got, &values, &found, &diag);
    out->judged = status == INLAY_OK && !found.unsure;
    out->unsure = found.unsure;
    out->wrong = found.wrong && status == INLAY_OK;
    out->skip = status != INLAY_OK && status != INLAY_CANCELLED && status != INLAY_OUT_OF_MEMORY;
    if (out->skip) {
        char why[300];

        (void)snprintf(why, sizeof why, "cannot be computed on the reference provider: %.200s",
                       diag.text[0] != '\0' ? diag.text : inlay_status_text(status));
        log_skipped(request->sample->program, request->sample->step->node, why);
    }
    if (out->wrong)
        report(request, region, &values, &found, findings);
    if (found.unsteady && request->env->log != NULL)
        request->env->log(request->env->log_ctx, INLAY_LOG_WARNING,
                          "watchdog: the reference provider computed a region twice with different results: check the "
                          "processor and the memory of this machine");
    piece_values_deinit(&values);
    piece_values_deinit(&from);
    free(got);
}
