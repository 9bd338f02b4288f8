#include "quantize/quantize.h"
#include "base/clock.h"
#include "quantize/awq.h"
#include "quantize/base.h"
#include "quantize/dynamic.h"
#include "quantize/mixed.h"
#include "quantize/moments.h"
#include "quantize/narrow.h"
#include "quantize/pack.h"
#include "quantize/prune.h"
#include "data/scratch.h"
#include "quantize/search.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest time of a result, relative to the original model: where it must be faster, and where small files are
 * preferred. */
static const double FASTER = 0.97, NO_SLOWER = 1.01;
enum {
    MOST_COMPARED = 256,
    MOST_LOOKED_AT = 24
}; /* samples to compare on; the second limit applies where the comparison decides nothing */

/* State of one call of quantize_model(). */
struct work {
    const quantize_args *args;
    quantize_report *report;
    struct scratch scratch;
    struct subject before; /* the original model; open only while it is run, because its weights take memory */
    inlay_options *plain;  /* session options of both models */
    char path[PATH_MAX];   /* the model to publish; "" = the original */
    inlay_diag *diag;
};

static inlay_status tell(const struct work *work, double fraction, const char *what)
{
    if (work->args->progress != NULL && work->args->progress(work->args->progress_user, fraction, what) != 0)
        return inlay_fail(work->diag, INLAY_CANCELLED, "stopped; nothing was written");
    return INLAY_OK;
}

static inlay_status wake(struct work *work)
{
    return subject_wake(&work->before, work->args->model, work->plain, work->diag);
}

/* ------------------------------------------------------------------ the report */

static const char *describe(const quantize_args *args, struct arena *arena)
{
    if (args->mode == QUANTIZE_DYNAMIC)
        return "integer matrix multiplications, ranges found in each run";
    switch (args->bits) {
    case NARROW_MIXED:
        return arena_format(arena, "weights in 4 and 8 bits, at most %.3g on average, blocks of %u%s", args->most_bits,
                            args->block, args->nbits ? " (MatMulNBits)" : "");
    case 4:
        return arena_format(arena, "weights in 4 bits, blocks of %u%s", args->block,
                            args->nbits ? " (MatMulNBits)" : "");
    case 8:
        return "weights in 8 bits";
    case NARROW_EXACT:
        return "weights that float16 holds exactly as float16";
    default:
        return "weights as float16";
    }
}

/* Describes the result where it differs from the request: 4 bits are available for matrix multiplications only. */
static const char *describe_done(const quantize_args *args, const layer_form *forms, uint32_t count,
                                 struct arena *arena)
{
    uint32_t fours = 0, eights = 0;

    for (uint32_t i = 0; i < count; i++) {
        fours += forms[i].bits == 4;
        eights += forms[i].bits == 8;
    }
    if (args->mode == QUANTIZE_DYNAMIC || (args->bits != 4 && args->bits != NARROW_MIXED) || eights == 0)
        return describe(args, arena);
    if (fours == 0)
        return "weights in 8 bits, because no layer can have 4";
    if (args->bits == NARROW_MIXED)
        return describe(args, arena);
    return arena_format(arena, "weights of %u layer%s in 4 bits, blocks of %u%s, of %u in 8 bits", fours,
                        fours == 1 ? "" : "s", args->block, args->nbits ? " (MatMulNBits)" : "", eights);
}

static inlay_status note_layers(const struct work *work, const layer_list *list, const layer_form *forms,
                                const char *const *names, const char *const *ops)
{
    quantize_report *report = work->report;
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
                                 .kept = forms[i].kept };
        if (out->name == NULL || out->op == NULL)
            return no_memory(work->diag, "for the report");
    }
    report->layer_count = list->count;
    return report->layers != NULL ? INLAY_OK : no_memory(work->diag, "for the report");
}

/* Discards the result: the original model is written unchanged, with `why` as the reason. */
static void hand_back(struct work *work, const char *why)
{
    work->report->handed = why;
    work->path[0] = '\0';
    for (uint32_t i = 0; i < work->report->layer_count; i++) {
        work->report->layers[i].bits = 32;
        work->report->layers[i].integers = false;
        work->report->layers[i].bytes_after = work->report->layers[i].bytes_before;
    }
}

/* ------------------------------------------------------------------ weights alone */

/* What low-bit weights need in addition to the model. */
typedef struct narrowing_aids {
    struct moments known;  /* second moments of the inputs of matrix multiplications */
    struct nibbles *codes; /* [layer_count] codes found while bits were chosen, or NULL */
    uint8_t *bits_of;      /* [layer_count], or NULL */
    uint32_t layer_count;
} narrowing_aids;

