#include "quantize/quantize.h"
#include "base/clock.h"
#include "quantize/awq.h"
#include "quantize/base.h"
#include "quantize/dynamic.h"
#include "quantize/mixed.h"
#include "quantize/moments.h"
#include "quantize/low_bit.h"
#include "quantize/pack.h"
#include "quantize/prune.h"
#include "data/scratch.h"
#include "quantize/search.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits for the time of a result, relative to the original model: FASTER if the result must be faster, NO_SLOWER if
 * small files are preferred. */
static const double FASTER = 0.97, NO_SLOWER = 1.01;
/* Limits for the number of compared samples; MAX_COMPARED_FORCED applies if the comparison decides nothing. */
enum { MAX_COMPARED = 256, MAX_COMPARED_FORCED = 24 };

/* State of one call of quantize_model(). */
struct job {
    const quantize_args *args;
    quantize_report *report;
    struct scratch scratch;
    struct subject before; /* the original model; open only while it is run, because its weights take memory */
    inlay_options *plain;  /* session options of both models */
    char path[PATH_MAX];   /* the model to publish; "" = the original */
    inlay_diag *diag;
};

static inlay_status report_progress(const struct job *job, double fraction, const char *what)
{
    if (job->args->calls.progress != NULL &&
        job->args->calls.progress(job->args->calls.progress_user, fraction, what) != 0)
        return inlay_fail(job->diag, INLAY_CANCELLED, "stopped; nothing was written");
    return INLAY_OK;
}

static inlay_status reopen_original(struct job *job)
{
    return subject_reopen(&job->before, job->args->model, job->plain, job->diag);
}

static const char *describe(const quantize_args *args, struct arena *arena)
{
    if (args->mode == QUANTIZE_DYNAMIC)
        return "integer matrix multiplications, ranges found in each run";
    switch (args->bits) {
    case LOW_BIT_MIXED:
        return arena_format(arena, "weights in 4 and 8 bits, at most %.3g on average, blocks of %u%s", args->most_bits,
                            args->block, args->nbits ? " (MatMulNBits)" : "");
    case 4:
        return arena_format(arena, "weights in 4 bits, blocks of %u%s", args->block,
                            args->nbits ? " (MatMulNBits)" : "");
    case 8:
        return "weights in 8 bits";
    case LOW_BIT_EXACT:
        return "weights that float16 holds exactly as float16";
    default:
        return "weights as float16";
    }
}

/* Describes the result where it differs from the request: 4 bits are available for matrices only. */
static const char *describe_done(const quantize_args *args, const layer_form *forms, uint32_t count,
                                 struct arena *arena)
{
    uint32_t fours = 0, eights = 0;

    for (uint32_t i = 0; i < count; i++) {
        fours += forms[i].bits == 4;
        eights += forms[i].bits == 8;
    }
    if (args->mode == QUANTIZE_DYNAMIC || (args->bits != 4 && args->bits != LOW_BIT_MIXED) || eights == 0)
        return describe(args, arena);
    if (fours == 0)
        return "weights in 8 bits, because no layer can have 4";
    if (args->bits == LOW_BIT_MIXED)
        return describe(args, arena);
    return arena_format(arena, "weights of %u layer%s in 4 bits, blocks of %u%s, of %u in 8 bits", fours,
                        fours == 1 ? "" : "s", args->block, args->nbits ? " (MatMulNBits)" : "", eights);
}

static inlay_status note_layers(const struct job *job, const layer_list *list, const layer_form *forms,
                                const char *const *names, const char *const *ops)
{
    quantize_report *report = job->report;
    struct arena *arena = &report->arena;

    report->layers = arena_array(arena, (size_t)list->count + 1, sizeof *report->layers);
    for (uint32_t i = 0; report->layers != NULL && i < list->count; i++) {
        const struct layer *layer = &list->items[i];
        quantize_layer *out = &report->layers[i];

        *out = (quantize_layer){ .name = names != NULL
                                             ? names[i]
                                             : arena_format(arena, "%s%s", layer->path, layer->node->info.name.data),
                                 .op = ops != NULL ? ops[i] : arena_string(arena, layer->node->info.op_type.data),
                                 .integers = ops != NULL && forms[i].bits < 32 && layer->multiplies,
                                 .bits = forms[i].bits,
                                 .bytes_before = (uint64_t)layer->count * sizeof(float),
                                 .bytes_after = forms[i].bytes,
                                 .kept = forms[i].reason };
        if (out->name == NULL || out->op == NULL)
            return no_memory(job->diag, "for the report");
    }
    report->layer_count = list->count;
    return report->layers != NULL ? INLAY_OK : no_memory(job->diag, "for the report");
}