static void aids_end(narrowing_aids *aids)
{
    moments_end(&aids->known);
    for (uint32_t i = 0; aids->codes != NULL && i < aids->layer_count; i++)
        nibbles_free(&aids->codes[i]);
    free(aids->codes);
    free(aids->bits_of);
}

/* Chooses the matrix multiplications that get 8 bits instead of 4. */
static inlay_status choose_bits(struct work *work, const char *base, const layer_list *list, narrow_how *how,
                                narrowing_aids *aids)
{
    const mixed_how mixed = { work->args, &work->scratch, &work->before, work->plain, base, how };
    inlay_status status;

    aids->layer_count = list->count;
    aids->codes = calloc((size_t)list->count + 1, sizeof *aids->codes);
    aids->bits_of = calloc((size_t)list->count + 1, 1);
    if (aids->codes == NULL || aids->bits_of == NULL)
        return no_memory(work->diag, "for %u layers", list->count);
    how->known = aids->codes;
    how->bits_of = aids->bits_of;
    INLAY_TRY(wake(work));
    INLAY_TRY(subject_keep(&work->before, work->args->data, work->scratch.dir, work->diag));
    status = mixed_choose(&mixed, list, aids->bits_of, work->diag);
done:
    return status;
}

/* Scales channels (AWQ) so that important ones get finer steps, where that reduces the error. */
static inlay_status scale_channels(struct work *work, graph_model *model, const layer_list *list, const narrow_how *how,
                                   narrowing_aids *aids, char *path)
{
    const awq_how scaling = { how->block, how->nbits };
    uint32_t count;
    inlay_status status;

    INLAY_TRY(tell(work, 0.38, "scaling channels"));
    INLAY_TRY(awq_model(model, list, &scaling, &aids->known, &count, work->diag));
    if (count == 0)
        goto done;
    if (work->args->note != NULL) {
        const char *line = arena_format(&work->report->arena, "channels of %u values scaled", count);

        work->args->note(work->args->progress_user, line != NULL ? line : "");
    }
    status = scratch_save(&work->scratch, "base", model, true, path, work->diag);
done:
    return status;
}

/* With real samples and 4-bit weights, gathers the second moments of the inputs. */
static inlay_status gather_aids(struct work *work, graph_model *model, const layer_list *list, narrow_how *how,
                                narrowing_aids *aids)
{
    const quantize_args *args = work->args;
    char path[PATH_MAX];
    inlay_status status;

    if (how->bits != 4 || args->made_up || args->mode == QUANTIZE_DYNAMIC)
        return INLAY_OK;
    INLAY_TRY(scratch_save(&work->scratch, "base", model, true, path, work->diag));
    INLAY_TRY(moments_gather(path, work->plain, args->data, list, args->block, args->progress, args->progress_user,
                             &aids->known, work->diag));
    how->inputs = aids->known.layers;
    INLAY_TRY(scale_channels(work, model, list, how, aids, path));
    if (args->bits == NARROW_MIXED)
        INLAY_TRY(choose_bits(work, path, list, how, aids));
done:
    return status;
}

static inlay_status narrow_weights(struct work *work)
{
    const quantize_args *args = work->args;
    const bool is_dynamic = args->mode == QUANTIZE_DYNAMIC;
    narrowing_aids aids = { 0 };
    narrow_how how = { .bits = args->bits == NARROW_MIXED ? 4 : args->bits,
                       .block = args->block,
                       .nbits = args->nbits,
                       .progress = args->progress,
                       .progress_user = args->progress_user };
    inlay_session *base = NULL;
    layer_form *forms;
    layer_list list;
    uint32_t changed = 0;
    inlay_status status;

    INLAY_TRY(base_open(args, is_dynamic ? DYNAMIC_OPSET : narrow_opset(&how), &base, work->diag));
    INLAY_TRY(layers_find(base->model, args->skip, args->skip_count, &base->arena, &list, work->diag));
    forms = arena_array(&base->arena, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL) {
        status = no_memory(work->diag, "for %u layers", list.count);
        goto done;
    }
    INLAY_TRY(gather_aids(work, base->model, &list, &how, &aids));
    INLAY_TRY(is_dynamic ? dynamic_model(base->model, &list, forms, work->diag)
                         : narrow_model(base->model, &list, &how, forms, work->diag));
    INLAY_TRY(note_layers(work, &list, forms, NULL, NULL));
    work->report->what = describe_done(args, forms, list.count, &work->report->arena);
    for (uint32_t i = 0; i < list.count; i++)
        changed += forms[i].bits < 32;
    if (changed == 0)
        hand_back(work, list.count == 0 ? "the model has no layers with constant float weights"
                        : is_dynamic    ? "no layer is a MatMul or Gemm that --mode dynamic can convert to integers"
                                        : "no layer can be stored in fewer bits");
    else
        status = scratch_save(&work->scratch, "narrow", base->model, false, work->path, work->diag);
done:
    aids_end(&aids);
    inlay_session_destroy(base);
    return status;
}

/* ------------------------------------------------------------------ zeros */

static inlay_status prune_weights(struct work *work)
{
    const quantize_args *args = work->args;
    prune_how how = { .share = args->prune };
    struct moments known = { 0 };
    inlay_session *base = NULL;
    uint64_t channels = 0;
    layer_form *forms;
    layer_list list;
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(base_open(args, 7, &base, work->diag));
    INLAY_TRY(layers_find(base->model, args->skip, args->skip_count, &base->arena, &list, work->diag));
    forms = arena_array(&base->arena, (size_t)list.count + 1, sizeof *forms);
    if (forms == NULL) {
        status = no_memory(work->diag, "for %u layers", list.count);
        goto done;
    }
    if (!args->made_up && args->prune > 0) {
        INLAY_TRY(scratch_save(&work->scratch, "base", base->model, true, path, work->diag));
        INLAY_TRY(moments_gather(path, work->plain, args->data, &list, args->block, args->progress, args->progress_user,
                                 &known, work->diag));
        how.inputs = known.layers;
    }
    INLAY_TRY(prune_model(base->model, &list, &how, forms, &channels, work->diag));
    INLAY_TRY(note_layers(work, &list, forms, NULL, NULL));
    work->report->what =
        arena_format(&work->report->arena, "%.3g %% of blocks of 1x%d are zeros, %llu channels removed",
                     100 * args->prune, PRUNE_WIDTH, (unsigned long long)channels);
    status = scratch_save(&work->scratch, "pruned", base->model, false, work->path, work->diag);
done:
    moments_end(&known);
    inlay_session_destroy(base);
    return status;
}

/* ------------------------------------------------------------------ integers */

static inlay_status find_integers(struct work *work)
{
    search_result found;
    quantize_report *report = work->report;
    inlay_status status =
        search_integers(work->args, &work->scratch, &work->before, &report->arena, &found, work->diag);

    if (status != INLAY_OK)
        return status;
    report->what = found.what;
    report->agreement = found.agreement;
    report->ms_before = found.ms_before;
    report->ms_after = found.ms_after;
    status = note_layers(work, &found.list, found.forms, found.names, found.ops);
    report->points = arena_array(&report->arena, (size_t)found.point_count + 1, sizeof *report->points);
    for (uint32_t i = 0; report->points != NULL && i < found.point_count; i++)
        report->points[report->point_count++] =
            (quantize_point){ found.points[i].what, found.points[i].ms, found.points[i].agreement.score.value,
                              found.points[i].chosen };
    memcpy(work->path, found.path, sizeof work->path);
    if (found.failed != NULL)
        hand_back(work, found.failed);
    return status;
}

/* Times the result and the original, each in a session of its own. The two are interleaved, and the order alternates
 * from round to round, so that disturbances of the machine affect both. Keeps the original where the result is not fast
 * enough. */
static inlay_status judge_pace(struct work *work)
{
    const quantize_args *args = work->args;
    const double most = args->must ? INFINITY : args->small ? NO_SLOWER : FASTER;
    const char *const paths[] = { args->model, work->path };
    quantize_report *report = work->report;
    struct pace pace = { 0 };
    inlay_status status;

    subject_unload(&work->before);
    for (uint32_t round = 0; !pace_is_settled(&pace, most); round++) {
        double ms[2];

        INLAY_TRY(tell(work, 0.9, "timing"));
        for (uint32_t i = round; i < round + 2; i++)
            if (args->timer == NULL || !args->timer(args->timer_user, paths[i % 2], &ms[i % 2]))
                INLAY_TRY(judge_alone(args->data, paths[i % 2], work->plain, QUANTIZE_TIMED_S, &ms[i % 2], work->diag));
        pace_add(&pace, ms[0], ms[1]);
    }
    pace_times(&pace, &report->ms_before, &report->ms_after);
    if (!pace_holds(&pace, most))
        hand_back(work,
                  arena_format(&report->arena,
                               "with %s it takes %.3g ms instead of %.3g ms: %.2f times, %.2f to %.2f in %u rounds",
                               report->what, report->ms_after, report->ms_before, report->ms_after / report->ms_before,
                               pace.ratios[0], pace.ratios[pace.rounds - 1], pace.rounds));
done:
    return status;
}