/* Discards the result: the original model is written unchanged, with `why` as the reason; NULL: out of memory. */
static inlay_status keep_original(struct job *job, const char *why)
{
    if (why == NULL)
        return no_memory(job->diag, "for the report");
    job->report->handed = why;
    job->path[0] = '\0';
    for (uint32_t i = 0; i < job->report->layer_count; i++) {
        job->report->layers[i].bits = 32;
        job->report->layers[i].integers = false;
        job->report->layers[i].bytes_after = job->report->layers[i].bytes_before;
    }
    return INLAY_OK;
}

/* Data for low-bit weights, gathered by running the model. */
typedef struct low_bit_context {
    struct moments known;  /* second moments of the inputs of matrix multiplications */
    struct nibbles *codes; /* [layer_count] codes found while bits were chosen, or NULL */
    uint8_t *bits_of;      /* [layer_count], or NULL */
    uint32_t layer_count;
} low_bit_context;

static void low_bit_context_end(low_bit_context *context)
{
    moments_end(&context->known);
    for (uint32_t i = 0; context->codes != NULL && i < context->layer_count; i++)
        nibbles_free(&context->codes[i]);
    free(context->codes);
    free(context->bits_of);
}

/* Chooses the matrix multiplications that get 8 bits instead of 4. */
static inlay_status choose_bits(struct job *job, const char *base, const layer_list *list, low_bit_options *how,
                                low_bit_context *context)
{
    const mixed_options mixed = { job->args, &job->scratch, &job->before, job->plain, base, how };
    inlay_status status;

    context->layer_count = list->count;
    context->codes = calloc((size_t)list->count + 1, sizeof *context->codes);
    context->bits_of = calloc((size_t)list->count + 1, 1);
    if (context->codes == NULL || context->bits_of == NULL)
        return no_memory(job->diag, "for %u layers", list->count);
    how->known = context->codes;
    how->bits_of = context->bits_of;
    INLAY_TRY(reopen_original(job));
    INLAY_TRY(subject_cache_outputs(&job->before, job->args->data, job->scratch.dir, job->diag));
    status = mixed_choose(&mixed, list, context->bits_of, job->diag);
done:
    return status;
}

/* Scales channels (AWQ) so that important ones get finer steps, where that reduces the error. */
static inlay_status scale_channels(struct job *job, graph_model *model, const layer_list *list,
                                   const low_bit_options *how, low_bit_context *context, char *path)
{
    const awq_options scaling = { how->block, how->nbits };
    uint32_t count;
    inlay_status status;

    INLAY_TRY(report_progress(job, 0.38, "scaling channels"));
    INLAY_TRY(awq_model(model, list, &scaling, &context->known, &count, job->diag));
    if (count == 0)
        goto done;
    if (job->args->calls.note != NULL) {
        const char *line = arena_format(&job->report->arena, "channels of %u values scaled", count);

        job->args->calls.note(job->args->calls.progress_user, line != NULL ? line : "");
    }
    status = scratch_save(&job->scratch, "base", model, true, path, job->diag);
done:
    return status;
}

/* With real samples and 4-bit weights, gathers the second moments of the inputs. */
static inlay_status gather_statistics(struct job *job, graph_model *model, const layer_list *list, low_bit_options *how,
                                      low_bit_context *context)
{
    const quantize_args *args = job->args;
    char path[PATH_MAX];
    inlay_status status;

    if (how->bits != 4 || args->made_up || args->mode == QUANTIZE_DYNAMIC)
        return INLAY_OK;
    INLAY_TRY(scratch_save(&job->scratch, "base", model, true, path, job->diag));
    INLAY_TRY(moments_gather(path, job->plain, args->data, list, args->block, args->calls.progress,
                             args->calls.progress_user, &context->known, job->diag));
    how->inputs = context->known.layers;
    INLAY_TRY(scale_channels(job, model, list, how, context, path));
    if (args->bits == LOW_BIT_MIXED)
        INLAY_TRY(choose_bits(job, path, list, how, context));
done:
    return status;
}

static inlay_status reduce_weights(struct job *job)
{
    const quantize_args *args = job->args;
    const bool is_dynamic = args->mode == QUANTIZE_DYNAMIC;
    low_bit_context context = { 0 };
    low_bit_options how = { .bits = args->bits == LOW_BIT_MIXED ? 4 : args->bits,
                            .block = args->block,
                            .nbits = args->nbits,
                            .progress = args->calls.progress,
                            .progress_user = args->calls.progress_user };
    inlay_session *base = NULL;
    layer_form *forms;
    layer_list list;
    uint32_t changed = 0;
    inlay_status status;

    INLAY_TRY(base_open(args, is_dynamic ? DYNAMIC_OPSET : low_bit_opset(&how), &base, job->diag));
    INLAY_TRY(layers_find(base->model, args->skip, args->skip_count, &base->arena, &list, job->diag));
    forms = arena_array(&base->arena, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL) {
        status = no_memory(job->diag, "for %u layers", list.count);
        goto done;
    }
    INLAY_TRY(gather_statistics(job, base->model, &list, &how, &context));
    INLAY_TRY(is_dynamic ? dynamic_model(base->model, &list, forms, job->diag)
                         : low_bit_model(base->model, &list, &how, forms, job->diag));
    INLAY_TRY(note_layers(job, &list, forms, NULL, NULL));
    job->report->what = describe_done(args, forms, list.count, &job->report->arena);
    if (job->report->what == NULL) {
        status = no_memory(job->diag, "for the report");
        goto done;
    }
    for (uint32_t i = 0; i < list.count; i++)
        changed += forms[i].bits < 32;
    if (changed == 0)
        status =
            keep_original(job, list.count == 0 ? "the model has no layers with constant float weights"
                               : is_dynamic ? "no layer is a MatMul or Gemm that --mode dynamic can convert to integers"
                                            : "no layer can be stored in fewer bits");
    else
        status = scratch_save(&job->scratch, "narrow", base->model, false, job->path, job->diag);
done:
    low_bit_context_end(&context);
    inlay_session_destroy(base);
    return status;
}

static inlay_status prune_weights(struct job *job)
{
    const quantize_args *args = job->args;
    prune_options how = { .share = args->prune };
    struct moments known = { 0 };
    inlay_session *base = NULL;
    uint64_t channels = 0;
    layer_form *forms;
    layer_list list;
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(base_open(args, 7, &base, job->diag));
    INLAY_TRY(layers_find(base->model, args->skip, args->skip_count, &base->arena, &list, job->diag));
    forms = arena_array(&base->arena, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL) {
        status = no_memory(job->diag, "for %u layers", list.count);
        goto done;
    }
    if (!args->made_up && args->prune > 0) {
        INLAY_TRY(scratch_save(&job->scratch, "base", base->model, true, path, job->diag));
        INLAY_TRY(moments_gather(path, job->plain, args->data, &list, args->block, args->calls.progress,
                                 args->calls.progress_user, &known, job->diag));
        how.inputs = known.layers;
    }
    INLAY_TRY(prune_model(base->model, &list, &how, forms, &channels, job->diag));
    INLAY_TRY(note_layers(job, &list, forms, NULL, NULL));
    job->report->what = arena_format(&job->report->arena, "%.3g %% of blocks of 1x%d are zeros, %llu channels removed",
                                     100 * args->prune, PRUNE_WIDTH, (unsigned long long)channels);
    if (job->report->what == NULL) {
        status = no_memory(job->diag, "for the report");
        goto done;
    }
    status = scratch_save(&job->scratch, "pruned", base->model, false, job->path, job->diag);
done:
    moments_end(&known);
    inlay_session_destroy(base);
    return status;
}

/* Adds a candidate to the report. One that was measured several times is listed once: the chosen measurement, or else
 * the fastest. */