/* Runs the result, compares it with the original, and decides whether it is accepted. */
static inlay_status judge(struct work *work)
{
    const quantize_args *args = work->args;
    quantize_report *report = work->report;
    struct subject after = { 0 };
    inlay_status status;

    INLAY_TRY(tell(work, 0.6, "comparing"));
    INLAY_TRY(wake(work));
    INLAY_TRY(subject_open(work->path, work->plain, &after, work->diag));
    status = judge_agreement(args->data, args->must ? MOST_LOOKED_AT : MOST_COMPARED, args->metric, &work->before,
                             &after, &report->agreement, work->diag);
    if (status != INLAY_OK && args->made_up && status != INLAY_CANCELLED && status != INLAY_OUT_OF_MEMORY) {
        report->unmeasured = arena_string(&report->arena, work->diag->text); /* many models refuse random contents */
        report->agreement = (struct verdict){ 0 };
        status = INLAY_OK;
        goto done;
    }
    if (status != INLAY_OK)
        goto done;
    subject_close(&after);
    if (!args->must && !verdict_holds(&report->agreement, args->goal, args->sure))
        hand_back(work, verdict_only(&report->agreement, report->what, &report->arena));
    else
        status = judge_pace(work);
done:
    subject_close(&after);
    return status;
}

/* ------------------------------------------------------------------ the whole */

/* Saves the original model to the scratch folder. */
static inlay_status save_as_is(struct work *work)
{
    const session_source source = { .path = work->args->model, .fd = -1 };
    inlay_session raw = { .model = NULL };
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, work->args->options, work->diag));
    status = scratch_save(&work->scratch, "same", raw.model, false, work->path, work->diag);
done:
    graph_model_destroy(raw.model);
    return status;
}

/* Compresses the external tensor file of the model to publish. */
static inlay_status pack_tensors(const struct work *work)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(work->path, '/') - work->path), work->path,
                         work->args->external) >= sizeof path)
        return inlay_fail(work->diag, INLAY_INVALID_ARGUMENT, "the path of the external file is too long");
    return pack_file(path, work->diag);
}

/* Counts the bytes of the model's file and of its external files; sparse tensors count as stored. */
static inlay_status measure_before(struct work *work)
{
    const session_source source = { .path = work->args->model, .fd = -1 };
    inlay_session raw = { .keeps_sparse = true };
    inlay_status status = session_load_model(&raw, &source, work->args->options, work->diag);

    if (status == INLAY_OK)
        work->report->bytes_before = graph_blob_mapped(raw.model);
    graph_model_destroy(raw.model);
    return status;
}

/* Chooses what the caller left open: the metric by the model's outputs on the samples, and the goal by the metric. */
static inlay_status settle_goal(struct work *work, quantize_args *args)
{
    inlay_status status = INLAY_OK;

    if (args->metric == AGREE_auto && !args->made_up && inlay_session_output_count(args->data->of) == 1) {
        INLAY_TRY(wake(work));
        INLAY_TRY(judge_metric(args->data, &work->before, &args->metric, work->diag));
        subject_unload(&work->before); /* the next step runs other models */
    }
    if (isnan(args->goal)) {
        args->goal = args->metric == AGREE_kl ? 0.01 : args->metric == AGREE_text ? 0.95 : 0.99;
        args->sure = true;
    }
done:
    return status;
}

inlay_status quantize_model(const quantize_args *given, quantize_report *report, inlay_diag *diag)
{
    quantize_args settled = *given, *args = &settled;
    struct work work = { .args = args, .report = report, .diag = diag };
    const double begin_ms = clock_ms();
    inlay_status status;

    *report = (quantize_report){ 0 };
    report->what = describe(args, &report->arena);
    INLAY_TRY(scratch_make(args->output, args->external, &work.scratch, diag));
    INLAY_TRY(judge_options(args->options, NULL, NULL, &work.plain, diag));
    INLAY_TRY(tell(&work, 0.1, "loading"));
    INLAY_TRY(settle_goal(&work, args));
    if (args->mode == QUANTIZE_STATIC) {
        INLAY_TRY(find_integers(&work));
        if (work.path[0] != '\0')
            INLAY_TRY(
                judge_pace(&work)); /* the search picked the fastest of several timings, so time the winner again */
    } else {
        INLAY_TRY(isnan(args->prune) ? narrow_weights(&work) : prune_weights(&work));
        if (work.path[0] != '\0')
            INLAY_TRY(judge(&work));
    }
    INLAY_TRY(measure_before(&work));
    if (work.path[0] == '\0')
        INLAY_TRY(save_as_is(&work));
    INLAY_TRY(tell(&work, 1, "writing"));
    if (args->pack)
        INLAY_TRY(pack_tensors(&work));
    status = scratch_publish(&work.scratch, work.path, &report->bytes_after, diag);
done:
    subject_close(&work.before);
    scratch_remove(&work.scratch);
    inlay_options_destroy(work.plain);
    report->seconds = (clock_ms() - begin_ms) * 1e-3;
    return status;
}

void quantize_report_deinit(quantize_report *report)
{
    arena_deinit(&report->arena);
    *report = (quantize_report){ 0 };
}