static void add_point(quantize_report *report, const search_point *from)
{
    const quantize_point point = { from->what, from->ms, from->agreement.score.value, from->chosen, 1 };

    for (uint32_t i = 0; i < report->point_count; i++) {
        quantize_point *same = &report->points[i];
        const uint32_t measured = same->measured + 1;

        if (strcmp(same->what, point.what) != 0)
            continue;
        if (point.chosen || (!same->chosen && point.ms < same->ms))
            *same = point;
        same->measured = measured;
        return;
    }
    report->points[report->point_count++] = point;
}

static inlay_status run_static_search(struct job *job)
{
    search_result found;
    quantize_report *report = job->report;
    inlay_status status = search_integers(job->args, &job->scratch, &job->before, &report->arena, &found, job->diag);

    if (status != INLAY_OK)
        return status;
    report->what = found.what;
    report->agreement = found.agreement;
    report->ms_before = found.ms_before;
    report->ms_after = found.ms_after;
    status = note_layers(job, &found.list, found.forms, found.names, found.ops);
    report->points = arena_array(&report->arena, (size_t)found.point_count + 1, sizeof *report->points);
    if (status == INLAY_OK && report->points == NULL)
        status = no_memory(job->diag, "for the report");
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < found.point_count; i++)
        add_point(report, &found.points[i]);
    memcpy(job->path, found.path, sizeof job->path);
    return found.failed != NULL ? keep_original(job, found.failed) : INLAY_OK;
}

/* Times the result and the original, each in a separate session. The two are interleaved, and the order alternates
 * from round to round, so that disturbances of the machine affect both. Keeps the original where the result is not fast
 * enough. */
static inlay_status compare_speed(struct job *job)
{
    const quantize_args *args = job->args;
    const double most = args->must ? INFINITY : args->small ? NO_SLOWER : FASTER;
    const char *const paths[] = { args->model, job->path };
    quantize_report *report = job->report;
    struct pace pace = { 0 };
    inlay_status status;

    subject_unload(&job->before);
    for (uint32_t round = 0; !pace_is_settled(&pace, most); round++) {
        double ms[2];

        INLAY_TRY(report_progress(job, 0.9, "timing"));
        for (uint32_t i = round; i < round + 2; i++)
            if (args->calls.timer == NULL || !args->calls.timer(args->calls.timer_user, paths[i % 2], &ms[i % 2]))
                INLAY_TRY(
                    evaluate_time_alone(args->data, paths[i % 2], job->plain, QUANTIZE_TIMED_S, &ms[i % 2], job->diag));
        pace_add(&pace, ms[0], ms[1]);
    }
    pace_times(&pace, &report->ms_before, &report->ms_after);
    for (uint32_t i = 0; i < report->point_count; i++) /* all reports show the same time of the result */
        report->points[i].ms = report->points[i].chosen ? report->ms_after : report->points[i].ms;
    if (!pace_holds(&pace, most))
        status = keep_original(
            job, arena_format(&report->arena,
                              "with %s it takes %.4g ms instead of %.4g ms: %.3f times, %.3f to %.3f in %u rounds, "
                              "and at most %.2f times are wanted; with --weights 8 any time is accepted",
                              report->what, report->ms_after, report->ms_before, report->ms_after / report->ms_before,
                              pace.ratios[0], pace.ratios[pace.rounds - 1], pace.rounds, most));
done:
    return status;
}

/* Runs the result, compares it with the original, and decides whether it is accepted. */
static inlay_status evaluate_result(struct job *job)
{
    const quantize_args *args = job->args;
    quantize_report *report = job->report;
    struct subject after = { 0 };
    inlay_status status;

    INLAY_TRY(report_progress(job, 0.6, "comparing"));
    INLAY_TRY(reopen_original(job));
    INLAY_TRY(subject_open(job->path, job->plain, &after, job->diag));
    status = evaluate_agreement(args->data, args->must ? MAX_COMPARED_FORCED : MAX_COMPARED, &args->demand,
                                &job->before, &after, &report->agreement, job->diag);
    if (status != INLAY_OK && args->made_up && status != INLAY_CANCELLED && status != INLAY_OUT_OF_MEMORY) {
        report->unmeasured = arena_string(&report->arena, job->diag->text); /* many models refuse random contents */
        report->agreement = (struct verdict){ 0 };
        status = report->unmeasured != NULL ? INLAY_OK : no_memory(job->diag, "for the report");
        goto done;
    }
    if (status != INLAY_OK)
        goto done;
    subject_close(&after);
    if (!args->must && !verdict_holds(&report->agreement, args->demand.goal, args->demand.sure))
        status = keep_original(job, verdict_describe(&report->agreement, report->what, &report->arena));
    else
        status = compare_speed(job);
done:
    subject_close(&after);
    return status;
}

/* Saves the original model to the scratch folder. */
static inlay_status save_original(struct job *job)
{
    const session_source source = { .path = job->args->model, .fd = -1 };
    inlay_session raw = { .model = NULL };
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, job->args->options, job->diag));
    status = scratch_save(&job->scratch, "same", raw.model, false, job->path, job->diag);
done:
    graph_model_destroy(raw.model);
    return status;
}

/* Compresses the external tensor file of the model to publish. */
static inlay_status pack_tensors(const struct job *job)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(job->path, '/') - job->path), job->path,
                         job->args->external) >= sizeof path)
        return inlay_fail(job->diag, INLAY_INVALID_ARGUMENT,
                          "the path of the external file '%.100s...' has more than %d bytes", job->args->external,
                          PATH_MAX - 1);
    return pack_file(path, job->diag);
}

/* Counts the bytes of the model's file and of its external files; sparse tensors count as stored. */
static inlay_status measure_before(struct job *job)
{
    const session_source source = { .path = job->args->model, .fd = -1 };
    inlay_session raw = { .loading.keeps_sparse = true };
    inlay_status status = session_load_model(&raw, &source, job->args->options, job->diag);

    if (status == INLAY_OK)
        job->report->bytes_before = raw.model->source.stored_bytes;
    graph_model_destroy(raw.model);
    return status;
}

/* Chooses the metric by the model's outputs on the samples, and the goal by the metric, unless the caller has set them.
 */
static inlay_status resolve_goal(struct job *job, quantize_args *args)
{
    inlay_status status = INLAY_OK;

    if (args->demand.metric == AGREE_auto && !args->made_up && inlay_session_output_count(args->data->of) == 1) {
        INLAY_TRY(reopen_original(job));
        INLAY_TRY(evaluate_metric(args->data, &job->before, &args->demand.metric, job->diag));
        subject_unload(&job->before); /* the next step runs other models */
    }
    if (isnan(args->demand.goal)) {
        args->demand.goal = verdict_default_goal(args->demand.metric);
        args->demand.sure = true;
    }
done:
    return status;
}

inlay_status quantize_model(const quantize_args *given, quantize_report *report, inlay_diag *diag)
{
    quantize_args resolved = *given, *args = &resolved;
    struct job job = { .args = args, .report = report, .diag = diag };
    const double begin_ms = clock_ms();
    inlay_status status;

    *report = (quantize_report){ 0 };
    report->what = describe(args, &report->arena);
    INLAY_TRY(scratch_make(args->output, args->external, &job.scratch, diag));
    INLAY_TRY(evaluate_options_of_both(args->options, &job.plain, diag));
    INLAY_TRY(report_progress(&job, 0.1, "loading"));
    INLAY_TRY(resolve_goal(&job, args));
    if (args->mode == QUANTIZE_STATIC) {
        INLAY_TRY(run_static_search(&job));
        if (job.path[0] != '\0')
            INLAY_TRY(
                compare_speed(&job)); /* the search picked the fastest of several timings, so time the winner again */
    } else {
        INLAY_TRY(isnan(args->prune) ? reduce_weights(&job) : prune_weights(&job));
        if (job.path[0] != '\0')
            INLAY_TRY(evaluate_result(&job));
    }
    INLAY_TRY(measure_before(&job));
    if (job.path[0] == '\0')
        INLAY_TRY(save_original(&job));
    INLAY_TRY(report_progress(&job, 1, "writing"));
    if (args->pack)
        INLAY_TRY(pack_tensors(&job));
    status = scratch_publish(&job.scratch, job.path, &report->bytes_after, diag);
done:
    subject_close(&job.before);
    scratch_remove(&job.scratch);
    inlay_options_destroy(job.plain);
    report->seconds = (clock_ms() - begin_ms) * 1e-3;
    return status;
}

void quantize_report_deinit(quantize_report *report)
{
    arena_deinit(&report->arena);
    *report = (quantize_report){ 0 };
}
